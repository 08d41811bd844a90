package query_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/query"
	"github.com/nodeless/nodeless/lab/gen"
	"github.com/nodeless/nodeless/lab/scenario"
)

const types = `
type s1 cpu=1 memory=8Gi pods=30 offers(c on-demand 9)
type s2 cpu=2 memory=8Gi pods=30 offers(a on-demand 0.1, b on-demand 0.1)
type s4 cpu=4 memory=16Gi pods=30 offers(a on-demand 0.2, b on-demand 0.2)
type s8 cpu=8 memory=32Gi pods=60 offers(a on-demand 0.4, b on-demand 0.4)
`

func cluster(t *testing.T, text string) (*model.Snapshot, model.Policy) {
	t.Helper()
	s, policy, err := scenario.Parse(types + text)
	if err != nil {
		t.Fatal(err)
	}
	return s, policy
}

func TestExistingNodesSayWhyTheyRefuse(t *testing.T) {
	s, policy := cluster(t, `
pool general
shape web cpu=1500m
node full   pool=general type=s2 zone=a ready=1h runs(web-1 as web)
node small type=s1 zone=a unmanaged
node gpu type=s8 zone=a unmanaged taint(gpu=true:NoSchedule)
node elsewhere type=s8 zone=b unmanaged
node closed type=s8 zone=a unmanaged cordoned
pods 1 new cpu=1500m require(zone=a)
`)
	got, ok := query.OfPod(s, policy, s.Pending[0].PodKey)
	if !ok || got.Launch == nil || got.Reason != nil || got.Open != 0 {
		t.Fatalf("%+v", got)
	}
	said := map[string]string{}
	for _, r := range got.Refusals {
		if r.Count != 1 {
			t.Errorf("%d say %s", r.Count, reason.Refusal(r.Reason))
		}
		said[r.Such] = reason.Refusal(r.Reason)
	}
	for node, want := range map[string]string{
		"full": "not enough cpu left", "small": "too small: cpu", "gpu": "taint gpu=true:NoSchedule",
		"elsewhere": "not topology.kubernetes.io/zone In [a]", "closed": "cordoned",
	} {
		if said[node] != want {
			t.Errorf("%s: %q, want %q", node, said[node], want)
		}
	}
}

func TestAlternativesAreSortedByPrice(t *testing.T) {
	s, policy := cluster(t, "pool general\npods 1 new cpu=1")
	got, _ := query.OfPod(s, policy, s.Pending[0].PodKey)
	if got.Launch == nil {
		t.Fatalf("%+v", got)
	}
	var names []string
	for _, c := range model.Alternatives(s, got.Launch, 5) {
		names = append(names, c.Type)
	}
	if text := strings.Join(names, " "); text != "s2 s4 s8" || got.Launch.Chosen.Type != "s2" {
		t.Errorf("%s, chosen %s", text, got.Launch.Chosen.Type)
	}
}

// rules lists the rules of a node's blockers, and what happens to the node without them.
func rules(m query.Node) string {
	var out []string
	for _, b := range m.Blockers {
		out = append(out, string(b.Rule))
	}
	switch {
	case m.Removal != nil:
		out = append(out, "removal")
	case m.Command != nil:
		out = append(out, "command")
	}
	return strings.Join(out, " ")
}

