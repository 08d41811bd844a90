package gen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Labels of random snapshots in addition to the well-known ones: team belongs to pools, family and cores to types.
const (
	labelTeam   = "example.com/team"
	labelFamily = "example.com/family"
	labelCores  = "example.com/cores"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type source struct{ *rand.Rand }

func (r source) chance(percent int) bool { return r.IntN(100) < percent }

func pick[T any](r source, from ...T) T { return from[r.IntN(len(from))] }

// Random returns a small cluster in which every constraint on pods and nodes occurs occasionally, sometimes with
// absurd numbers. Equal seeds give equal snapshots. Constrained adds constraints between pods.
func Random(seed uint64) *model.Snapshot {
	r := source{rand.New(rand.NewPCG(seed, 0x6e6f64656c657373))}
	s := r.snapshot(r.shape)
	nominate(s, seed)
	rejuvenate(s, seed)
	return model.Canonical(s)
}

// nominate nominates pods of a third of the seeds to nodes, on which they may no longer fit.
func nominate(s *model.Snapshot, seed uint64) {
	r := source{rand.New(rand.NewPCG(seed, 0x6e6f6d696e617465))}
	if len(s.Nodes) == 0 || !r.chance(33) {
		return
	}
	for i := range s.Pending {
		if r.chance(50) {
			s.Pending[i].Nominated = s.Nodes[r.IntN(len(s.Nodes))].Name
		}
	}
}

// rejuvenate makes running and pending pods of a third of the seeds young.
func rejuvenate(s *model.Snapshot, seed uint64) {
	r := source{rand.New(rand.NewPCG(seed, 0x636875726e))}
	if !r.chance(33) {
		return
	}
	young := func() time.Time { return s.Now.Add(-time.Duration(r.IntN(60)) * time.Second) }
	for i := range s.Pending {
		s.Pending[i].Created = young()
	}
	for i := range s.Nodes {
		for k := range s.Nodes[i].Pods {
			s.Nodes[i].Pods[k].Created = young()
		}
	}
}

// snapshot returns a cluster with shapes that shape returns.
func (r source) snapshot(shape func() model.Shape) *model.Snapshot {
	s := &model.Snapshot{Now: epoch.Add(time.Hour), ResourceNames: model.WellKnownResources}
	types := r.types()
	for i := range r.IntN(4) {
		s.Pools = append(s.Pools, r.pool(fmt.Sprintf("pool-%d", i), types))
	}
	for i := range r.IntN(3) {
		shape := shape()
		shape.Requests = model.Resources{model.CPU: 50, model.Memory: 64 << 20, model.Pods: 1}
		s.Daemons = append(s.Daemons, model.Daemon{Namespace: "kube-system", Name: fmt.Sprintf("daemon-%d", i), Shape: shape})
	}
	for range 1 + r.IntN(8) {
		s.Shapes = append(s.Shapes, shape())
	}
	for i := range r.IntN(60) {
		s.Pending = append(s.Pending, r.pod(s, fmt.Sprintf("waiting-%02d", i)))
	}
	for i := range r.IntN(8) {
		s.Nodes = append(s.Nodes, r.node(s, fmt.Sprintf("node-%d", i), types))
	}
	return s
}

func (r source) types() []model.InstanceType {
	var out []model.InstanceType
	for i, n := 0, r.IntN(14); i < n; i++ {
		f := pick(r, families...)
		t := typeOf(f.name, f.gib, f.core, f.arch, int64(i), pick(r, sizes[:8]...))
		if r.chance(15) {
			t.Capacity[model.NvidiaGPU], t.Allocatable[model.NvidiaGPU] = 2, 2
		}
		for j := range t.Offerings {
			t.Offerings[j].Available = !r.chance(15)
			if r.chance(3) {
				t.Offerings[j].Price = pick[model.Price](r, 0, -5, math.MaxInt64, math.MinInt64)
			}
		}
		if r.chance(5) {
			t.Offerings = nil
		}
		if r.chance(3) {
			t.Allocatable[model.Memory] = pick[int64](r, -1, 0, math.MaxInt64, math.MinInt64)
		}
		out = append(out, t)
	}
	return out
}

func (r source) pool(name string, types []model.InstanceType) model.Pool {
	p := model.Pool{Name: name, Weight: int32(r.IntN(3)), Types: types, NodeCount: int64(r.IntN(4))}
	p.Requirements = r.poolRequirements()
	if r.chance(25) {
		effect := pick(r, model.NoSchedule, model.NoExecute, model.PreferNoSchedule)
		p.Taints = []model.Taint{{Key: "gpu", Value: "true", Effect: effect}}
	}
	if r.chance(30) {
		p.Limits.Set[model.CPU], p.Limits.Max[model.CPU] = true, int64(r.IntN(80_000))
		p.Usage[model.CPU] = int64(r.IntN(20_000))
	}
	if r.chance(10) {
		p.Limits.Set[model.Memory], p.Limits.Max[model.Memory] = true, pick[int64](r, 64<<30, -1, math.MaxInt64)
	}
	if r.chance(15) {
		p.Limits.NodesSet, p.Limits.Nodes = true, int64(r.IntN(8))
	}
	if r.chance(7) {
		p.NotReady = "EC2NodeClass default is not ready"
	}
	if r.chance(5) {
		p.Types = nil
	}
	p.Disruption = model.DisruptionPolicy{
		ConsolidateAfter: time.Duration(r.IntN(90)) * time.Minute, Never: r.chance(10),
		AllowedEmpty: r.IntN(4), AllowedDrifted: r.IntN(3),
	}
	return p
}

func (r source) poolRequirements() model.Requirements {
	var out []model.Requirement
	if r.chance(40) {
		types := pick(r, []string{model.Spot}, []string{model.Spot, model.OnDemand})
		out = append(out, model.OneOf(model.LabelCapacityType, types...))
	}
	if r.chance(30) {
		out = append(out, model.OneOf(model.LabelZone, pick(r, "zone-a", "zone-b"), "zone-c"))
	}
	if r.chance(30) {
		out = append(out, model.OneOf(model.LabelArch, pick(r, "arm64", "amd64")))
	}
	if r.chance(40) {
		out = append(out, r.requirement(labelTeam, "red", "blue", "green"))
	}
	if r.chance(20) {
		flexible := must(model.NewRequirement(pick(r, labelFamily, model.LabelInstanceType, model.LabelZone), model.Exists))
		flexible.MinValues = 1 + r.IntN(3)
		out = append(out, flexible)
	}
	return model.NewRequirements(out...)
}

func (r source) requirement(key string, values ...string) model.Requirement {
	op := pick(r, model.In, model.In, model.In, model.NotIn, model.Exists, model.DoesNotExist)
	var some []string
	if op == model.In || op == model.NotIn {
		some = values[:1+r.IntN(len(values))]
	}
	return must(model.NewRequirement(key, op, some...))
}

func (r source) podRequirement() model.Requirement {
	switch r.IntN(7) {
	case 0:
		return r.requirement(model.LabelZone, pick(r, "zone-a", "zone-b"), "zone-c")
	case 1:
		return r.requirement(model.LabelArch, pick(r, "arm64", "amd64"))
	case 2:
		return r.requirement(model.LabelCapacityType, model.OnDemand)
	case 3:
		return r.requirement(labelTeam, pick(r, "red", "blue"), "green")
	case 4:
		return r.requirement(labelFamily, pick(r, "c", "m", "r"), "mg")
	case 5:
		return must(model.NewRequirement(labelCores, pick(r, model.Gt, model.Lt, model.Gte, model.Lte),
			pick(r, "2", "8", "16")))
	}
	return r.requirement(model.LabelPool, "pool-0", "pool-1")
}

func (r source) requirements(percent int) model.Requirements {
	var out []model.Requirement
	for r.chance(percent) {
		out = append(out, r.podRequirement())
	}
	return model.NewRequirements(out...)
}

func (r source) shape() model.Shape {
	s := model.Shape{
		Requests: model.Resources{model.CPU: int64(r.IntN(6000)), model.Memory: int64(r.IntN(16<<10)) << 20, model.Pods: 1},
		Required: r.requirements(25),
	}
	for r.chance(25) {
		s.AnyOf = append(s.AnyOf, r.requirements(70))
	}
	for r.chance(20) {
		s.Preferred = append(s.Preferred, model.Preference{Weight: int32(1 + r.IntN(100)), Terms: r.requirements(80)})
	}
	if r.chance(30) {
		s.Tolerations = append(s.Tolerations, pick(r, model.Toleration{Exists: true},
			model.Toleration{Key: "gpu", Exists: true}, model.Toleration{Key: "gpu", Value: "true", Effect: model.NoSchedule}))
	}
	if r.chance(8) {
		s.Requests[model.NvidiaGPU] = 1
	}
	if r.chance(3) {
		s.Requests[r.IntN(model.MaxResources)] = pick[int64](r, -1, math.MaxInt64, math.MinInt64, 1<<62)
	}
	if r.chance(4) {
		s.Unmodelled = []string{"topologySpreadConstraints"}
	}
	return s
}

func (r source) pod(s *model.Snapshot, name string) model.Pod {
	return model.Pod{
		PodKey: model.PodKey{Namespace: pick(r, "default", "shop"), Name: name, UID: "uid-" + name},
		Shape:  r.IntN(len(s.Shapes)), Priority: int32(r.IntN(2) * 1000),
		Created: epoch.Add(time.Duration(r.IntN(60)) * time.Second),
	}
}

func must(q model.Requirement, err error) model.Requirement {
	if err != nil {
		panic(err)
	}
	return q
}
