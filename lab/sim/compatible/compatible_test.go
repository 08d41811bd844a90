package compatible

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// ladder returns types of 2, 4, 8 and 16 cores, with 4 GiB a core, and one of 32 cores at a premium price.
func ladder() []model.InstanceType {
	var out []model.InstanceType
	add := func(name string, cores int64, dollars float64) {
		r := model.Resources{model.CPU: cores * 1000, model.Memory: cores * 4 << 30, model.Pods: 110}
		out = append(out, model.InstanceType{
			Name: name, Capacity: r, Allocatable: r,
			Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, name)),
			Offerings: []model.Offering{{
				Zone: "a", CapacityType: model.OnDemand, Price: model.Price(dollars * 1e6),
				Available: true,
			}},
		})
	}
	add("m.16", 16, 1.6)
	add("m.2", 2, 0.2)
	add("m.4", 4, 0.4)
	add("m.8", 8, 0.8)
	add("x.32", 32, 5)
	return out
}

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func cluster(cores ...int64) *model.Snapshot {
	s := &model.Snapshot{Now: now, ResourceNames: model.WellKnownResources, Pools: []model.Pool{{
		Name: "default", Types: ladder(), Requirements: model.NewRequirements(model.OneOf(model.LabelPool, "default")),
		Disruption: model.DisruptionPolicy{AllowedEmpty: 10, AllowedUnderused: 10},
	}}}
	for i := range int64(32) {
		s.Shapes = append(s.Shapes, model.Shape{
			Key:      fmt.Sprintf("%02d cores", i+1),
			Requests: model.Resources{model.CPU: (i + 1) * 1000, model.Memory: (i + 1) << 30, model.Pods: 1},
		})
	}
	for i, c := range cores {
		s.Pending = append(s.Pending, pod(fmt.Sprintf("pod-%03d", i), c))
	}
	return s
}

func pod(name string, cores int64) model.Pod {
	return model.Pod{
		PodKey: model.PodKey{Namespace: "default", Name: name, UID: name}, Shape: int(cores - 1),
		Created: now.Add(-time.Hour),
	}
}

// node adds a node of a type, with pods that have the given numbers of cores.
func node(s *model.Snapshot, typ string, cores ...int64) *model.Node {
	n := model.Node{
		Pool: "default", Type: typ, Zone: "a", CapacityType: model.OnDemand, State: model.Initialized,
		Initialized: now.Add(-time.Hour),
	}
	n.Name = fmt.Sprintf("node-%02d", len(s.Nodes))
	n.Claim = n.Name
	for _, t := range s.Pools[0].Types {
		if t.Name == typ {
			n.Capacity, n.Allocatable, n.Price = t.Capacity, t.Allocatable, t.Offerings[0].Price
		}
	}
	for i, c := range cores {
		p := pod(fmt.Sprintf("%s-pod-%d", n.Name, i), c)
		n.Pods = append(n.Pods, model.BoundPod{Pod: p, EvictionCost: 1000})
		n.Used = n.Used.Plus(s.Shapes[p.Shape].Requests)
	}
	s.Nodes = append(s.Nodes, n)
	return &s.Nodes[len(s.Nodes)-1]
}

