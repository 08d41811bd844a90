package gen

import (
	"fmt"
	"math/rand/v2"

	"github.com/nodeless/nodeless/engine/model"
)

// Diverse returns the mix of pods that Karpenter's scheduling benchmark uses
// (sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling): a fifth each of plain pods, pods that spread over
// zones, pods that spread over nodes, pods with zone affinity and pods with node anti-affinity to their own kind.
// types is the number of types from Catalog; there are no nodes. Equal arguments give equal snapshots.
func Diverse(pods, types int) *model.Snapshot {
	r := source{rand.New(rand.NewPCG(42, 3))}
	s := Large(0, 0)
	s.Pools[0].Types = every(s.Pools[0].Types, types)
	at := map[string]int{}
	for i := range pods {
		shape := r.diverse(i * 5 / max(pods, 1))
		k := model.KeyOf(&shape)
		if _, known := at[k]; !known {
			at[k] = len(s.Shapes)
			s.Shapes = append(s.Shapes, shape)
		}
		name := fmt.Sprintf("pod-%06d", i)
		s.Pending = append(s.Pending, model.Pod{
			PodKey: model.PodKey{Namespace: "default", Name: name, UID: "uid-" + name},
			Shape:  at[k],
		})
	}
	return model.Canonical(s)
}

// every returns n of the types, evenly spaced.
func every(types []model.InstanceType, n int) []model.InstanceType {
	if n >= len(types) {
		return types
	}
	out := make([]model.InstanceType, n)
	for i := range out {
		out[i] = types[i*len(types)/n]
	}
	return out
}

// diverse returns a shape of one of the five kinds.
func (r source) diverse(kind int) model.Shape {
	s := model.Shape{Namespace: "default", Requests: model.Resources{
		model.CPU: pick[int64](r, 100, 250, 500, 1000, 1500), model.Memory: pick[int64](r, 100, 256, 512, 1024, 2048,
			4096) << 20, model.Pods: 1,
	}}
	label := func(key string) model.Label {
		return model.Label{Key: key, Value: pick(r, "a", "b", "c", "d", "e", "f", "g")}
	}
	only := func(l model.Label) model.Selector {
		return model.Selector{Namespaces: []string{"default"}, Labels: model.Requirements{model.OneOf(l.Key, l.Value)}}
	}
	switch kind {
	case 1, 2:
		key := model.LabelZone
		if kind == 2 {
			key = model.LabelHostname
		}
		s.Labels = []model.Label{label("my-label")}
		s.Spread = []model.Spread{{Topology: key, MaxSkew: 1, Hard: true, Pods: only(label("my-label"))}}
	case 3:
		s.Labels = []model.Label{label("my-affinity")}
		s.Affinity = []model.PodTerm{{Topology: model.LabelZone, Pods: only(s.Labels[0])}}
	case 4:
		s.Labels = []model.Label{{Key: "app", Value: "nginx"}}
		s.AntiAffinity = []model.PodTerm{{Topology: model.LabelHostname, Pods: only(s.Labels[0])}}
	default:
		s.Labels = []model.Label{label("my-label")}
	}
	return s
}
