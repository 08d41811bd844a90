package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func TestWaits(t *testing.T) {
	pods := []podTimes{
		{Name: "kube-system/coredns", Created: at(1), Ready: at(100)}, // not part of the workload
		{Name: "default/early", Created: at(-5), Ready: at(50)},       // before the race
		{Name: "default/a", Created: at(1), Ready: at(11)},
		{Name: "default/b", Created: at(2), Ready: at(8)},                    // overlaps with a
		{Name: "default/unwanted", Created: at(3), Deleted: at(30)},          // scaled down before it ran
		{Name: "default/c", Created: at(20), Ready: at(24), Deleted: at(60)}, // ran for a while
		{Name: "default/stuck", Created: at(90)},
		{Name: "default/hung", Created: at(90), Bound: at(91)},
	}
	got := waitsOf(pods, "default", start, at(100))
	want := waits{Pods: 6, NeverRan: 3, Hung: 1, P50: 10, P99: 10, Some: 10 + 4 + 10}
	if got != want {
		t.Errorf("waits are %+v, want %+v", got, want)
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		q    float64
		want float64
	}{
		{nil, 0.5, 0},
		{[]float64{7}, 0.99, 7},
		{[]float64{1, 2, 3, 4}, 0.5, 2},
		{[]float64{1, 2, 3, 4}, 0.99, 4},
		{[]float64{1, 2, 3}, 0, 1},
	} {
		if got := quantile(c.of, c.q); got != c.want {
			t.Errorf("quantile %v of %v is %v, want %v", c.q, c.of, got, c.want)
		}
	}
}

func TestCosts(t *testing.T) {
	dollar := int64(1_000_000)
	all := []instance{
		{ID: "before", PriceMicros: dollar, LaunchedAt: at(-3600)},
		{ID: "gone before", PriceMicros: dollar, LaunchedAt: at(-3600), TerminatedAt: at(-1800)},
		{ID: "half", PriceMicros: 2 * dollar, LaunchedAt: at(0), TerminatedAt: at(1800)},
		{ID: "stays", PriceMicros: 3 * dollar, LaunchedAt: at(1800)},
		{ID: "ends later", PriceMicros: 4 * dollar, LaunchedAt: at(3600 - 900), TerminatedAt: at(9999)},
		{ID: "later", PriceMicros: 9 * dollar, LaunchedAt: at(3601)},
	}
	got := costsOf(all[:5], start, at(3600))
	want := costs{
		Launched: 3, Nodes: 3, RestPerHour: 1 + 3 + 4, Dollars: 1 + 1 + 1.5 + 1,
		NodeSeconds: 3600 + 1800 + 1800 + 900,
	}
	if got != want {
		t.Errorf("costs are %+v, want %+v", got, want)
	}
}

func TestWatcherNotesTheFirstTimes(t *testing.T) {
	w := &watcher{pods: map[string]*podTimes{}}
	p := pod("web", "1", "")
	p.UID, p.OwnerReferences = "u", []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}
	w.see(p, at(0), false)
	if got := w.pending("default"); got != "1 of 1 pods wait" {
		t.Errorf("pending says %q", got)
	}
	p.Spec.NodeName = "n"
	w.see(p, at(1), false)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.see(p, at(2), false)
	w.see(p, at(3), false)
	if got := w.pending("default"); got != "" {
		t.Errorf("pending says %q of a pod that is Ready", got)
	}
	w.see(p, at(4), true)
	want := podTimes{
		Name: "default/web", Owner: "ReplicaSet/web-1", Created: at(0), Bound: at(1), Ready: at(2), Deleted: at(4),
	}
	if got := w.times()[0]; got != want {
		t.Errorf("times are %+v, want %+v", got, want)
	}
}

// auditLine returns a line of an audit log.
func auditLine(second float64, agent, user, verb, resource, sub, pod string, code int) string {
	e := auditEvent{Stage: "ResponseComplete", Verb: verb, UserAgent: agent, Received: at(second)}
	if verb == "watch" {
		e.Stage = "ResponseStarted"
	}
	e.ResponseStatus.Code, e.User.Username = code, user
	e.ObjectRef.Resource, e.ObjectRef.Subresource = resource, sub
	e.ObjectRef.Namespace, e.ObjectRef.Name = "default", pod
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(raw) + "\n"
}

