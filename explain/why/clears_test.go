package why

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/query"
	"github.com/nodeless/nodeless/lab/scenario"
)

// clearing is a node n1 that is kept, what why says must happen for that to end, and an event that is just that.
type clearing struct {
	rule    model.Rule
	clears  string
	cluster string
	was, is string     // the event: what changes in the cluster's text
	then    model.Rule // what keeps n1 afterwards; "" = nothing, it is removed or replaced
}

// The parts of which most clusters consist.
const (
	onDemand = `
type s2 cpu=2 memory=8Gi pods=30 offers(a on-demand 0.1)
type s3 cpu=3 memory=12Gi pods=30 offers(a on-demand 0.14)
type s4 cpu=4 memory=16Gi pods=30 offers(a on-demand 0.2)
type s8 cpu=8 memory=32Gi pods=60 offers(a on-demand 0.4)
`
	general = "pool general disrupt(empty=9, drifted=9, underused=9)\n"
	shapes  = "shape web cpu=1\nshape big cpu=2\n"
	s2      = " pool=general type=s2 zone=a capacity-type=on-demand price=0.1 ready=5h "
	s3      = " pool=general type=s3 zone=a capacity-type=on-demand price=0.14 ready=5h "
	s4      = " pool=general type=s4 zone=a capacity-type=on-demand price=0.2 ready=5h "
	s8      = " pool=general type=s8 zone=a capacity-type=on-demand price=0.4 ready=5h "
	runsWeb = "runs(web-1 as web age=5h)\n"
	onS8    = onDemand + general + shapes + "node n1" + s8
	anyPool = "when NodePool general is changed"
	anyTime = "when pods, nodes or prices change; re-evaluated on every change"
)

