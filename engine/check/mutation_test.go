package check_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
	"github.com/nodeless/nodeless/lab/scenario"
)

// plan is the input of a mutation: its own copy of a snapshot, a policy and a good plan.
type plan struct {
	*model.Snapshot
	model.Policy
	model.Plan
}

// clone returns a copy that is deep enough for the mutations.
func (p *plan) clone(t *testing.T) *plan {
	s := *p.Snapshot
	s.Shapes, s.Nodes, s.Pools = slices.Clone(s.Shapes), slices.Clone(s.Nodes), slices.Clone(s.Pools)
	for i := range s.Pools {
		types := slices.Clone(s.Pools[i].Types)
		for k := range types {
			types[k].Offerings = slices.Clone(types[k].Offerings)
		}
		s.Pools[i].Types = types
	}
	out := &plan{Snapshot: &s, Policy: p.Policy}
	text, err := json.Marshal(p.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out.Plan); err != nil {
		t.Fatal(err)
	}
	return out
}

// launch returns the first launch, its pool and its first type; nil if there is none.
func (p *plan) launch() (*model.Launch, *model.Pool, *model.InstanceType) {
	if len(p.Launches) == 0 {
		return nil, nil, nil
	}
	l := &p.Launches[0]
	pool := poolOf(p.Snapshot, l.Pool)
	i := slices.IndexFunc(pool.Types, func(t model.InstanceType) bool { return t.Name == l.Types[0] })
	return l, pool, &pool.Types[i]
}

// lowerMinValues makes the pool require one type more than the first launch has, and records the relaxation in the
// launch; the claim's minValues differ from the number of types by off.
func (p *plan) lowerMinValues(off int) bool {
	l, pool, _ := p.launch()
	if l == nil {
		return false
	}
	n := len(l.Types)
	any := func(least int) model.Requirements {
		return model.Requirements{{Key: model.LabelInstanceType, Complement: true, MinValues: least}}
	}
	pool.Requirements = pool.Requirements.And(any(n + 1))
	l.Requirements = l.Requirements.And(any(n + off))
	l.Relaxed = []model.Relaxed{{Key: model.LabelInstanceType, From: n + 1, To: n}}
	return true
}

// placed returns the node of the first placement; nil if there is none.
func (p *plan) placed() *model.Node {
	if len(p.Placements) == 0 {
		return nil
	}
	return &p.Nodes[slices.IndexFunc(p.Nodes, func(n model.Node) bool { return n.Name == p.Placements[0].Node })]
}

func (p *plan) shape(k model.PodKey) *model.Shape {
	for i := range p.Pending {
		if p.Pending[i].PodKey == k {
			return &p.Shapes[p.Pending[i].Shape]
		}
	}
	for i := range p.Expected {
		if p.Expected[i].PodKey == k {
			return &p.Shapes[p.Expected[i].Shape]
		}
	}
	return nil
}

// some returns the shape of a placed pod or, if there is none, of a pod with a launch.
func (p *plan) some() *model.Shape {
	switch {
	case len(p.Placements) > 0:
		return p.shape(p.Placements[0].Pod)
	case len(p.Launches) > 0:
		return p.shape(p.Launches[0].Pods[0])
	}
	return nil
}

// twins returns a shape of which one launch has two pods.
func (p *plan) twins() *model.Shape {
	for i := range p.Launches {
		seen := map[*model.Shape]bool{}
		for _, k := range p.Launches[i].Pods {
			s := p.shape(k)
			if seen[s] {
				return s
			}
			seen[s] = true
		}
	}
	return nil
}

var marked = model.Selector{Namespaces: []string{""}, Labels: model.Requirements{model.OneOf("marked", "yes")}}

// mark makes the selector marked match the pods of the shape and no others.
func mark(s *model.Shape) {
	s.Namespace, s.Labels = "", []model.Label{{Key: "marked", Value: "yes"}}
}

// mutation spoils a plan and reports whether it found anything to spoil; check.Plan must then report the broken
// promise.
type mutation struct {
	name, promise string
	spoil         func(*plan) bool
}

