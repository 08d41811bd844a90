package gen

import (
	"math"
	"math/rand/v2"

	"github.com/nodeless/nodeless/engine/model"
)

// labelRack is a label of some nodes that no launched node has.
const labelRack = "example.com/rack"

// Constrained returns a small cluster like Random's whose pods also constrain each other. It has few labels and few
// selectors, so that they often match; among them are cycles, contradictions and absurd numbers. It also has host
// ports and volumes, and nodes that run such pods, even where these could not be bound now.
func Constrained(seed uint64) *model.Snapshot {
	r := source{rand.New(rand.NewPCG(seed, 0x636f6e73747261))}
	s := r.snapshot(r.constrainedShape)
	s.Namespaces = []model.Namespace{
		{Name: "default"},
		{Name: "kube-system"},
		{Name: "shop", Labels: []model.Label{{Key: "team", Value: "a"}}},
	}
	for i := range s.Daemons {
		s.Daemons[i].Shape.Namespace = s.Daemons[i].Namespace
		if !r.chance(15) {
			unrelated(&s.Daemons[i].Shape)
		}
	}
	for i := range s.Pending {
		s.Pending[i].Namespace = s.Shapes[s.Pending[i].Shape].Namespace
	}
	for i := range s.Pools {
		for j := range s.Pools[i].Types {
			s.Pools[i].Types[j].AttachLimits = r.attachLimits(40)
		}
	}
	for i := range s.Nodes {
		r.addLabels(s, &s.Nodes[i])
	}
	nominate(s, seed)
	expectDaemonPorts(s, seed)
	return model.Canonical(s)
}

// expectDaemonPorts gives nodes of a third of the seeds a host port that a daemon is yet to take.
func expectDaemonPorts(s *model.Snapshot, seed uint64) {
	r := source{rand.New(rand.NewPCG(seed, 0x6461656d6f6e73))}
	if !r.chance(33) {
		return
	}
	for i := range s.Nodes {
		if r.chance(50) {
			s.Nodes[i].DaemonPorts = []model.HostPort{r.hostPort()}
		}
	}
}

// unrelated removes constraints that daemons seldom have: those on other pods, and volumes.
func unrelated(s *model.Shape) {
	s.Affinity, s.AntiAffinity, s.PreferredPods, s.Spread, s.Volumes = nil, nil, nil, nil, nil
}

// addLabels gives a node attach limits and labels, and its pods their namespaces.
func (r source) addLabels(s *model.Snapshot, n *model.Node) {
	n.AttachLimits = r.attachLimits(60)
	var own []model.Requirement
	if r.chance(60) {
		own = append(own, model.OneOf(model.LabelHostname, n.Name))
	}
	if r.chance(40) {
		own = append(own, model.OneOf(labelRack, pick(r, "1", "2")))
	}
	n.Labels = n.Labels.And(model.NewRequirements(own...))
	for i := range n.Pods {
		p := &n.Pods[i]
		if r.chance(10) {
			p.Shape = -1
			continue
		}
		p.Namespace = s.Shapes[p.Shape].Namespace
	}
}

func (r source) attachLimits(percent int) (out []model.AttachLimit) {
	for _, driver := range []string{"ebs", "efs"} {
		if r.chance(percent) {
			out = append(out, model.AttachLimit{Driver: driver, Max: pick[int64](r, 1, 1, 2, 3, 25, 0, -1)})
		}
	}
	return out
}

func (r source) constrainedShape() model.Shape {
	s := r.shape()
	s.Unmodelled = nil
	s.Namespace = pick(r, "default", "default", "shop")
	s.Labels = []model.Label{{Key: "app", Value: pick(r, "web", "db", "cache")}}
	if r.chance(30) {
		s.Labels = append(s.Labels, model.Label{Key: "tier", Value: pick(r, "1", "2")})
	}
	if r.chance(60) {
		s.Required, s.AnyOf = nil, nil
	}
	if r.chance(3) {
		s.Required = s.Required.And(model.NewRequirements(
			must(model.NewRequirement(model.LabelZone, model.Exists)), must(model.NewRequirement(model.LabelZone,
				model.DoesNotExist))))
	}
	if r.chance(4) {
		s.Required = s.Required.And(model.Requirements{r.requirement(model.NodeNameField, "node-0", "node-1")})
	}
	for r.chance(25) {
		s.Affinity = append(s.Affinity, r.term(&s))
	}
	for r.chance(25) {
		s.AntiAffinity = append(s.AntiAffinity, r.term(&s))
	}
	for r.chance(20) {
		s.PreferredPods = append(s.PreferredPods, model.PodPreference{
			Weight:  pick[int32](r, 1, 50, 100, -1, -100),
			PodTerm: r.term(&s),
		})
	}
	for r.chance(35) {
		s.Spread = append(s.Spread, r.spread(&s))
	}
	for r.chance(15) {
		s.HostPorts = append(s.HostPorts, r.hostPort())
	}
	for r.chance(20) {
		s.Volumes = append(s.Volumes, r.volume())
	}
	if r.chance(4) {
		s.Blocked = "persistentVolumeClaim data does not exist"
	}
	return s
}

