package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/trace"
)

func traceOf(t *testing.T, rows string) *trace.Trace {
	t.Helper()
	out, err := trace.Read(strings.NewReader("start,life,cpu,memory,count\n" + rows))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ladder returns types of 2 to 16 cores at 0.05 dollars a core, without overhead.
func ladder() []model.InstanceType {
	var out []model.InstanceType
	for _, cores := range []int64{16, 2, 4, 8} {
		r := model.Resources{model.CPU: cores * 1000, model.Memory: cores * 4 << 30, model.Pods: 110}
		name := fmt.Sprintf("m.%d", cores)
		out = append(out, model.InstanceType{
			Name: name, Capacity: r, Allocatable: r,
			Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, name)),
			Offerings: []model.Offering{{
				Zone: "a", CapacityType: model.OnDemand, Price: model.Price(cores * 50_000),
				Available: true,
			}},
		})
	}
	return out
}

// plain has nodes that are ready after exactly 40 s, no daemons, and checks every plan.
func plain(tr *trace.Trace, d Decider) Config {
	return Config{
		Trace: tr, Types: ladder(), Decider: d, Daemons: []model.Resources{}, Spread: -1, CheckEvery: 1,
		audit: audit,
	}
}

// audit panics if the cluster is in an impossible state.
func audit(r *run) {
	where, reserved := map[int32]bool{}, map[*node]bool{}
	for i, n := range r.nodes {
		used := n.daemons
		for k, id := range n.pods {
			if where[id] || r.pods[id].node != n || n.Pods[k].PodKey != r.pods[id].key {
				panic(fmt.Sprintf("pod %d is on two nodes, or is not on %s", id, n.Name))
			}
			where[id] = true
			used = used.Plus(r.shapes[r.pods[id].shape].Requests)
		}
		if !used.Fits(n.Allocatable) {
			panic(fmt.Sprintf("%s: %v used of %v", n.Name, used, n.Allocatable))
		}
		if n.Used != used || len(n.pods) != len(n.Pods) {
			panic(n.Name + " is not in snapshots as it is")
		}
		shown := n.Node
		if n.leaving() {
			shown.Pods, shown.Used = nil, n.daemons
		}
		if !n.stale && !reflect.DeepEqual(r.shown[i], shown) {
			panic(n.Name + " was changed, and snapshots do not know")
		}
		if i > 0 && r.nodes[i-1].Name >= n.Name {
			panic("nodes are out of order")
		}
	}
	for _, id := range r.waiting {
		reserved[r.pods[id].nominee] = true
	}
	for _, id := range r.waiting {
		if where[id] || r.pods[id].node != nil {
			panic(fmt.Sprintf("pod %d waits and has a place", id))
		}
		where[id] = true
		shape := int(r.pods[id].shape)
		for i, n := range r.nodes {
			fits := n.Used.Plus(r.shapes[shape].Requests).Fits(n.Allocatable)
			if n.schedulable && fits && (!reserved[n] || r.scheduler.Fits(shape, i)) {
				panic(fmt.Sprintf("pod %d waits though %s has room", id, n.Name))
			}
			if r.scheduler.Fits(shape, i) && !(n.schedulable && fits) {
				panic(fmt.Sprintf("kube-scheduler believes that pod %d fits on %s", id, n.Name))
			}
		}
	}
	for _, id := range r.absent {
		if where[id] || r.pods[id].node != nil {
			panic(fmt.Sprintf("pod %d was evicted and is somewhere", id))
		}
		where[id] = true
	}
	if len(where) != r.alive {
		panic(fmt.Sprintf("%d pods are alive, %d are somewhere", r.alive, len(where)))
	}
	leaving := 0
	for _, n := range r.nodes {
		if n.Deleting {
			leaving++
		}
	}
	if leaving != r.leaving {
		panic(fmt.Sprintf("%d nodes are leaving, counted are %d", leaving, r.leaving))
	}
}

