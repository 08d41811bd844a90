package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	kwokoptions "sigs.k8s.io/karpenter/kwok/options"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// kwokTypes are the instance types of Karpenter's kwok provider, read from its module, in the format of `nodeless up
// --types`.
type kwokTypes struct {
	Zones []string   `json:"zones"`
	Types []kwokType `json:"types"`
}

type kwokType struct {
	Name      string            `json:"name"`
	VCPU      int64             `json:"vcpu"`
	MemoryMiB int64             `json:"memoryMiB"`
	Arch      string            `json:"arch"`
	OS        string            `json:"os"`
	Pods      int64             `json:"pods"`
	OnDemand  float64           `json:"onDemand"`
	Spot      float64           `json:"spot"`
	Labels    map[string]string `json:"labels"`
}

func (c *cluster) typesFile() string { return filepath.Join(c.o.Dir, "types.json") }

// kwokFlags returns the flags that add KWOKNodeClass to the node classes of the controller under test.
func (c *cluster) kwokFlags() []string {
	if c.o.EC2 {
		return nil
	}
	return []string{
		"--types", c.typesFile(), "--class-kind",
		filepath.Join(c.o.Root, "lab", "conformance", "kwok", "nodeclass.yaml"),
	}
}

// writeTypes writes the types to a file.
func writeTypes(path string) error {
	types, err := kwok.ConstructInstanceTypes(kwokoptions.ToContext(context.Background(), &kwokoptions.Options{}))
	if err != nil {
		return fmt.Errorf("types of Karpenter's kwok provider: %w", err)
	}
	var all kwokTypes
	for _, t := range types {
		all.Types = append(all.Types, kwokTypeOf(t))
		for _, o := range t.Offerings {
			if zone := o.Zone(); !slices.Contains(all.Zones, zone) {
				all.Zones = append(all.Zones, zone)
			}
		}
	}
	slices.Sort(all.Zones)
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("types of Karpenter's kwok provider: %w", err)
	}
	return os.WriteFile(path, text, 0o600)
}

func kwokTypeOf(t *cloudprovider.InstanceType) kwokType {
	out := kwokType{
		Name: t.Name, VCPU: t.Capacity.Cpu().Value(), MemoryMiB: t.Capacity.Memory().Value() >> 20,
		Pods: t.Capacity.Pods().Value(),
		Arch: t.Requirements.Get(corev1.LabelArchStable).Any(), OS: t.Requirements.Get(corev1.LabelOSStable).Any(),
		Labels: map[string]string{},
	}
	for _, o := range t.Offerings { // the same in every zone
		if o.CapacityType() == karpv1.CapacityTypeSpot {
			out.Spot = o.Price
		} else {
			out.OnDemand = o.Price
		}
	}
	for _, r := range t.Requirements {
		switch r.Key {
		case corev1.LabelInstanceTypeStable, corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelTopologyZone,
			karpv1.CapacityTypeLabelKey:
			continue // passed in other fields
		}
		if r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
			out.Labels[r.Key] = r.Any()
		}
	}
	return out
}
