package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/record"
)

// crowd is a cluster of two nodes that cost $1 and $3 an hour; the second one has two GPUs.
func crowd() *model.Snapshot {
	s := &model.Snapshot{Now: noon}
	add := func(n *model.Node, name string, daemon bool, cpu, memory, gpus int64) {
		var r model.Resources
		r[model.CPU], r[model.Memory], r[model.NvidiaGPU] = cpu, memory, gpus
		p := model.BoundPod{Pod: model.Pod{PodKey: pod(name), Shape: len(s.Shapes)}, Daemon: daemon}
		s.Shapes = append(s.Shapes, model.Shape{Requests: r})
		n.Pods = append(n.Pods, p)
	}
	s.Nodes = []model.Node{node("node-a", "a", 1e6), node("node-b", "b", 3e6)}
	for i := range s.Nodes {
		s.Nodes[i].Allocatable[model.CPU], s.Nodes[i].Allocatable[model.Memory] = 4000, 8
	}
	a, b := &s.Nodes[0], &s.Nodes[1]
	add(a, "web-1", false, 2000, 2, 0) // 0.5·½ + 0.5·¼ = $0.375
	add(a, "api-1", false, 1000, 4, 0) // 0.5·¼ + 0.5·½ = $0.375
	add(a, "log-1", true, 200, 0, 0)   // 0.5·0.05 = $0.025
	add(a, "ended", false, 4000, 8, 0)
	a.Pods[3].Terminal = true
	b.Allocatable[model.NvidiaGPU] = 2
	b.Pool = "gpu"
	add(b, "train", false, 0, 0, 1) // 1·½ = $0.5
	add(b, "web-2", false, 400, 0, 0)
	b.Pods[1].Namespace = "other" // 1·0.1 = $0.1
	return s
}

// owned says which Deployment, or DaemonSet, created the pods of crowd.
func owned(string) map[string]record.Workload {
	out := map[string]record.Workload{}
	for _, name := range []string{"web-1", "api-1", "web-2"} {
		namespace := map[bool]string{true: "other", false: "shop"}[name == "web-2"]
		out["uid-"+name] = record.Workload{Kind: "Deployment", Namespace: namespace, Name: name[:3]}
	}
	out["uid-log-1"] = record.Workload{Kind: "DaemonSet", Namespace: "shop", Name: "log"}
	return out
}

// removal is a cycle that removes both nodes of crowd without replacement.
func removal(method model.Method) record.Cycle {
	c := model.Command{ID: "cmd", Method: method}
	for _, n := range crowd().Nodes {
		c.Removals = append(c.Removals, model.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Method: method})
	}
	return record.Cycle{
		Snapshot: crowd(), Plan: model.Plan{Commands: []model.Command{c}}, Begun: []string{"cmd"}, Workloads: owned,
	}
}