func simulate(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A pod of an hour waits 40 s for its node: the node is paid for from its launch to the pod's end.
func TestOnePodPaysForItsNode(t *testing.T) {
	for _, d := range []Decider{Nodeless(model.Policy{}), Compatible()} {
		r := simulate(t, plain(traceOf(t, "0,3600,2,1Gi,1\n"), d))
		batch := cmp.Or(d.BatchIdle, 10*time.Millisecond).Seconds()
		if want := 0.1 * 3640 / 3600; math.Abs(r.Cost-want) > 1e-9 || r.Launched != 1 || r.Moves != 0 {
			t.Errorf("%s: costs %v, want %v: %+v", d.Name, r.Cost, want, r)
		}
		if math.Abs(r.Pending.Most-40-batch) > 1e-3 {
			t.Errorf("%s: the pod waited %v s", d.Name, r.Pending.Most)
		}
	}
}

// Four nodes of 8 cores (or two of 16) are needed for ten minutes, and half of that for two hours: keeping all of
// them would cost 3.3.
func TestWhatIsLeftMovesTogether(t *testing.T) {
	for _, d := range []Decider{Nodeless(model.Policy{}), Compatible()} {
		r := simulate(t, plain(traceOf(t, "0,600,8,1Gi,1\n0,7200,8,1Gi,1\n300,600,8,1Gi,1\n300,7200,8,1Gi,1\n"), d))
		if r.MeanNodes > 2 || r.Moves > 2 || r.Cost > 1.8 {
			t.Errorf("%s: %+v", d.Name, r)
		}
	}
}

// churn returns an hour of pods that come and go.
func churn(t *testing.T) *trace.Trace {
	var rows strings.Builder
	for i := range 400 {
		fmt.Fprintf(&rows, "%d,%d,%d,%dGi,1\n", i*9, 60+i*i%1700, 1+i%5, 1+i%11)
	}
	return traceOf(t, rows.String())
}

// Every event is audited and every plan checked, with all kinds of faults.
func TestTheClusterIsAlwaysPossible(t *testing.T) {
	for _, d := range []Decider{Nodeless(model.Policy{}), Compatible()} {
		c := plain(churn(t), d)
		c.Daemons, c.Spread = nil, 0
		for i := range c.Types {
			o := c.Types[i].Offerings[0]
			o.CapacityType, o.Price = model.Spot, o.Price/2
			c.Types[i].Offerings = append(c.Types[i].Offerings, o)
		}
		c.Faults = Faults{NoCapacity: 0.5, NotReady: 0.1, Interruptions: 3}
		r := simulate(t, c)
		if r.Interruptions == 0 || r.CapacityErrors == 0 || r.Moves == 0 || r.Pods != 400 {
			t.Errorf("%s: no faults were met: %+v", d.Name, r)
		}
		if d.Check != nil && r.Judged != r.Plans+r.Passes {
			t.Errorf("%s: %d plans and %d passes, %d judged", d.Name, r.Plans, r.Passes, r.Judged)
		}
	}
}

// Above a hundred nodes kube-scheduler samples nodes round robin: it continues where it stopped, even when there are
// fewer nodes by then.
func TestKubeSchedulerGoesRoundAClusterThatShrinks(t *testing.T) {
	c := plain(traceOf(t, "0,900,3,1Gi,140\n0,9000,3,1Gi,20\n100,60,1,1Gi,1\n5000,60,1,1Gi,1\n"), Nodeless(model.Policy{}))
	c.Types = slices.DeleteFunc(ladder(), func(t model.InstanceType) bool { return t.Name != "m.4" })
	if r := simulate(t, c); r.PeakNodes != 160 || r.Launched != 160 || r.Moves != 0 {
		t.Errorf("160 pods of 3 cores on nodes of 4, and two that fit beside them: %+v", r)
	}
}

// A search that may do one short piece per interval reaches all nodes in the end: twelve, of which only the last by
// name can be replaced by a cheaper one.
func TestASearchGoesOnInTheNextInterval(t *testing.T) {
	rows := "0,7200,8,1Gi,11\n1,600,7,1Gi,1\n1,7200,1,1Gi,1\n"
	c := plain(traceOf(t, rows), Nodeless(model.Policy{MaxWhatIfs: 5}))
	c.Types = slices.DeleteFunc(ladder(), func(t model.InstanceType) bool { return t.Name == "m.16" || t.Name == "m.4" })
	c.Pieces = 1
	if r := simulate(t, c); r.Commands != 1 || r.Moves != 1 {
		t.Errorf("one pod of 1 core is left on a node of 8: %+v", r)
	}
}

func TestEqualConfigurationsGiveEqualResults(t *testing.T) {
	for _, d := range []Decider{Nodeless(model.Policy{}), Compatible()} {
		c := plain(churn(t), d)
		c.Spread, c.Faults = 0, Faults{NoCapacity: 0.2, NotReady: 0.05}
		a, b := simulate(t, c), simulate(t, c)
		if a != b {
			t.Errorf("%s:\n%+v\n%+v", d.Name, a, b)
		}
		c.Seed = 2
		if other := simulate(t, c); other == a {
			t.Errorf("%s: another seed changes nothing: %+v", d.Name, other)
		}
	}
}

// Nothing costs less than the bound, and a single pod costs exactly the bound, apart from its node's boot time.
func TestTheBoundIsBelowWhatIsPaid(t *testing.T) {
	c := plain(churn(t), Compatible())
	bound, err := Bound(context.Background(), c, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []Decider{Nodeless(model.Policy{}), Compatible()} {
		c.Decider = d
		if r := simulate(t, c); r.Cost < bound*0.98 || bound <= 0 || r.Cost > bound*2 {
			t.Errorf("%s: costs %v, at least %v", d.Name, r.Cost, bound)
		}
	}
	c.Trace = traceOf(t, "0,36000,2,1Gi,1\n")
	if bound, err = Bound(context.Background(), c, 10); err != nil || math.Abs(bound-1) > 1e-4 {
		t.Errorf("ten hours of a node at 0.1: at least %v, %v", bound, err)
	}
}

func TestPodsThatNothingHoldsAreLeftOut(t *testing.T) {
	r := simulate(t, plain(traceOf(t, "0,60,2,1Gi,1\n0,60,64,1Gi,3\n"), Nodeless(model.Policy{})))
	if r.TooLarge != 3 || r.Pods != 1 {
		t.Errorf("%+v", r)
	}
	if _, err := Run(context.Background(), plain(traceOf(t, "0,60,64,1Gi,3\n"), Compatible())); err == nil ||
		!strings.Contains(err.Error(), "none of its pods fits") {
		t.Errorf("nothing to simulate: %v", err)
	}
}

func TestBadConfigurationsSayWhatIsWrong(t *testing.T) {
	good := plain(traceOf(t, "0,60,2,1Gi,1\n"), Compatible())
	for want, change := range map[string]func(*Config){
		"no pods":          func(c *Config) { c.Trace = &trace.Trace{} },
		"no instance":      func(c *Config) { c.Types = nil },
		"lacks Provision":  func(c *Config) { c.Decider = Decider{} },
		"an interval of":   func(c *Config) { c.Interval = time.Millisecond },
		"from 0 to 1":      func(c *Config) { c.Budget = 3 },
		"-1 interruptions": func(c *Config) { c.Faults.Interruptions = -1 },
	} {
		c := good
		change(&c)
		if _, err := Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestItStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, plain(churn(t), Compatible())); err == nil {
		t.Error("it did not stop")
	}
}

func TestTheCatalogueHoldsWhatItSays(t *testing.T) {
	small, all := Catalogue{MaxVCPU: 32}.Types(), Catalogue{GPUs: true, Spot: true, Zones: 2}.Types()
	if len(small) == 0 || len(all) <= len(small) {
		t.Fatalf("%d and %d types", len(small), len(all))
	}
	for _, x := range small {
		if x.Capacity[model.CPU] > 32_000 || x.Capacity[model.NvidiaGPU] > 0 || len(x.Offerings) != 1 {
			t.Errorf("%s: %v, %d offerings", x.Name, x.Capacity, len(x.Offerings))
		}
	}
}
