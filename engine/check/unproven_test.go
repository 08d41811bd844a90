package check_test

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
)

// many returns the names name-01 to name-n.
func many(name string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%02d", name, i+1))
	}
	return out
}

// For few pods every order is tried. For many, violations are found from the final state of the domains; otherwise
// the checker reports the order as unproven.
func TestUnprovenOrders(t *testing.T) {
	const circle = threeNodes +
		"pods %[1]d p cpu=10m labels(app=p) affinity(zone: app=q)\npods %[1]d q cpu=10m labels(app=q) affinity(zone: app=p)"
	for name, story := range map[string]struct {
		text     string
		make     func(*builder)
		unproven bool
	}{
		"a circle of few": {
			fmt.Sprintf(circle, 2), func(b *builder) { b.place("na", "p-1", "p-2").place("na", "q-1", "q-2") }, false,
		},
		"a circle of many": {
			fmt.Sprintf(circle, 20) + "\npods 30 x cpu=10m labels(app=p) affinity(zone: app=q)",
			func(b *builder) {
				b.place("na", many("p", 20)...).place("na", many("q", 20)...).launch("c4", "a", many("x", 20)...).launch("c4",
					"a", many("x", 30)[20:]...)
			}, true,
		},
		"a large group in two zones": {
			threeNodes + "pods 80 web cpu=10m labels(app=web) affinity(zone: app=web)",
			func(b *builder) { b.place("na", many("web", 80)[:40]...).place("nb", many("web", 80)[40:]...) }, false,
		},
		"a large group beside those who are there": {
			threeNodes + "shape web cpu=10m labels(app=web) affinity(zone: app=web)\nnode nx pool=general type=c8 zone=c capacity-type=spot runs(w as web)\n" +
				"pods 50 new cpu=10m labels(app=web) affinity(zone: app=web)\npods 20 x cpu=10m labels(app=web) affinity(zone: app=web)",
			func(b *builder) { b.place("na", many("new", 50)...).place("nx", many("x", 20)...) }, false,
		},
		"two generations, spread badly": {
			threeNodes + "pods 40 old cpu=10m labels(app=web, v=1) spread(zone skew=1: app=web)\npods 40 new cpu=10m labels(app=web, v=2) spread(zone skew=1: app=web)",
			func(b *builder) {
				b.place("na", many("old", 27)...).place("nb", many("old", 40)[27:]...).place("nb",
					many("new", 10)...).place("nc", many("new", 40)[10:]...)
			}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := build(t, story.text)
			story.make(b)
			found := check.Plan(b.s, b.policy, b.plan)
			if len(found) == 0 {
				t.Fatal("nothing is wrong")
			}
			for _, v := range found {
				if v.Unproven != story.unproven {
					t.Errorf("unproven: %v, want %v: %v", v.Unproven, story.unproven, v)
				}
			}
		})
	}
}

// A command may count on pods that do not exist yet, whose places its plan does not contain.
func TestCommandBesideExpectedPods(t *testing.T) {
	b := build(t, `
type c2 cpu=2 memory=4Gi pods=29 offers(a on-demand 0.1, b on-demand 0.1, c on-demand 0.1)
pool general disrupt(drifted=9)
shape web cpu=1 labels(app=web) spread(zone: app=web)
shape other cpu=1
pods 1 next as=web expected
node n1 pool=general type=c2 zone=a capacity-type=on-demand price=0.1 ready=1h drifted=AMIDrifted
     runs(web-1 as web, web-2 as web)
node na pool=general type=c2 zone=a capacity-type=on-demand price=0.1 ready=1h runs(x-1 as other)
node nb pool=general type=c2 zone=b capacity-type=on-demand price=0.1 ready=1h runs(web-3 as web)
node nc pool=general type=c2 zone=c capacity-type=on-demand price=0.1 ready=1h runs(x-2 as other)
`)
	plan := engine.Disrupt(b.s, b.policy)
	if len(plan.Commands) != 1 {
		t.Fatalf("%d commands, want one that replaces the drifted node", len(plan.Commands))
	}
	for _, v := range check.Plan(b.s, b.policy, plan) {
		if !v.Unproven {
			t.Error(v)
		}
	}
}