func TestAuditCountsCallsAndEvictions(t *testing.T) {
	const us, system = "karpenter/1.14.1", "system:serviceaccount:kube-system:"
	lines := []string{
		auditLine(-1, us, "admin", "list", "pods", "", "", 200), // before the race
		auditLine(1, us, "admin", "watch", "pods", "", "", 200),
		strings.Replace(auditLine(1, us, "admin", "watch", "pods", "", "", 200), "ResponseStarted", "ResponseComplete", 1),
		auditLine(2, us, "admin", "create", "pods", "eviction", "busy", 429), // forbidden by its budget
		auditLine(3, us, "admin", "create", "pods", "eviction", "busy", 201),
		auditLine(4, us, "admin", "create", "pods", "eviction", "busy", 201), // again: counts as one pod
		auditLine(5, us, "admin", "create", "pods", "eviction", "pending", 201),
		auditLine(6, "kube-controller-manager/v1", system+"pod-garbage-collector", "delete", "pods", "", "lost", 200),
		auditLine(7, "kube-controller-manager/v1", system+"replicaset-controller", "delete", "pods", "", "scaled", 200),
		auditLine(8, "nodeless-nodesim", "admin", "delete", "pods", "", "finished", 200),
		auditLine(9, us, "admin", "create", "pods", "eviction", "daemon", 201),
		`{"stage":"ResponseComplete","verb":"li`, // incomplete line
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := readAudit(path, "karpenter", start, at(60))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Calls; got["watch pods"] != 1 || got["create pods/eviction"] != 5 || sum(got) != 6 {
		t.Errorf("calls are %v", got)
	}
	pods := []podTimes{
		{Name: "default/busy", Ready: at(0)},
		{Name: "default/pending"},
		{Name: "default/lost", Ready: at(0)},
		{Name: "default/scaled", Ready: at(0)},
		{Name: "default/finished", Ready: at(0)},
		{Name: "default/daemon", Ready: at(0), Owner: "DaemonSet/agent"},
	}
	if got := a.evictions(pods); got != 2 {
		t.Errorf("%d evictions, want 2: busy and lost; %v", got, a.Evicted)
	}
}

func TestWhatDidNotOutliveAHandoverIsNamed(t *testing.T) {
	before := map[string]string{"node/1": "a", "nodeclaim/2": "pool-x", "pod/3": "web"}
	after := map[string]string{"node/1": "a", "pod/4": "web"}
	if got := missing(before, after); !slices.Equal(got, []string{"nodeclaim pool-x", "pod web"}) {
		t.Errorf("missing are %q", got)
	}
}

func TestReportMarksWhereNodelessIsWorse(t *testing.T) {
	run := func(side string, p50 float64, nodes, evictions int) result {
		r := result{Workload: "w", Side: side, BootTime: "2s", Evictions: evictions}
		r.P50, r.Nodes = p50, nodes
		return r
	}
	var out strings.Builder
	err := report(&out, []result{
		run("nodeless", 3, 11, 5), run("nodeless", 9, 11, 5), run("nodeless", 2, 11, 5),
		run("karpenter", 2, 10, 1), run("karpenter", 2, 10, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	// The median time is worse; one node in ten more and five evictions are not.
	for _, cell := range []string{" **3.0** / 2.0 ", " 11 / 10 ", " 5 / 1 "} {
		if !strings.Contains(out.String(), cell) {
			t.Errorf("no cell %q in\n%s", cell, out.String())
		}
	}
}

func TestWorkloadsAreChosenByName(t *testing.T) {
	for names, want := range map[string]int{"lone-pods": 1, "lone-pods,twenty-pods": 2, "all": len(workloads)} {
		if got, err := choose(names); err != nil || len(got) != want {
			t.Errorf("%s: %d workloads and error %v, want %d", names, len(got), err, want)
		}
	}
	seen := map[string]bool{}
	for _, w := range workloads {
		if w.about == "" || len(w.steps) == 0 || seen[w.name] {
			t.Errorf("workload %q: no description, no steps, or named twice", w.name)
		}
		seen[w.name] = true
	}
	for _, bad := range [][]string{
		{"-workload", "marathon"}, {"-side", "us"}, {"-runs", "0"}, {"-boot-time", "-1s"}, {"-o", "yaml"}, {"fast"},
	} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

func TestSavedResultsAreReadAgain(t *testing.T) {
	bin := t.TempDir()
	if err := os.MkdirAll(filepath.Join(bin, "race"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := result{Workload: "lone-pods", Side: "nodeless", Run: 1, BootTime: "2s"}
	r.P50, r.Audit.Calls = 2.5, map[string]int{"list pods": 3}
	if err := r.save(filepath.Join(bin, "race", "lone-pods-nodeless-1.json")); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-saved", "-bin", bin})
	if err != nil {
		t.Fatal(err)
	}
	all, err := o.savedResults()
	if err != nil || len(all) != 1 || all[0].P50 != 2.5 || sum(all[0].Audit.Calls) != 3 {
		t.Errorf("read %+v and error %v", all, err)
	}
}

func TestAStepThatIsLate(t *testing.T) {
	r := result{Steps: []stepTimes{
		{Step: "apply", AllRan: 3, Awaited: true}, {Step: "scale to 0", AllRan: -1}, {Step: "update", AllRan: -1, Awaited: true},
	}}
	if got := r.late(); got != "update" {
		t.Errorf("the step that is late is %q, want update: nobody waits for pods in %q", got, "scale to 0")
	}
	if got := (&result{Steps: r.Steps[:2]}).late(); got != "" {
		t.Errorf("step %q is late, want none", got)
	}
}