func (r source) hostPort() model.HostPort {
	return model.HostPort{
		IP: pick(r, "0.0.0.0", "0.0.0.0", "10.0.0.1", "10.0.0.2"), Protocol: pick(r, "TCP", "TCP", "UDP"),
		Port: pick[int32](r, 8080, 53),
	}
}

func (r source) topology() string {
	return pick(r, model.LabelZone, model.LabelZone, model.LabelZone, model.LabelHostname, model.LabelHostname,
		model.LabelHostname,
		model.LabelCapacityType, labelTeam, labelFamily, labelRack, model.LabelInstanceType)
}

func (r source) term(s *model.Shape) model.PodTerm {
	return model.PodTerm{Topology: r.topology(), Pods: r.selector(s)}
}

func (r source) selector(of *model.Shape) model.Selector {
	s := model.Selector{Namespaces: []string{of.Namespace}}
	switch r.IntN(12) {
	case 0:
		s.Namespaces = []string{"default", "shop"}
	case 1:
		s.Namespaces, s.InMatching = nil, true
	case 2:
		s.Namespaces, s.InMatching = []string{"default"}, true
		s.NamespaceLabels = model.NewRequirements(r.requirement("team", "a", "b"))
	case 3:
		s.Namespaces = []string{"nowhere"}
	}
	switch r.IntN(12) {
	case 0:
	case 1:
		s.Labels = model.NewRequirements(must(model.NewRequirement("app", model.NotIn, "web")))
	case 2:
		s.Labels = model.NewRequirements(model.OneOf("app", "web", "db"), r.requirement("tier", "1", "2"))
	case 3:
		s.Nothing = r.chance(30)
	case 4:
		s.Labels = model.NewRequirements(model.OneOf("app", "web"), model.OneOf("app", "db"))
	case 5, 6, 7:
		s.Labels = model.NewRequirements(model.OneOf("app", of.Labels[0].Value))
	default:
		s.Labels = model.NewRequirements(model.OneOf("app", pick(r, "web", "db", "cache")))
	}
	return s
}

func (r source) spread(of *model.Shape) model.Spread {
	s := model.Spread{
		Topology: r.topology(), MaxSkew: pick[int32](r, 1, 1, 1, 2, 5), Hard: r.chance(60),
		Pods: r.selector(of),
	}
	s.AnyNode, s.Untainted = r.chance(20), r.chance(30)
	if r.chance(20) {
		s.MinDomains = int32(1 + r.IntN(4))
	}
	if r.chance(4) {
		s.MaxSkew = pick[int32](r, 0, -1, math.MaxInt32, math.MinInt32)
	}
	if r.chance(4) {
		s.MinDomains = pick[int32](r, -1, math.MaxInt32, math.MinInt32)
	}
	return s
}

func (r source) volume() model.Volume {
	v := pick(r, // all pods that use a volume see the same properties
		model.Volume{ID: "data-0", Driver: "ebs"}, model.Volume{ID: "data-1", Driver: "ebs"}, model.Volume{
			ID:     "data-2",
			Driver: "ebs", Alone: true,
		},
		model.Volume{ID: "data-3", Driver: "efs"}, model.Volume{ID: "data-4", Driver: "efs", Alone: true},
		model.Volume{ID: "data-5"})
	zones := func(values ...string) model.Requirements {
		return model.Requirements{model.OneOf(model.LabelZone, values...)}
	}
	switch r.IntN(8) {
	case 0, 1:
		v.Topology = []model.Requirements{zones(pick(r, "zone-a", "zone-b"))}
	case 2:
		v.Topology = []model.Requirements{
			zones("zone-a", "zone-b"),
			zones("zone-c").And(model.Requirements{model.OneOf(labelRack, "1")}),
		}
	case 3:
		v.Topology = []model.Requirements{zones("zone-nowhere")}
	}
	return v
}

// Policy returns a random policy; most fields usually have their default.
func Policy(seed uint64) model.Policy {
	r := source{rand.New(rand.NewPCG(seed, 2))}
	p := model.Policy{Solver: pick(r, model.Staged, model.Staged, model.FirstFit), Preferences: pick(r, model.Priced,
		model.Priced, model.Respect, model.Ignore)}
	if r.chance(50) {
		p.PreferencePrice = model.Price(r.IntN(100_000))
	}
	if r.chance(25) {
		p.MaxTypes = 1 + r.IntN(5)
	}
	if r.chance(20) {
		p.MaxSteps = 1 + r.IntN(200)
	}
	if r.chance(20) {
		p.NodeFee = pick[model.Price](r, 5_000, 1_000_000, -1, math.MaxInt64)
	}
	if r.chance(20) {
		p.HasPriorityCutoff, p.PriorityCutoff = true, pick[int32](r, 0, 1, 1000, 1001, math.MinInt32)
	}
	if r.chance(30) {
		p.MinValues = model.BestEffort
	}
	return p
}
