package why_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/why"
)

// asked returns the answer to a question about the cluster that a dump describes, after changes to it.
func asked(t *testing.T, dump, question string, changes ...func(*capture.Cluster)) string {
	t.Helper()
	c := load(t, dump)
	for _, change := range changes {
		change(c)
	}
	_, text := ask(t, c, question)
	return text
}

func load(t *testing.T, dump string) *capture.Cluster {
	t.Helper()
	c, err := capture.Load(t.Context(), strings.NewReader(dump), "cluster.yaml", capture.Options{Region: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask returns the answer to a question about a cluster, and its text.
func ask(t *testing.T, c *capture.Cluster, question string) (*why.Answer, string) {
	t.Helper()
	of, err := why.Parse("shop", question)
	if err != nil {
		t.Fatal(err)
	}
	a, err := why.Ask(t.Context(), c, model.Policy{}, of)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := a.Text(&b, why.Format{}); err != nil {
		t.Fatal(err)
	}
	return a, b.String()
}

// web is a pod on n1 that may be evicted.
const web = `---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: w, creationTimestamp: "2026-11-01T10:01:00Z",
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: rs, controller: true}]}
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 1500m}}}]}
status: {phase: Running, conditions: [{type: PodScheduled, status: "True", lastTransitionTime: "2026-11-01T10:01:00Z"}]}
`

// agent is a DaemonSet whose pod waits for n1, on which REQUESTS are more or less than what is free.
const agent = `---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop, uid: d, creationTimestamp: "2026-11-01T10:00:00Z"}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: REQUESTS}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: agent-1, namespace: shop, uid: u7, labels: {app: agent}, creationTimestamp: "2026-11-01T10:02:00Z",
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: d, controller: true}]}
spec:
  schedulerName: default-scheduler
  containers: [{name: c, image: i, resources: {requests: {cpu: REQUESTS}}}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}
status: {phase: Pending}
`

// Nodes that are not ready use up a budget, too.
func TestABudgetCountsNodesThatAreNotReady(t *testing.T) {
	got := asked(t, strings.Replace(idle, "BUDGET", `"1"`, 1)+another("False"), "node/n1")
	for _, want := range []string{
		"allows 1 of its 2 nodes to be removed at a time, and 1 are being removed or not ready",
		"clears when fewer are being removed or not ready, or the budget allows more",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// another is a second node, and whether it is ready.
func another(ready string) string {
	second := strings.Join(strings.Split(idle, "---\n")[2:4], "---\n")
	return "---\n" + strings.NewReplacer("general-1", "general-2", "uid: nc", "uid: nc2", "n-1", "n-2", "n1", "n2",
		"i-1", "i-2", `type: Ready, status: "True"`, `type: Ready, status: "`+ready+`"`).Replace(second)
}

// A budget clears when what why says has happened: the budget allows more, or the nodes that use it up are ready.
func TestABudgetClearsWhenItIsSaidTo(t *testing.T) {
	const removing, more = "fewer are being removed or not ready", "the budget allows more"
	for name, x := range map[string]struct{ clears, was, is, before, after string }{
		"it allows more":               {more, `"0"`, `"1"`, "", ""},
		"a node becomes ready":         {removing, "", "", another("False"), another("True")},
		"it allows one more":           {removing, `"1"`, `"2"`, another("False"), another("False")},
		"its schedule is another one":  {more, `"0", schedule: "@daily", duration: 24h`, `"1"`, "", ""},
		"it is for drifted nodes only": {more, `"0"`, `"0", reasons: [Drifted]`, "", ""},
	} {
		dump := func(budget, rest string) string {
			return strings.Replace(idle, "BUDGET", cmp.Or(budget, `"1"`), 1) + rest
		}
		kept, text := ask(t, load(t, dump(x.was, x.before)), "node/n1")
		if len(kept.Blockers) != 1 || !strings.Contains(kept.Blockers[0].Clears, x.clears) {
			t.Errorf("%s: no %q in\n%s", name, x.clears, text)
		}
		if a, text := ask(t, load(t, dump(x.is, x.after)), "node/n1"); a.Verdict != why.Due || len(a.Blockers) > 0 {
			t.Errorf("%s: it is kept even now:\n%s", name, text)
		}
	}
}

// Nodes that are too old for their pool, or have no room for a DaemonSet's pod, are replaced within the budgets for
// drift.
func TestABudgetForDriftKeepsOldAndCrowdedNodes(t *testing.T) {
	const want = "spec.disruption.budgets[0] (nodes: 0, reasons: Drifted) of NodePool general allows 0 of its 1 node " +
		"to be removed at a time"
	for annotation, more := range map[string]string{
		`nodeless.sh/soft-expire-after: 1h`:            web,
		`nodeless.sh/make-room-for-daemonsets: "true"`: web + strings.ReplaceAll(agent, "REQUESTS", "900m"),
	} {
		dump := strings.NewReplacer("{name: general,", "{annotations: {"+annotation+"}, name: general,",
			"nodes: BUDGET", `nodes: "0", reasons: [Drifted]`, "consolidateAfter: 30s", "consolidateAfter: Never").Replace(idle)
		if got := asked(t, dump+more, "node/n1"); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", annotation, want, got)
		}
	}
}
