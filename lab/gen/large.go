package gen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// families of Catalog: GiB of memory per core, price per core-hour in millionths of a dollar (the order of
// magnitude of EC2 in us-east-1), and architecture.
var families = []struct {
	name string
	gib  int64
	core int64
	arch string
}{
	{"c", 2, 42_500, "amd64"},
	{"m", 4, 48_000, "amd64"},
	{"r", 8, 63_000, "amd64"},
	{"cg", 2, 36_300, "arm64"},
	{"mg", 4, 40_800, "arm64"},
	{"rg", 8, 53_600, "arm64"},
	{"ca", 2, 45_600, "amd64"},
	{"ma", 4, 54_000, "amd64"},
}

// sizes of a family, in cores.
var sizes = []int64{1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192}

// Catalog returns the instance types of a region: eight families in nine generations and eleven sizes, 792 types,
// each in three zones, on demand and as spot.
func Catalog() []model.InstanceType {
	var out []model.InstanceType
	for _, f := range families {
		for generation := int64(1); generation <= 9; generation++ {
			for _, cores := range sizes {
				out = append(out, typeOf(f.name, f.gib, f.core-generation*200, f.arch, generation, cores))
			}
		}
	}
	slices.SortFunc(out, func(a, b model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func typeOf(family string, gib, core int64, arch string, generation, cores int64) model.InstanceType {
	name := fmt.Sprintf("%s%d.%dx", family, generation, cores)
	memory := cores * gib << 30
	t := model.InstanceType{
		Name: name,
		Requirements: model.NewRequirements(
			model.OneOf(model.LabelArch, arch), model.OneOf(model.LabelOS, "linux"), model.OneOf(model.LabelInstanceType, name),
			model.OneOf("example.com/family", family), model.OneOf("example.com/generation", fmt.Sprint(generation)),
			model.OneOf("example.com/cores", fmt.Sprint(cores)), model.OneOf("example.com/memory", fmt.Sprint(cores*gib<<10)),
		),
		Capacity: model.Resources{
			model.CPU: cores * 1000, model.Memory: memory, model.EphemeralStorage: 20 << 30,
			model.Pods: min(110, 20+cores*8),
		},
	}
	t.Allocatable = t.Capacity.Minus(model.Resources{
		model.CPU: 60 + cores*5, model.Memory: memory/13 + 600<<20,
		model.EphemeralStorage: 3 << 30,
	})
	for z, zone := range []string{"a", "b", "c"} {
		full := model.Price(core * cores)
		spot := full * model.Price(30+(int64(z)*7+generation*5+cores)%20) / 100
		t.Offerings = append(t.Offerings,
			model.Offering{Zone: "zone-" + zone, CapacityType: model.OnDemand, Price: full, Available: true},
			model.Offering{Zone: "zone-" + zone, CapacityType: model.Spot, Price: spot, Available: true})
	}
	return t
}

// Large returns a cluster for benchmarks, without nodes, that has this number of pending pods of this number of
// shapes.
func Large(pods, shapes int) *model.Snapshot {
	s := &model.Snapshot{
		Now:           time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		ResourceNames: model.WellKnownResources,
		Pools: []model.Pool{{
			Name: "general-purpose",
			Requirements: model.NewRequirements(model.OneOf(model.LabelOS, "linux"), model.OneOf(model.LabelCapacityType,
				model.Spot, model.OnDemand)),
			Types: Catalog(),
		}},
	}
	for i := range shapes {
		n := int64(i)
		shape := model.Shape{Requests: model.Resources{
			model.CPU: 100 + n*137%1900, model.Memory: (128 + n*311%4000) << 20, model.Pods: 1,
		}}
		if shapes == 1 {
			shape.Requests = model.Resources{model.CPU: 1000, model.Pods: 1}
		}
		switch i % 10 {
		case 3:
			shape.Required = model.NewRequirements(model.OneOf(model.LabelArch, "arm64"))
		case 7:
			shape.Required = model.NewRequirements(model.OneOf(model.LabelZone, "zone-b"))
		case 9:
			shape.Required = model.NewRequirements(model.OneOf(model.LabelCapacityType, model.OnDemand))
		}
		s.Shapes = append(s.Shapes, shape)
	}
	for i := range pods {
		s.Pending = append(s.Pending, model.Pod{
			PodKey: model.PodKey{Namespace: "default", Name: fmt.Sprintf("pod-%06d", i), UID: fmt.Sprintf("uid-%06d", i)},
			Shape:  i % shapes,
		})
	}
	return model.Canonical(s)
}