var clearings = []clearing{
	{
		rule: model.RuleDoNotDisrupt, clears: "when annotation karpenter.sh/do-not-disrupt is removed or the pod ends",
		cluster: onS8 + "runs(web-1 as web age=5h do-not-disrupt)", was: " do-not-disrupt", is: "",
	},
	{
		rule: model.RuleDoNotDisrupt, clears: "when annotation karpenter.sh/do-not-disrupt is removed or the pod ends",
		cluster: onS8 + "runs(web-1 as web age=5h do-not-disrupt)", was: " do-not-disrupt", is: " do-not-disrupt terminal",
	},
	{
		rule: model.RuleDoNotDisrupt, clears: "when annotation karpenter.sh/do-not-disrupt is removed from the node",
		cluster: onS8 + "do-not-disrupt " + runsWeb, was: "do-not-disrupt ", is: "",
	},
	{
		rule: model.RuleEvictionBlocked, clears: "when more of its pods are ready or the PodDisruptionBudget changes",
		cluster: onS8 + "runs(web-1 as web age=5h held=PDB)", was: " held=PDB", is: "",
	},
	{
		rule: model.RuleBudget, clears: "when the budget allows more",
		cluster: strings.Replace(onS8, "underused=9", "underused=0", 1) + runsWeb, was: "underused=0", is: "underused=1",
	},
	{
		rule: model.RuleNever, clears: anyPool,
		cluster: strings.Replace(onS8, "(empty", "(never, empty", 1) + runsWeb, was: "never, ", is: "",
	},
	{
		rule: model.RuleWhenEmpty, clears: anyPool,
		cluster: strings.Replace(onS8, "(empty", "(when-empty, empty", 1) + runsWeb, was: "when-empty, ", is: "",
	},
	{
		rule: model.RuleUnclear, clears: anyPool,
		cluster: strings.Replace(onS8, "9)", "9) annotations(unclear=why)", 1) + runsWeb,
		was:     " annotations(unclear=why)", is: "",
	},
	{
		rule: model.RuleSmallSaving, clears: anyPool,
		cluster: onDemand + strings.Replace(general, "9)", "9) annotations(saving=0.05)", 1) + shapes + "node n1" + s3 +
			"runs(big-1 as big age=5h)",
		was: "saving=0.05", is: "saving=0.03",
	},
	{
		rule: model.RuleBalanced, clears: anyPool,
		cluster: onDemand + strings.Replace(general, "(empty", "(balanced, empty", 1) + "shape small cpu=100m\n" +
			"node n1" + s3 +
			"runs(a as small, b as small, c as small, d as small, e as small, f as small, g as small, h as small)\n" +
			"node n2" + s8 + "runs(z as small do-not-disrupt)",
		was: "balanced, ", is: "",
	},
	{
		rule: model.RuleSpotToSpot, clears: "when feature gate SpotToSpotConsolidation is on",
		cluster: onSpot(18), was: "pool", is: "policy spot-to-spot\npool",
	},
	{
		rule: model.RuleSpotToSpot, clears: "when feature gate SpotToSpotConsolidation is on",
		cluster: onSpot(3), was: "pool", is: "policy spot-to-spot\npool", then: model.RuleSpotToSpot,
	},
	{
		rule: model.RuleSpotToSpot, clears: "when more types cost less",
		cluster: "policy spot-to-spot\n" + onSpot(14), was: "pool", is: "type a99 cpu=2 pods=30 offers(a spot 0.03)\npool",
	},
	{
		rule: model.RuleStatic, clears: "when spec.replicas of NodePool general is lowered",
		cluster: strings.Replace(onS8, "general disrupt", "general replicas=1 disrupt", 1) + runsWeb,
		was:     "replicas=1", is: "replicas=0",
	},
	{
		rule: model.RuleMinNodes, clears: "when the minimum of its Auto Scaling group is lowered, or",
		cluster: strings.Replace(onS8, "9)", "9) min-nodes=1", 1), was: "min-nodes=1", is: "min-nodes=0",
	},
	{
		rule: model.RuleMinNodes, clears: "when the minimum of its Auto Scaling group is lowered, or",
		cluster: strings.Replace(onS8, "9)", "9) min-nodes=1", 1) + "\n", was: "node n1", is: "node n2" + s8 + "\nnode n1",
	},
	{
		rule: model.RuleLimit, clears: "when limit nodes of NodePool general is raised",
		cluster: strings.Replace(onS8, "general disrupt", "general replicas=1 limit(nodes=1) usage(nodes=1) disrupt", 1) +
			"drifted=NodePoolDrifted " + runsWeb,
		was: "limit(nodes=1)", is: "limit(nodes=2)",
	},
	{
		rule: model.RuleCapacity, clears: "when the cloud has capacity again",
		cluster: strings.NewReplacer("general disrupt", "general types(s8) replicas=1 disrupt", "on-demand 0.4",
			"on-demand 0.4 out").Replace(onS8) + "drifted=NodePoolDrifted " + runsWeb,
		was: " out)", is: ")",
	},
	{
		rule: model.RulePoolNotReady, clears: "when the pool is ready",
		cluster: strings.Replace(onS8, "general disrupt", "general replicas=1 not-ready(why) disrupt", 1) +
			"drifted=NodePoolDrifted " + runsWeb,
		was: "not-ready(why) ", is: "",
	},
	{
		rule: model.RulePoolNotReady, clears: "when the pool is ready",
		cluster: strings.Replace(onS8, "general disrupt", "general unread not-ready(why) disrupt", 1) + runsWeb,
		was:     "unread not-ready(why) ", is: "",
	},
	{
		rule: model.RuleNoPrice, clears: "when the price of its type is known",
		cluster: strings.Replace(onS8, "price=0.4 ", "", 1) + runsWeb, was: "ready=5h", is: "price=0.4 ready=5h",
	},
	{
		rule: model.RuleNeeded, clears: "when these pods are bound",
		cluster: onDemand + general + shapes + "pods 1 new cpu=1\nnode n1" + s8,
		was:     "pods 1 new cpu=1\nnode n1" + s8, is: "node n2" + s2 + "runs(new as web age=5h)\nnode n1" + s8,
	},
	{
		rule: model.RuleNeeded, clears: "when these pods are bound", // those of n2, which moved
		cluster: onDemand + general + "shape web cpu=1\nshape six cpu=6\n" +
			"node n1" + s8 + "runs(a as six age=5h, b as web age=5h)\nnode n2" + s2 + runsWeb,
		was: ")\nnode n2" + s2 + "runs(", is: ", ", then: model.RuleNotCheaper,
	},
	{
		rule: model.RuleJob, clears: "when that pod has ended",
		cluster: onDemand + strings.Replace(general, "9)", "9) annotations(wait-for-jobs)", 1) + shapes + "node n1" + s4 +
			"runs(calc as web job=50m|58m|1h|1h2m)",
		was: "1h2m)", is: "1h2m terminal)",
	},
	{
		rule: model.RulePreflight, clears: "when that is over",
		cluster: "unsettled why\npolicy preflight=enforce\n" + onS8 + runsWeb, was: "unsettled why\n", is: "",
	},
	{
		rule: model.RuleNoHelp, clears: "when the pool allows only larger types or the DaemonSet requests less",
		cluster: crowded, was: "general types(s3, s4)", is: "general types(s4)",
	},
	{
		rule: model.RuleNoHelp, clears: "when the pool allows only larger types or the DaemonSet requests less",
		cluster: crowded, was: "used(cpu=2500m", is: "used(cpu=2400m", then: model.RuleNotCheaper,
	},
	{
		rule: model.RuleNotCheaper, clears: anyTime, // the price of another type falls
		cluster: onDemand + general + shapes + "node n1" + s2 + runsWeb, was: "on-demand 0.14", is: "on-demand 0.09",
	},
	{
		rule: model.RuleNotCheaper, clears: anyTime, // another node has room
		cluster: onDemand + general + shapes + "node n1" + s2 + runsWeb, was: "node n1",
		is: "node n2" + s2 + "runs(x as web age=5h do-not-disrupt)\nnode n1",
	},
	{
		rule: model.RuleNotCheaper, clears: anyTime, // its pod ends
		cluster: onDemand + general + shapes + "node n1" + s2 + runsWeb, was: " as web age=5h", is: " as web terminal",
	},
	{
		rule: model.RuleNoPlace, clears: anyTime,
		cluster: onDemand + "pool general limit(cpu=8) usage(cpu=8) disrupt(drifted=9)\n" + shapes + "node n1" + s8 +
			"drifted=NodePoolDrifted runs(big-1 as big age=5h)",
		was: "node n1", is: "node n2" + s4 + "runs(x as web do-not-disrupt)\nnode n1",
	},
	{
		rule: model.RuleFragile, clears: anyTime,
		cluster: `
type s4 cpu=4 memory=64Gi pods=60 offers(a on-demand 0.2)
pool general disrupt(underused=9)
shape large cpu=2
shape small cpu=500m
shape held cpu=3
node n1` + s4 + `runs(a as small age=5h, b as small age=5h, z as large age=5h)
node n2` + s4 + `runs(h as held age=5h do-not-disrupt)
node n3` + s4 + "runs(t as large age=5h do-not-disrupt)",
		was: "t as large", is: "t as small",
	},
}