var mutations = []mutation{
	{"a DaemonSet takes the room of pods", "fits", func(p *plan) bool {
		l, _, it := p.launch()
		if l == nil {
			return false
		}
		p.Daemons = append(slices.Clone(p.Daemons), model.Daemon{Name: "greedy", Shape: model.Shape{
			Key: "greedy", Requests: it.Allocatable, Tolerations: []model.Toleration{{Exists: true}},
		}})
		return p.requested(l)[model.Pods] > 0
	}},
	{"a pod is answered twice", "answered once", func(p *plan) bool {
		l, _, _ := p.launch()
		if l != nil {
			p.Unplaced = append(p.Unplaced, model.Unplaced{Pod: l.Pods[0], Reason: model.Reason{Rule: model.RuleSteps}})
		}
		return l != nil
	}},
	{"a pod of a launch is forgotten", "answered once", func(p *plan) bool {
		l, _, _ := p.launch()
		if l != nil {
			l.Pods = l.Pods[1:]
		}
		return l != nil
	}},
	{"a placement is forgotten", "answered once", func(p *plan) bool {
		if len(p.Placements) > 0 {
			p.Placements = append(p.Placements[1:],
				model.Placement{Pod: model.PodKey{Name: "stranger"}, Node: p.Placements[0].Node})
		}
		return len(p.Placements) > 0
	}},
	{"a machine for nobody", "answered once", func(p *plan) bool {
		l, _, _ := p.launch()
		if l != nil {
			p.Launches = append(p.Launches, *l)
			p.Launches[len(p.Launches)-1].Pods, p.Launches[len(p.Launches)-1].ID = nil, "another"
		}
		return l != nil
	}},
	{"a machine for what only templates tell of", "expected", func(p *plan) bool {
		l, _, _ := p.launch()
		if l == nil {
			return false
		}
		for _, key := range l.Pods {
			if i := slices.IndexFunc(p.Pending, func(x model.Pod) bool { return x.PodKey == key }); i >= 0 {
				p.Expected = append(p.Expected, p.Pending[i])
				p.Pending = slices.Delete(slices.Clone(p.Pending), i, i+1)
			}
		}
		for i := range p.Expected {
			p.Expected[i].FromTemplate = true
		}
		return true
	}},
	{"no rule says why", "reason", func(p *plan) bool {
		if len(p.Unplaced) > 0 {
			p.Unplaced[0].Reason = model.Reason{}
		}
		return len(p.Unplaced) > 0
	}},
	{"a pool says nothing", "reason", func(p *plan) bool {
		for i := range p.Unplaced {
			if r := &p.Unplaced[i].Reason; len(r.Pools) > 0 {
				r.Pools = r.Pools[1:]
				return len(r.Pools) > 0 ||
					!slices.Contains([]model.Rule{
						model.RuleAffinity, model.RuleAntiAffinity, model.RuleSpread,
						model.RuleHostPort, model.RuleVolumeInUse, model.RuleSteps,
					}, r.Rule)
			}
		}
		return false
	}},
	{"blamed on the cut-off, which there is not", "reason", func(p *plan) bool {
		if len(p.Unplaced) > 0 {
			p.Unplaced[0].Reason = model.Reason{Rule: model.RulePriority}
		}
		return len(p.Unplaced) > 0 && !p.HasPriorityCutoff
	}},
	{"two launches of one identity", "identity", func(p *plan) bool {
		if len(p.Launches) > 1 {
			p.Launches[1].ID = p.Launches[0].ID
		}
		return len(p.Launches) > 1
	}},
	{"a node that is nowhere", "exists", func(p *plan) bool {
		if len(p.Placements) > 0 {
			p.Placements[0].Node = "nowhere"
		}
		return len(p.Placements) > 0
	}},
	{
		"a pool that is nowhere", "exists",
		func(p *plan) bool { return p.onLaunch(func(l *model.Launch) { l.Pool = "nowhere" }) },
	},
	{
		"a type of another world", "exists",
		func(p *plan) bool { return p.onLaunch(func(l *model.Launch) { l.Types = append(l.Types, "x9.huge") }) },
	},
	{
		"a type twice", "exists",
		func(p *plan) bool { return p.onLaunch(func(l *model.Launch) { l.Types = append(l.Types, l.Types[0]) }) },
	},
	{"more types than are allowed", "types", func(p *plan) bool {
		l, _, _ := p.launch()
		if l == nil || len(l.Types) < 2 {
			return false
		}
		p.MaxTypes = len(l.Types) - 1
		return true
	}},
	{"the node is cordoned", "takes pods", func(p *plan) bool {
		return p.onNode(func(n *model.Node) { n.Cordoned = true }) && !tolerates(p.some(), "node.kubernetes.io/unschedulable")
	}},
	{"the node is going", "takes pods", func(p *plan) bool { return p.onNode(func(n *model.Node) { n.Deleting = true }) }},
	{"a taint of the node", "taints", func(p *plan) bool {
		return p.onNode(func(n *model.Node) { n.Taints = []model.Taint{{Key: "planted", Effect: model.NoExecute}} }) &&
			!tolerates(p.some(), "planted")
	}},
	{"a taint of the pool", "taints", func(p *plan) bool {
		l, pool, _ := p.launch()
		if l == nil || tolerates(p.shape(l.Pods[0]), "planted") {
			return false
		}
		pool.Taints = []model.Taint{{Key: "planted", Effect: model.NoSchedule}}
		return true
	}},
	{"the node lacks one of what is asked", "fits", func(p *plan) bool {
		n := p.placed()
		if n == nil {
			return false
		}
		asked := model.Resources{}
		for _, x := range p.Placements {
			if x.Node == n.Name {
				asked = asked.Plus(p.shape(x.Pod).Requests.NonNegative())
			}
		}
		n.Allocatable[model.Pods] = n.Used.NonNegative()[model.Pods] + asked[model.Pods] - 1
		return true
	}},
	{"the type lacks one of what is asked", "fits", func(p *plan) bool {
		l, _, t := p.launch()
		if l == nil {
			return false
		}
		t.Allocatable[model.Pods] = l.Requests[model.Pods] - 1
		// otherwise the daemons that do not run on this type may leave capacity
		return l.Requests[model.Pods] == p.requested(l)[model.Pods]
	}},
	{
		"the chosen price is one too low", "price",
		func(p *plan) bool { return p.onLaunch(func(l *model.Launch) { l.Chosen.Price-- }) },
	},
	{"the price of another offering", "price", func(p *plan) bool {
		l, _, t := p.launch()
		if l == nil {
			return false
		}
		for _, o := range t.Offerings {
			if price := min(max(o.Price, 0), 1<<40); price != l.Chosen.Price {
				l.Chosen.Price = price
				return true
			}
		}
		return false
	}},
	{"a dearer offering is chosen", "price", func(p *plan) bool {
		l, _, t := p.launch()
		if l == nil {
			return false
		}
		for _, o := range t.Offerings {
			if price := min(max(o.Price, 0), 1<<40); price > l.Chosen.Price {
				l.Chosen = model.Candidate{OfferingKey: model.OfferingKey{
					Type: t.Name, Zone: o.Zone,
					CapacityType: o.CapacityType,
				}, Price: price}
				return true
			}
		}
		return false
	}},
	{
		"the runner-up is nowhere", "price",
		func(p *plan) bool { return p.onLaunch(func(l *model.Launch) { l.RunnerUp.Type = "x9.huge" }) },
	},
	{"the type is sold out", "available", func(p *plan) bool {
		l, _, t := p.launch()
		if l == nil || l.Chosen.CapacityType == model.Reserved {
			return false
		}
		for i := range t.Offerings {
			t.Offerings[i].Available = false
		}
		return true
	}},
	{"one machine more than is reserved", "reservation", func(p *plan) bool {
		l, pool, _ := p.launch()
		if l == nil || l.Chosen.CapacityType != model.Reserved || len(pool.Reservations) == 0 {
			return false
		}
		for i := range pool.Reservations {
			pool.Reservations[i].Free = 0
		}
		return true
	}},
	{
		"the pool is not ready", "ready",
		func(p *plan) bool { return p.onPool(func(pool *model.Pool) { pool.NotReady = "no subnets" }) },
	},
	{"one machine more than the limit", "limit", func(p *plan) bool {
		return p.onPool(func(pool *model.Pool) {
			pool.Limits.NodesSet, pool.Limits.Nodes = true, max(pool.NodeCount, 0)
		})
	}},
	{"one millicore more than the limit", "limit", func(p *plan) bool {
		l, pool, t := p.launch()
		if l == nil || t.Capacity[model.CPU] <= 0 || pool.Usage[model.CPU] < 0 {
			return false
		}
		most := int64(0)
		for i := range p.Launches {
			largest := int64(0)
			for _, x := range pool.Types {
				if p.Launches[i].Pool == pool.Name && slices.Contains(p.Launches[i].Types, x.Name) {
					largest = max(largest, x.Capacity[model.CPU])
				}
			}
			most += largest
		}
		pool.Limits.Set[model.CPU], pool.Limits.Max[model.CPU] = true, pool.Usage[model.CPU]+most-1
		return true
	}},
	{"minValues one short", "min values", func(p *plan) bool {
		l, pool, _ := p.launch()
		if l == nil {
			return false
		}
		pool.Requirements = pool.Requirements.And(model.Requirements{{
			Key: model.LabelInstanceType, Complement: true,
			MinValues: len(l.Types) + 1,
		}})
		l.Relaxed = nil
		return true
	}},
	{"minValues lowered for nothing", "min values", func(p *plan) bool {
		p.MinValues = model.BestEffort
		l, _, _ := p.launch()
		if l == nil {
			return false
		}
		l.Relaxed = []model.Relaxed{{Key: "nobody asks", From: 2, To: 1}}
		return true
	}},
	{
		"minValues lowered under Strict", "min values",
		func(p *plan) bool { p.MinValues = model.Strict; return p.lowerMinValues(0) },
	},
	{"minValues lowered, and the claim does not say to what", "min values", func(p *plan) bool {
		p.MinValues = model.BestEffort
		return p.lowerMinValues(1)
	}},
	{"a claim that its pool does not allow", "pool's requirements", func(p *plan) bool {
		return p.onPool(func(pool *model.Pool) {
			pool.Requirements = pool.Requirements.And(model.Requirements{model.OneOf("planted", "yes")})
			p.Launches[0].Requirements = p.Launches[0].Requirements.And(model.Requirements{model.OneOf("planted", "no")})
		})
	}},
	{
		"a bound above the cost", "lower bound",
		func(p *plan) bool { p.LowerBound = math.MaxInt64; return len(p.Launches) > 0 },
	},
	{"a bound below nothing", "lower bound", func(p *plan) bool { p.LowerBound = -1; return true }},
	{"the priority is below the cut-off", "priority", func(p *plan) bool {
		p.HasPriorityCutoff, p.PriorityCutoff = true, math.MaxInt32
		return len(p.Launches) > 0
	}},
	{
		"the pod must wait", "blocked",
		func(p *plan) bool { return p.onShape(func(s *model.Shape) { s.Blocked = "a claim is missing" }) },
	},
	{"the pod cannot be decided", "modelled", func(p *plan) bool {
		return p.onShape(func(s *model.Shape) { s.Unmodelled = []string{"resourceClaims"} })
	}},
	{"a label that is nowhere", "constraints", func(p *plan) bool {
		return p.onShape(func(s *model.Shape) {
			s.Required = s.Required.And(model.Requirements{model.OneOf("planted",
				"yes")})
		})
	}},
	{"a contradiction", "constraints", func(p *plan) bool {
		return p.onShape(func(s *model.Shape) { s.Required = model.Requirements{{Key: "planted", Present: true}} })
	}},
	{"another node's name", "constraints", func(p *plan) bool {
		return p.onShape(func(s *model.Shape) {
			s.Required = model.NewRequirements(model.OneOf(model.NodeNameField,
				"nowhere"))
		})
	}},
	{"the wrong zone of a volume", "volume", func(p *plan) bool {
		return p.onShape(func(s *model.Shape) {
			s.Volumes = []model.Volume{{ID: "v", Topology: []model.Requirements{{model.OneOf(model.LabelZone, "nowhere")}}}}
		})
	}},
	{"one volume more than the node takes", "volume limit", func(p *plan) bool {
		p.onShape(func(s *model.Shape) { s.Volumes = []model.Volume{{ID: "v", Driver: "ebs"}} })
		return p.onNode(func(n *model.Node) { n.AttachLimits, n.Pods = []model.AttachLimit{{Driver: "ebs"}}, nil })
	}},
	{"one volume more than the last type takes", "volume limit", func(p *plan) bool {
		l, pool, _ := p.launch()
		if l == nil {
			return false
		}
		p.shape(l.Pods[0]).Volumes = []model.Volume{{ID: "v", Driver: "ebs"}, {ID: "w", Driver: "ebs"}}
		for i := range pool.Types {
			if pool.Types[i].Name == l.Types[len(l.Types)-1] {
				pool.Types[i].AttachLimits = []model.AttachLimit{{Driver: "ebs", Max: 1}}
			}
		}
		return true
	}},
	{"a volume for one pod, twice", "volume in use", func(p *plan) bool {
		return p.onTwins(func(s *model.Shape) { s.Volumes = []model.Volume{{ID: "v", Alone: true}} })
	}},
	{"a port twice", "host port", func(p *plan) bool {
		return p.onTwins(func(s *model.Shape) { s.HostPorts = []model.HostPort{{IP: "0.0.0.0", Protocol: "TCP", Port: 80}} })
	}},
	{"together, but away from each other", "pod anti-affinity", func(p *plan) bool {
		return p.onTwins(func(s *model.Shape) {
			mark(s)
			s.AntiAffinity = []model.PodTerm{{Topology: model.LabelHostname, Pods: marked}}
		})
	}},
	{"a running pod keeps away those that come", "pod anti-affinity", func(p *plan) bool {
		n := p.placed()
		if n == nil {
			return false
		}
		mark(p.some())
		p.Shapes = append(p.Shapes,
			model.Shape{Key: "guard", AntiAffinity: []model.PodTerm{{Topology: model.LabelHostname, Pods: marked}}})
		n.Pods = append(slices.Clone(n.Pods), model.BoundPod{Pod: model.Pod{Shape: len(p.Shapes) - 1}})
		return true
	}},
	{"a running pod keeps away those of its zone", "pod anti-affinity", func(p *plan) bool {
		l, _, _ := p.launch()
		if l == nil {
			return false
		}
		mark(p.shape(l.Pods[0]))
		p.Shapes = append(p.Shapes,
			model.Shape{Key: "guard", AntiAffinity: []model.PodTerm{{Topology: model.LabelZone, Pods: marked}}})
		p.Nodes = append(p.Nodes, model.Node{
			Name: "planted", State: model.Initialized, Labels: model.Requirements{model.OneOf(model.LabelZone, l.Chosen.Zone)},
			Pods: []model.BoundPod{{Pod: model.Pod{Shape: len(p.Shapes) - 1}}},
		})
		return true
	}},
	{"near a pod that is nowhere", "pod affinity", func(p *plan) bool {
		return p.onShape(func(s *model.Shape) { s.Affinity = []model.PodTerm{{Topology: model.LabelHostname, Pods: marked}} })
	}},
	{"a spread that one machine breaks", "topology spread", func(p *plan) bool {
		p.Nodes = append(p.Nodes, model.Node{Name: "planted", State: model.Initialized})
		return p.onTwins(func(s *model.Shape) {
			mark(s)
			s.Affinity = nil // its pods may have satisfied it by their old labels
			s.Spread = []model.Spread{{Topology: model.LabelHostname, MaxSkew: 1, Hard: true, AnyNode: true, Pods: marked}}
		})
	}},
	{"fewer domains than the least", "topology spread", func(p *plan) bool {
		return p.onTwins(func(s *model.Shape) {
			mark(s)
			s.Affinity = nil // its pods may have satisfied it by their old labels
			s.Spread = []model.Spread{{Topology: model.LabelHostname, MaxSkew: 1, MinDomains: 1 << 20, Hard: true, Pods: marked}}
		})
	}},
	{"a spread over zones, one of them open", "domain open", func(p *plan) bool {
		l, _, _ := p.launch()
		if l == nil {
			return false
		}
		p.shape(l.Pods[0]).Spread = []model.Spread{{Topology: model.LabelZone, MaxSkew: 1 << 20, Hard: true, Pods: marked}}
		zones, _ := l.Requirements.Get(model.LabelZone)
		return len(zones.Values) > 1
	}},
}

