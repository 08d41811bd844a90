package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim"
)

// Both catalogues hold every pod of Karpenter's mix. The plan passes the engine's check and the one that both sides
// share, and costs no less than its own bound.
func TestTwoHundredDiversePods(t *testing.T) {
	for _, name := range []string{"fake", "cmr"} {
		c, err := catalogueOf(name)
		if err != nil {
			t.Fatal(err)
		}
		pods := diverse(200)
		out := nodeless(c, pods, model.Policy{}, true)
		c.settle(&out, byName(pods))
		t.Logf("%s: %d machines, $%.2f/h, %s above the bound", name, len(out.machines), out.cost.Dollars(), above(&out))
		for _, fault := range out.faults {
			t.Errorf("%s: %s", name, fault)
		}
		if out.unplaced > 0 || out.cost < out.bound {
			t.Errorf("%s: %d pods got nothing, $%.2f/h with a bound of $%.2f/h", name, out.unplaced, out.cost.Dollars(),
				out.bound.Dollars())
		}
	}
}

// Equal pods have one shape; pods that differ only in a selector do not.
func TestPodsAreGrouped(t *testing.T) {
	c := fakeCatalogue(4)
	for _, x := range []struct {
		what   string
		pods   []*corev1.Pod
		shapes int
	}{
		{"with preferences", preferring(50, "test-zone-1"), 1},
		{"of one row", podsOf([]corev1.ResourceList{amounts(100, 1<<20, 0)}, 50, false), 1},
		{"of one row with the mix", podsOf([]corev1.ResourceList{amounts(100, 1<<20, 0)}, 5000, true), 7 + 49 + 49 + 7 + 1},
	} {
		if got := len(c.snapshot(x.pods).Shapes); got != x.shapes {
			t.Errorf("pods %s: %d shapes, want %d", x.what, got, x.shapes)
		}
	}
}

// The neutral price is that of the cheapest type which holds a node's pods and its daemons, in the zones where the
// node may be.
func TestOnePriceForBothSides(t *testing.T) {
	c := fakeCatalogue(4)
	c.daemons = []model.Resources{{model.CPU: 950}}
	out := outcome{machines: []machine{{pods: []string{"a", "b"}, zones: []string{"test-zone-3"}}}}
	pods := map[string]*corev1.Pod{}
	for name, cpu := range map[string]int64{"a": 900, "b": 50, "huge": 1 << 20} {
		pods[name] = newWorkload().pod(nil, amounts(cpu, 0, 0))
	}
	if err := c.price(&out, pods); err != nil {
		t.Fatal(err)
	}
	if want := c.types[1].Offerings[0].Price; out.cost != want { // 2 cores have 1,900m to spare
		t.Errorf("1900m cost %d, want %d", out.cost, want)
	}
	out.machines[0].pods = append(out.machines[0].pods, "huge")
	if err := c.price(&out, pods); err == nil {
		t.Error("a machine that no type can be has a price")
	}
}

// Results that differ in their seed are compared seed by seed.
func TestSidesAreComparedSeedBySeed(t *testing.T) {
	base := &side{results: []sim.Result{{Cost: 100}, {Cost: 200}}}
	ours := &side{results: []sim.Result{{Cost: 90}, {Cost: 184}}}
	if got := ours.against(base); got != "-9.0 % ± 1.0" {
		t.Errorf("10 and 8 percent cheaper: %q", got)
	}
	ours.results, base.results = ours.results[:1], base.results[:1]
	if got := ours.against(base); got != "-10.0 %" {
		t.Errorf("10 percent cheaper: %q", got)
	}
}