// crowded is a cluster in which n1 has no room for the pod of a DaemonSet, and less than its type promises.
const crowded = onDemand + "pool general types(s3, s4) disrupt(drifted=9, underused=9) annotations(replace-crowded)\n" +
	shapes + "daemon agent cpu=500m\nnode n1" + s3 + "lacks(kube-system/agent=2m) " +
	"allocatable(cpu=2400m) used(cpu=2500m, pods=3) runs(web-1 as web age=5h, web-2 as web age=5h)"

// onSpot is a cluster whose node n1 is of a spot type, with the given number of cheaper ones.
func onSpot(cheaper int) string {
	text := "type s8 cpu=8 pods=60 offers(a spot 0.16)\n"
	for i := range cheaper {
		text += fmt.Sprintf("type a%d cpu=2 pods=30 offers(a spot 0.0%d)\n", i, 10+i)
	}
	return text + general + shapes +
		"node n1 pool=general type=s8 zone=a capacity-type=spot price=0.16 ready=5h " + runsWeb
}

// Why names what keeps a node and what ends that; and once exactly that has happened, the engine removes the node, or
// something else keeps it.
func TestWhatIsSaidToClearClears(t *testing.T) {
	empty, err := capture.Load(t.Context(), strings.NewReader("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"),
		"empty.yaml", capture.Options{Partial: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range clearings {
		name := fmt.Sprintf("%d: %s, %q for %q", i, x.rule, x.is, x.was)
		if !strings.Contains(x.cluster, x.was) {
			t.Fatalf("%s: no such text in\n%s", name, x.cluster)
		}
		s, policy, now := keptBy(t, x.cluster)
		if len(now.Blockers) == 0 || now.Blockers[0].Rule != x.rule {
			t.Errorf("%s: it is kept by %v", name, now.Blockers)
			continue
		}
		q := &nodeQuestion{question: newQuestion(empty, s, policy, Subject{Kind: NodeKind, Name: "n1"}), n: now.Node}
		if b := q.blocker(&now.Blockers[0]); !strings.HasPrefix(b.Clears, x.clears) || b.At != nil {
			t.Errorf("%s: it clears %q, want %q", name, b.Clears, x.clears)
		}
		_, _, after := keptBy(t, strings.Replace(x.cluster, x.was, x.is, 1))
		switch {
		case x.then == "" && len(after.Blockers) > 0:
			t.Errorf("%s: afterwards it is kept by %+v, want nothing", name, after.Blockers)
		case x.then == "" && after.Command == nil && after.Removal == nil:
			t.Errorf("%s: nothing keeps it, and nothing becomes of it", name)
		case x.then != "" && (len(after.Blockers) == 0 || after.Blockers[0].Rule != x.then ||
			after.Blockers[0].Detail == now.Blockers[0].Detail && x.then == x.rule):
			t.Errorf("%s: afterwards it is kept by %+v, want %s", name, after.Blockers, x.then)
		}
	}
}

// keptBy returns what keeps node n1 of a cluster.
func keptBy(t *testing.T, cluster string) (*model.Snapshot, model.Policy, query.Node) {
	t.Helper()
	s, policy, err := scenario.Parse(cluster)
	if err != nil {
		t.Fatalf("%v in\n%s", err, cluster)
	}
	m, ok := query.OfNode(s, policy, "n1", engine.Disrupt)
	if !ok {
		t.Fatalf("no node n1 in\n%s", cluster)
	}
	return s, policy, m
}

// endsByTime are the rules of which why says a time only; query.TestReasonsEndAtTheirTime shows that they end then.
var endsByTime = []model.Rule{model.RuleTooYoung}

// Every rule of which blocker.go says what must happen is in the table.
func TestEveryRuleThatClearsIsTried(t *testing.T) {
	tried := map[model.Rule]bool{}
	for _, x := range clearings {
		tried[x.rule] = true
	}
	values := rulesOf(t)
	said := map[string]bool{}
	ast.Inspect(parsed(t, "blocker.go"), func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Rule") && values[s.Sel.Name] != "" {
			said[s.Sel.Name] = true
		}
		return true
	})
	if len(said) < 20 {
		t.Fatalf("blocker.go names only %d rules: %v", len(said), said)
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if rule := values[name]; !tried[rule] && !slices.Contains(endsByTime, rule) {
			t.Errorf("why says what ends a blocker of model.%s, and no test shows that it does: add it to clearings", name)
		}
	}
}

// rulesOf returns the engine's rules by the names of their constants.
func rulesOf(t *testing.T) map[string]model.Rule {
	t.Helper()
	rules := map[string]model.Rule{}
	ast.Inspect(parsed(t, "../../engine/model/reason.go"), func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if value, ok := v.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				text, _ := strconv.Unquote(value.Value)
				rules[v.Names[0].Name] = model.Rule(text)
			}
		}
		return true
	})
	return rules
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