// An hour after nodes of $4 are gone, their pools, namespaces and workloads have saved that in proportion to prices
// and requests, and what nobody requested is nobody's.
func TestSavingsAreDividedByWhatPodsRequested(t *testing.T) {
	ledger := func(c record.Cycle) []record.Saving {
		t.Helper()
		all := record.NewTracker().Cycle(c, noon)
		for _, claim := range []string{"a", "b"} {
			all = append(all, record.Entry{Outcome: &record.Outcome{
				Of: all[0].Decision.ID, Kind: record.Terminated, Claim: claim, Time: noon,
			}})
		}
		data, err := record.Encode(all)
		if err != nil {
			t.Fatal(err)
		}
		if all, err = record.Decode(data); err != nil {
			t.Fatal(err)
		}
		l := record.Savings(record.Fold(all), at(time.Hour), record.DefaultHorizon)
		if !about(l.Dollars, 4) {
			t.Errorf("$%v are saved, want 4", l.Dollars)
		}
		return l.Savings
	}
	say := func(savings []record.Saving, by string) string {
		var out []string
		sum := 0.0
		for _, s := range record.SavedBy(savings, by) {
			sum += s.Dollars
			out = append(out, fmt.Sprintf("%s %.3f", s, s.Dollars))
			if s.Decisions != 1 || !about(s.DollarsPerHour, s.Dollars) || !about(s.RemovedDollars, s.Dollars) {
				t.Errorf("by %s: %+v", by, s)
			}
		}
		if !about(sum, 4) {
			t.Errorf("by %s: the parts come to $%v, want 4", by, sum)
		}
		return strings.Join(out, "; ")
	}
	unknown, drifted := removal(model.Underutilized), removal(model.Drifted)
	unknown.Workloads = nil
	underutilized := ledger(removal(model.Underutilized))
	for what, x := range map[string]struct{ got, want string }{
		"pool":      {say(underutilized, record.ByPool), "gpu 3.000; general 1.000"},
		"namespace": {say(underutilized, record.ByNamespace), "requested by no pod 2.625; shop 1.275; other 0.100"},
		"workload": {
			say(underutilized, record.ByWorkload),
			"requested by no pod 2.625; shop 0.500; Deployment shop/api 0.375; Deployment shop/web 0.375; " +
				"Deployment other/web 0.100; DaemonSet shop/log 0.025",
		},
		"empty nodes, whose pods have ended": {
			say(ledger(removal(model.Empty)), record.ByWorkload), "requested by no pod 3.975; DaemonSet shop/log 0.025",
		},
		"owners that are not known": {
			say(ledger(unknown), record.ByWorkload), "requested by no pod 2.625; shop 1.275; other 0.100",
		},
	} {
		if x.got != x.want {
			t.Errorf("%s: %s\nwant %s", what, x.got, x.want)
		}
	}
	if d := record.NewTracker().Cycle(drifted, noon)[0].Decision; len(d.Shares) > 0 {
		t.Errorf("a drifted node, which no savings count, is divided: %+v", d.Shares)
	}
	old := record.Record{
		Decision: record.Decision{
			ID: "old", Time: noon, Kind: record.Remove, Method: "Empty",
			Removed: []record.RemovedNode{{Claim: "a", Pool: "general", Offer: record.Offer{DollarsPerHour: 4}}},
		},
		Outcomes: []record.Outcome{{Of: "old", Kind: record.Terminated, Claim: "a", Time: noon}},
	}
	before := record.Savings([]record.Record{old}, at(time.Hour), record.DefaultHorizon).Savings
	if got := say(before, record.ByNamespace); got != "not recorded 4.000" {
		t.Errorf("a decision of an older version: %s", got)
	}
}

// A decision about pods of many workloads names the largest, and the namespaces of the others, beside what no pod
// requested.
func TestSharesAreBounded(t *testing.T) {
	s := &model.Snapshot{Now: noon, Nodes: []model.Node{node("node-a", "a", 1e6)}}
	n := &s.Nodes[0]
	s.Shapes = make([]model.Shape, 1)
	s.Shapes[0].Requests[model.CPU] = 2
	for i := range 500 {
		key := model.PodKey{Namespace: fmt.Sprintf("n%d", i%3), Name: fmt.Sprint(i), UID: fmt.Sprint(i)}
		n.Pods = append(n.Pods, model.BoundPod{Pod: model.Pod{PodKey: key}})
	}
	c := removal(model.Underutilized)
	c.Snapshot, c.Plan.Commands[0].Removals = s, c.Plan.Commands[0].Removals[:1]
	c.Workloads = func(string) map[string]record.Workload {
		out := map[string]record.Workload{}
		for i := range 500 {
			out[fmt.Sprint(i)] = record.Workload{Kind: "Job", Namespace: fmt.Sprintf("n%d", i%3), Name: fmt.Sprint(i)}
		}
		out["0"] = record.Workload{Kind: "Job", Namespace: "n0", Name: strings.Repeat("x", 1<<20)}
		return out
	}
	for cpu, unrequested := range map[int64]int{1000: 0, 2000: 1} {
		n.Allocatable[model.CPU] = cpu
		d := record.NewTracker().Cycle(c, noon)[0].Decision
		sum := 0.0
		for _, share := range d.Shares {
			if sum += share.DollarsPerHour; len(share.Name) > 253 {
				t.Errorf("a name of %d letters is kept", len(share.Name))
			}
		}
		if want := 50 + 3 + unrequested; len(d.Shares) != want || !about(sum, 1) {
			t.Errorf("CPU of %d m: %d shares of $%v together, want %d: of 50 workloads and three namespaces, and $1",
				cpu, len(d.Shares), sum, want)
		}
	}
}