func (p *plan) onShape(f func(*model.Shape)) bool {
	s := p.some()
	if s != nil {
		f(s)
	}
	return s != nil
}

func (p *plan) onTwins(f func(*model.Shape)) bool {
	s := p.twins()
	if s != nil {
		f(s)
	}
	return s != nil
}

func (p *plan) onLaunch(f func(*model.Launch)) bool {
	l, _, _ := p.launch()
	if l != nil {
		f(l)
	}
	return l != nil
}

func (p *plan) onPool(f func(*model.Pool)) bool {
	_, pool, _ := p.launch()
	if pool != nil {
		f(pool)
	}
	return pool != nil
}

func (p *plan) onNode(f func(*model.Node)) bool {
	n := p.placed()
	if n != nil {
		f(n)
	}
	return n != nil
}

// requested returns the sum of the requests of a launch's pods, without daemons.
func (p *plan) requested(l *model.Launch) (sum model.Resources) {
	for _, k := range l.Pods {
		sum = sum.Plus(p.shape(k).Requests.NonNegative())
	}
	return sum
}

func tolerates(s *model.Shape, key string) bool {
	return slices.ContainsFunc(s.Tolerations, func(t model.Toleration) bool { return t.Key == "" || t.Key == key })
}

// Every mutation of every good plan must be reported under the name of the promise that it breaks.
func TestPlantedBugsAreCaught(t *testing.T) {
	plant(t, goodPlans(t), mutations)
}

