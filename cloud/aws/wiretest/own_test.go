package wiretest

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/nodesim"
)

// A laboratory has its own instance types, labels and kind of node class. All of them work over the wire as EC2's do.
func TestTypesLabelsAndClassesOfOnesOwn(t *testing.T) {
	own := catalog.Own{Zones: []string{"lab-a", "lab-b"}, Types: []catalog.OwnType{
		{Name: "small", VCPU: 2, MemoryMiB: 4096, Pods: 32, OnDemand: 0.05},
		{Name: "big", VCPU: 16, MemoryMiB: 65536, Pods: 64, OnDemand: 0.5, OS: "windows"},
	}}
	offers, err := own.Region()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlaceWith(t, func(c *region.Config) { c.Offers = offers })
	p.classes["default"].TypeMeta = metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "LabClass"}
	provider := p.connectWith(t, func(o *aws.Options) {
		o.TypeLabels = func(name string) map[string]string {
			labels := map[string]string{"example.com/rack": "rack-" + name}
			if name == "big" {
				labels[model.LabelOS] = "windows"
			}
			return labels
		}
	})
	class := cloud.ClassRef{Group: "example.com", Kind: "LabClass", Name: "default"}
	types, err := provider.Catalog(t.Context(), class)
	if err != nil || len(types) != 2 {
		t.Fatalf("%d types, %v", len(types), err)
	}
	if small := types[1]; small.Name != "small" || small.Capacity[model.Memory] != 4096<<20 ||
		small.Capacity[model.Pods] != 32 ||
		len(small.Offerings) != 2 ||
		small.Offerings[0] != (model.Offering{
			Zone: "lab-a", CapacityType: model.OnDemand, Price: 50_000 + 2_192, SidePrice: 2_192, Available: true,
		}) {
		t.Errorf("small is %+v", small)
	}
	result, err := provider.Launch(t.Context(), cloud.LaunchRequest{
		Token: "t", Claim: "c", Pool: "general", Class: class, Labels: map[string]string{},
		Requirements: model.NewRequirements(model.OneOf("example.com/rack", "rack-big")),
	})
	if err != nil {
		t.Fatal(err)
	}
	if m := result.Instance; m.Type != "big" || m.Labels["example.com/rack"] != "rack-big" ||
		m.Labels[model.LabelOS] != "windows" || m.Class != "labclass/default" {
		t.Errorf("launched %+v", m)
	}
	instance, _ := p.region.Instance(result.Instance.ID)
	if text := string(instance.UserData); !strings.Contains(text, "example.com/labclass=default") ||
		strings.Contains(text, "ec2nodeclass") {
		t.Errorf("the Node will not say its class: %s", text)
	}
	capacity, allocatable, err := nodesim.Resources(nodesim.Instance{
		Type:     p.region.Type("big"),
		UserData: instance.UserData,
	})
	if err != nil {
		t.Fatal(err)
	}
	sameAmounts(t, "capacity", result.Instance.Capacity, capacity)
	sameAmounts(t, "allocatable", result.Instance.Allocatable, allocatable)
	if _, err := provider.Launch(t.Context(), cloud.LaunchRequest{
		Token: "u", Claim: "d", Class: class,
		Requirements: model.NewRequirements(model.OneOf("example.com/rack", "rack-none")),
	}); err == nil {
		t.Error("a type that nobody has was launched")
	}
}