func TestNodeNamesAllBlockers(t *testing.T) {
	for name, tc := range map[string]struct{ cluster, want string }{
		"nothing keeps an empty one": {
			"pool general disrupt(empty=9, drifted=9, underused=9)\nnode n1 pool=general type=s2 zone=a capacity-type=on-demand price=0.1 ready=1h", "removal",
		},
		"its age, then a budget": {
			"pool general disrupt(after=2h)\nnode n1 pool=general type=s2 zone=a capacity-type=on-demand price=0.1 ready=1h",
			"TooYoung Budget removal",
		},
		"a pool that never consolidates, then a budget, then the price": {
			"pool general disrupt(never)\nshape web cpu=1\nnode n1 pool=general type=s2 zone=a capacity-type=on-demand price=0.1 ready=1h runs(web-1 as web)",
			"Never Budget NotCheaper",
		},
		"a pod, then nothing": {
			"pool general disrupt(empty=9, drifted=9, underused=9)\nshape web cpu=1\nnode n1 pool=general type=s8 zone=a capacity-type=on-demand price=0.4 ready=1h runs(web-1 as web do-not-disrupt)",
			"DoNotDisrupt command",
		},
		"it is not ours": {"node n1 type=s2 zone=a unmanaged", ""},
	} {
		s, policy := cluster(t, tc.cluster)
		m, ok := query.OfNode(s, policy, "n1", engine.Disrupt)
		if got := rules(m); !ok || got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The first blocker is the engine's reason, whatever the cluster; the query does not change the snapshot, and it
// terminates.
func TestFirstBlockerIsTheEnginesReason(t *testing.T) {
	asked := 0
	for seed := range uint64(60) {
		s := gen.Disruptive(seed)
		before := scenario.FormatPlan(s, engine.Disrupt(s, model.Policy{}))
		plan := engine.Disrupt(s, model.Policy{})
		for _, k := range plan.Kept[:min(3, len(plan.Kept))] {
			m, ok := query.OfNode(s, model.Policy{}, k.Node, engine.Disrupt)
			if !ok || k.Reason.Rule != model.RuleSteps && (len(m.Blockers) == 0 || m.Blockers[0].Rule != k.Reason.Rule) {
				t.Errorf("seed %d: %s: %s, asked %s", seed, k.Node, k.Reason.Rule, rules(m))
			}
			asked++
		}
		if after := scenario.FormatPlan(s, engine.Disrupt(s, model.Policy{})); after != before {
			t.Errorf("seed %d: asking changed the cluster:\n%s\nafter\n%s", seed, before, after)
		}
	}
	if asked < 50 {
		t.Errorf("only %d machines were asked about", asked)
	}
}

func TestPoolListsOfferingsAndPods(t *testing.T) {
	s, policy := cluster(t, `
pool big require(node.kubernetes.io/instance-type=s8)
pool small require(node.kubernetes.io/instance-type=s2)
pods 1 little cpu=1
pods 1 large cpu=6
pods 1 giant cpu=60
`)
	p, ok := query.OfPool(s, policy, "big")
	if !ok || p.Offered != 4 || p.Allowed != 1 || p.Available != 1 || p.Cheapest[0].Type != "s8" {
		t.Fatalf("%+v", p)
	}
	pods := 0
	for _, l := range p.Launches {
		pods += len(l.Pods)
	}
	if pods+p.Could != 2 || len(p.Refusals) != 1 || p.Refusals[0].Reason.Rule != model.RuleResource ||
		!strings.Contains(p.Refusals[0].Such, "giant") {
		t.Errorf("launches for %d pods, could take %d, refuses %+v", pods, p.Could, p.Refusals)
	}
}

// If the cloud has no capacity for any node that a pod could have, the answer is the change that helps all the same.
func TestSoldOut(t *testing.T) {
	for want, text := range map[string]string{
		"would fit in pool small if it requested cpu 2 instead of 3":  "pool small types(s2, s8)\npods 1 new cpu=3",
		"would fit in pool large if it tolerated gpu=true:NoSchedule": "pool small types(s4)\npool large types(s8) taint(gpu=true:NoSchedule)\npods 1 new cpu=3",
		"would fit in pool small once s4 has capacity again":          "pool small types(s4)\npods 1 new cpu=3",
		"would fit in pool huge if it tolerated gpu=true:NoSchedule": "reservation cr-1 type=s4 zone=a free=1\n" +
			"pool small types(s4)\npool huge types(s8) taint(gpu=true:NoSchedule)\npods 1 new cpu=3",
	} {
		s, policy := cluster(t, text)
		if now, _ := query.OfPod(s, policy, s.Pending[0].PodKey); now.Launch == nil {
			t.Fatalf("%s: nothing is launched for it before either", text)
		}
		got, ok := query.SoldOut(s, policy, s.Pending[0].PodKey)
		if !ok || got.Launch != nil || got.Reason == nil || got.Reason.Rule != model.RuleCapacity {
			t.Fatalf("%s: %+v", text, got)
		}
		if change := reason.Change(got.Reason.Change); change != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, change, want)
		}
		if again, _ := query.OfPod(s, policy, s.Pending[0].PodKey); again.Launch == nil {
			t.Errorf("%s: the snapshot was changed", text)
		}
	}
}

// Two nodes whose pods fit on one cheaper node are replaced together once their pods are old enough. Until then the
// reason is Payback, not that nothing is cheaper for one node alone; if the budget allows one node at a time, that is
// a reason too.
func TestGroupReasons(t *testing.T) {
	for budget, want := range map[string]string{
		"underused=9": "Payback command",
		"underused=1": "NotCheaper Budget Payback command",
	} {
		s, policy := cluster(t, `
type s3 cpu=3 memory=12Gi pods=30 offers(a on-demand 0.14)
pool general types(s2, s3) disrupt(`+budget+`)
shape web cpu=1500m
node n1 pool=general type=s2 zone=a capacity-type=on-demand price=0.1 ready=1h runs(web-1 as web age=30s)
node n2 pool=general type=s2 zone=a capacity-type=on-demand price=0.1 ready=1h runs(web-2 as web age=30s)
`)
		m, ok := query.OfNode(s, policy, "n1", engine.Disrupt)
		if got := rules(m); !ok || got != want {
			t.Fatalf("%s: %q, want %q", budget, got, want)
		}
		last := m.Blockers[len(m.Blockers)-1]
		// 60 s × $0.14 / $0.06 - 30 s
		if got := strings.Join(last.Group, " "); got != "n1 n2" || last.Until.Sub(s.Now) != 110*time.Second {
			t.Errorf("%s: the group is %s, until in %s", budget, got, last.Until.Sub(s.Now))
		}
		if len(m.Command.Removals) != 2 {
			t.Errorf("%s: %+v", budget, m.Command)
		}
	}
}