// told formats a plan in short form.
func told(p model.Plan) string {
	var out []string
	for _, x := range p.Placements {
		out = append(out, x.Pod.Name+"@"+x.Node)
	}
	for _, l := range p.Launches {
		out = append(out, fmt.Sprintf("%s:%d", l.Chosen.Type, len(l.Pods)))
	}
	for _, u := range p.Unplaced {
		out = append(out, u.Pod.Name+"!")
	}
	for _, r := range p.Removals {
		out = append(out, "-"+r.Node)
	}
	for _, c := range p.Commands {
		var names []string
		for _, r := range c.Removals {
			names = append(names, r.Node)
		}
		text := strings.Join(names, "+") + ">"
		for _, l := range c.Launches {
			text += l.Chosen.Type
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// A NodeClaim grows until no type can hold it, then the cheapest type that holds it is chosen: 20 cores get the
// expensive node at 5.0, though 16 + 4 would do for 2.0.
func TestAClaimGrowsUntilNoTypeFits(t *testing.T) {
	if got := told(Provision(cluster(4, 4, 4, 4, 4))); got != "x.32:5" {
		t.Errorf("got %s", got)
	}
	if got := told(Provision(cluster(20, 20, 2))); got != "x.32:2 x.32:1" {
		t.Errorf("two that do not go together, and a small one on the first: %s", got)
	}
	if got := told(Provision(cluster(1, 1))); got != "m.2:2" {
		t.Errorf("got %s", got)
	}
}

func TestRoomThatIsThereComesFirst(t *testing.T) {
	s := cluster(2, 1)
	node(s, "m.4", 1).Deleting = true
	node(s, "m.4", 3)
	node(s, "m.4", 2)
	if got := told(Provision(s)); got != "pod-000@node-02 pod-001@node-01" {
		t.Errorf("got %s", got)
	}
}

func TestEmptyNodesAreRemovedFirstAndTogether(t *testing.T) {
	s := cluster()
	node(s, "m.4")
	node(s, "m.4", 1)
	node(s, "m.8")
	node(s, "m.8").NominatedUntil = now.Add(time.Second)
	if got := told(Disrupt(s)); got != "-node-00 -node-02" {
		t.Errorf("got %s", got)
	}
}

// Three nodes of 8 cores with 2 cores each: the longest prefix that can be replaced by at most one node is two of
// them.
func TestSeveralNodesAreReplacedByOne(t *testing.T) {
	s := cluster()
	for range 3 {
		node(s, "m.8", 2)
	}
	// 6 cores need an m.8, the type of the removed nodes, which is not cheaper than one of them. So not all three are
	// removed, but two of them, whose pods fit on the third.
	if got := told(Disrupt(s)); got != "node-00+node-01>" {
		t.Errorf("got %s", got)
	}
	s = cluster()
	node(s, "m.8", 2)
	node(s, "m.8", 2)
	if got := told(Disrupt(s)); got != "node-00+node-01>m.4" {
		t.Errorf("got %s", got)
	}
}

func TestASingleNodeIsReplacedByACheaperOne(t *testing.T) {
	s := cluster()
	node(s, "m.16", 3)
	if got := told(Disrupt(s)); got != "node-00>m.4" {
		t.Errorf("got %s", got)
	}
	s = cluster()
	node(s, "m.4", 3)
	if got := told(Disrupt(s)); got != "" {
		t.Errorf("nothing is cheaper: %s", got)
	}
}

// A node is replaced by one node: replacing it by two cheaper ones is not tried (K1442).
func TestOneNodeIsNotReplacedByTwo(t *testing.T) {
	s := cluster()
	node(s, "x.32", 16, 4)
	if got := told(Disrupt(s)); got != "" {
		t.Errorf("got %s", got)
	}
}

func TestBudgetsAndConsolidateAfterHold(t *testing.T) {
	s := cluster()
	for range 4 {
		node(s, "m.8", 1)
	}
	s.Pools[0].Disruption.AllowedUnderused = 2
	if got := told(Disrupt(s)); strings.Count(got, "node-") > 2 {
		t.Errorf("more than the budget: %s", got)
	}
	s.Pools[0].Disruption.AllowedUnderused = 0
	if got := told(Disrupt(s)); got != "" {
		t.Errorf("without a budget: %s", got)
	}
	s.Pools[0].Disruption = model.DisruptionPolicy{AllowedEmpty: 4, AllowedUnderused: 4, ConsolidateAfter: 2 * time.Hour}
	if got := told(Disrupt(s)); got != "" {
		t.Errorf("inside consolidateAfter: %s", got)
	}
}

// The engine's compatible mode costs what Karpenter's scheduler costs (docs/benchmarks.md), and so does this.
// Karpenter leaves open which of two NodeClaims with equally many pods comes first, so single plans may differ.
func TestItCostsWhatTheCompatibleModeCosts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var sum, want model.Price
	for n := range 200 {
		var cores []int64
		for range 1 + n {
			cores = append(cores, 1+random.Int64N(12))
		}
		s := cluster(cores...)
		for i := range n % 5 {
			node(s, []string{"m.4", "m.8", "m.16"}[i%3], 1+random.Int64N(3))
		}
		ours, theirs := Provision(s), engine.Provision(s, model.Policy{Solver: model.FirstFit})
		sum, want = sum+price(ours), want+price(theirs)
		if len(ours.Placements) != len(theirs.Placements) {
			t.Fatalf("%d pods: %d placed, by the compatible mode %d", len(cores), len(ours.Placements), len(theirs.Placements))
		}
	}
	if off := float64(sum)/float64(want) - 1; off > 0.01 || off < -0.01 {
		t.Errorf("costs %.2f, the compatible mode %.2f", sum.Dollars(), want.Dollars())
	}
}

func price(p model.Plan) (sum model.Price) {
	for i := range p.Launches {
		sum += p.Launches[i].Chosen.Price
	}
	return sum
}