func plant(t *testing.T, plans map[string]*plan, mutations []mutation) {
	t.Helper()
	planted := map[string]int{}
	for name, good := range plans {
		for _, m := range mutations {
			bad := good.clone(t)
			if !m.spoil(bad) {
				continue
			}
			planted[m.name]++
			found := check.Plan(bad.Snapshot, bad.Policy, bad.Plan)
			if !slices.ContainsFunc(found, func(v check.Violation) bool { return v.Promise == m.promise && !v.Unproven }) {
				t.Errorf("%s: %s: want a broken %q, got %v", name, m.name, m.promise, found)
			}
		}
	}
	for _, m := range mutations {
		if planted[m.name] == 0 {
			t.Errorf("%s: no plan let it be planted", m.name)
		}
	}
	t.Logf("%d kinds of bugs, planted %v times", len(mutations), planted)
}

// goodPlans returns plans of engine.Provision for scenarios and for random clusters. Launches without pods have
// mutations of their own.
func goodPlans(t *testing.T) map[string]*plan {
	out := map[string]*plan{}
	add := func(name string, s *model.Snapshot, policy model.Policy) {
		p := &plan{s, policy, engine.Provision(s, policy)}
		if slices.ContainsFunc(s.Pools, func(p model.Pool) bool { return p.Static }) {
			return
		}
		if found := check.Plan(s, policy, p.Plan); len(found) == 0 {
			out[name] = p
		} else {
			t.Logf("%s is not good, and left out: %v", name, found)
		}
	}
	eachScenario(t, add)
	for seed := range uint64(60) {
		add(fmt.Sprintf("seed %d", seed), gen.Random(seed), model.Policy{})
	}
	return out
}

// eachScenario calls add with each of the engine's scenarios.
func eachScenario(t *testing.T, add func(file string, s *model.Snapshot, policy model.Policy)) {
	t.Helper()
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(raw), "\n----------\n")
		s, policy, err := scenario.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		add(filepath.Base(file), s, policy)
	}
}