// At a reason's Until the engine no longer gives that reason, and a plan asks to be made again by then: no reported
// time passes without effect.
func TestReasonsEndAtTheirTime(t *testing.T) {
	said := map[model.Rule]int{}
	for seed := range uint64(400) {
		s := gen.Disruptive(seed)
		for i := range s.Nodes {
			for j := range s.Nodes[i].Pods {
				s.Nodes[i].Pods[j].Created = s.Now.Add(-time.Duration(10+7*(i+j)) * time.Second)
			}
		}
		plan := engine.Disrupt(s, model.Policy{})
		for _, k := range plan.Kept {
			if k.Reason.Until.IsZero() || k.Reason.Rule == model.RuleWindow { // the snapshot fixes whether a window is open
				continue
			}
			said[k.Reason.Rule]++
			if k.Reason.Rule == model.RulePayback && (plan.RecheckAt.IsZero() || plan.RecheckAt.After(k.Reason.Until)) {
				t.Errorf("seed %d: %s may go at %s, and the next look is at %s", seed, k.Node, k.Reason.Until, plan.RecheckAt)
			}
			then := *s
			then.Now = k.Reason.Until
			for _, later := range engine.Disrupt(&then, model.Policy{}).Kept {
				r := &later.Reason
				if later.Node == k.Node && r.Rule == k.Reason.Rule && r.Detail == k.Reason.Detail &&
					slices.Equal(r.Group, k.Reason.Group) {
					t.Errorf("seed %d: %s stays after %s, too: %s", seed, k.Node, k.Reason.Until, reason.Kept(later))
				}
			}
		}
	}
	if said[model.RuleTooYoung] == 0 || said[model.RulePayback] == 0 {
		t.Errorf("times were said of %v", said)
	}
}

// A pod that no node can take gets up to three options, each of which suffices alone, with the node it would get and
// its price.
func TestOptionsHavePrices(t *testing.T) {
	s, policy := cluster(t, `
pool small types(s2)
pool large types(s8) taint(gpu=true:NoSchedule)
pods 1 new cpu=3
`)
	p, ok := query.OfPod(s, policy, s.Pending[0].PodKey)
	if !ok || p.Reason == nil {
		t.Fatalf("%+v", p)
	}
	var got []string
	for _, o := range p.Options {
		got = append(got, reason.Change(o.Change)+": "+reason.Candidate(o.Node))
	}
	want := "would fit in pool large if it tolerated gpu=true:NoSchedule: s8 on-demand in a at $0.4000/h; " +
		"would fit in pool small if it requested cpu 2 instead of 3: s2 on-demand in a at $0.1000/h"
	if text := strings.Join(got, "; "); text != want || p.Options[0].Change != p.Reason.Change {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// No more than three options are given, however many there are.
func TestAtMostThreeOptions(t *testing.T) {
	s, policy := cluster(t, `
pool small types(s2)
pool tainted types(s8) taint(gpu=true:NoSchedule)
pool full types(s8) limit(nodes=0)
pool elsewhere types(s8) require(zone=b)
pods 1 new cpu=3 require(zone=a)
`)
	if p, ok := query.OfPod(s, policy, s.Pending[0].PodKey); !ok || len(p.Options) != 3 {
		t.Errorf("%d options: %+v", len(p.Options), p.Options)
	}
}

// For a misspelled instance type, in a pod or in a pool, the nearest existing name is suggested, however cheap others
// are.
func TestMisspelledTypeGetsTheNearestName(t *testing.T) {
	const catalog = `
type m5.large cpu=2 memory=8Gi pods=30 offers(a on-demand 0.096)
type t3.nano cpu=2 memory=1Gi pods=4 offers(a on-demand 0.0052)
`
	for text, want := range map[string]string{
		"pool general types(m5.large, t3.nano)\npods 1 new cpu=1 require(node.kubernetes.io/instance-type=m5.lareg)": "could be m5.large (now m5.lareg)",
		"pool general types(m5.large, t3.nano) require(node.kubernetes.io/instance-type=m5.lareg)\npods 1 new cpu=1": "also allowed m5.large (now m5.lareg)",
		// No name is near c5.metal, so the cheapest type is suggested.
		"pool general types(m5.large, t3.nano)\npods 1 new cpu=1 require(node.kubernetes.io/instance-type=c5.metal)": "could be t3.nano (now c5.metal)",
	} {
		s, policy := cluster(t, catalog+text)
		p, ok := query.OfPod(s, policy, s.Pending[0].PodKey)
		if !ok || p.Reason == nil || !strings.Contains(reason.Change(p.Reason.Change), want) {
			t.Errorf("%s: %+v, want %q", text, p.Reason, want)
		}
	}
}
