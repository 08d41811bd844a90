package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// A node's price is divided by what is requested of each resource; nothing is counted twice, and the unrequested
// share is reported.
func TestCosts(t *testing.T) {
	m, err := view.New([]string{"cpu", "memory", "pods"})
	if err != nil {
		t.Fatal(err)
	}
	node := func(name string, price, cpu, memory int64) {
		m.SetNode(&view.Node{Name: name, Ready: true, Price: price, Allocatable: view.Amounts{cpu, memory, 110}})
	}
	pod := func(place, namespace, workload string, cpu, memory int64) *view.Pod {
		p := &view.Pod{
			UID: fmt.Sprint(place, namespace, workload, cpu, memory), Namespace: namespace, Node: place,
			Requests: view.Amounts{cpu, memory, 1},
		}
		if workload != "" {
			p.Workload = unique.Make(view.Object{Kind: "Deployment", Namespace: namespace, Name: workload})
		}
		m.SetPod(p)
		return p
	}
	node("half", 400, 1000, 1000)
	pod("half", "shop", "web", 500, 0)   // a half of one half
	pod("half", "shop", "api", 250, 500) // a quarter of one half, and a half of the other
	pod("half", "logs", "", 0, 100)      // a tenth of one half
	pod("", "shop", "web", 500, 0)       // costs nothing yet
	node("over", 100, 100, 0)            // offers no memory
	pod("over", "logs", "", 150, 1000)   // three quarters of what is requested
	pod("over", "shop", "web", 50, 0)    // a quarter
	gpu := &view.Node{Name: "gpu", Ready: true, Price: 600, Allocatable: view.Amounts{1000, 1000, 110}}
	gpu.Allocatable[view.GPUs], gpu.Allocatable[view.Addresses] = 2, 29
	m.SetNode(gpu)
	train := *pod("gpu", "lab", "train", 500, 0) // a half of one third
	train.Requests[view.GPUs], train.Requests[view.Addresses] = 2, 1
	m.SetPod(&train)                      // and another third
	node("free", 0, 1000, 1000)           // its price is unknown
	pod("free", "lab", "trial", 100, 100) // so the pod's cost is, too
	m.SetPod(&view.Pod{UID: "ended", Namespace: "old", Node: "half", Phase: view.Ended, Requests: view.Amounts{400}})
	m.SetClaim(&view.Claim{Name: "comes", Launched: viewtest.Now, Price: 50, Created: viewtest.Now.Add(-time.Minute)})

	divided := func(by string) view.Division {
		of, ok := view.DivideBy(by)
		if !ok {
			t.Fatalf("no division by %s", by)
		}
		return of
	}
	all := func(by string) string {
		var out []string
		for _, c := range divided(by).Costs(m) {
			out = append(out, fmt.Sprintf("%s/%s %d (%d pods, cpu %d)", c.Of.Namespace, c.Of.Name, c.Price, c.Pods, c.Requests[0]))
		}
		return strings.Join(out, "; ")
	}
	const spare = "/ 480 (0 pods, cpu 0)"
	for what, x := range map[string]struct{ got, want string }{
		"by namespace": {
			all(view.GroupNamespace),
			spare + "; lab/ 300 (2 pods, cpu 600); shop/ 275 (3 pods, cpu 800); logs/ 95 (2 pods, cpu 150)",
		},
		"by workload": {
			all(view.GroupWorkload),
			spare + "; lab/train 300 (1 pods, cpu 500); shop/api 150 (1 pods, cpu 250); shop/web 125 (2 pods, cpu 550); " +
				"logs/ 95 (2 pods, cpu 150); lab/trial 0 (1 pods, cpu 100)",
		},
	} {
		if x.got != x.want {
			t.Errorf("%s: %s\nwant %s", what, x.got, x.want)
		}
	}
	var sum int64
	for _, c := range divided(view.GroupWorkload).Costs(m) {
		sum += c.Price
	}
	if total := m.Totals().Price; sum != total {
		t.Errorf("the costs are %d together, the cluster costs %d", sum, total)
	}

	got := ""
	for _, p := range divided(view.GroupNamespace).Parts(m)["half"] {
		got += fmt.Sprintf("%s %.3f %v %v; ", p.Of.Namespace, p.Share, p.Requests, p.Pods)
	}
	want := "logs 0.050 [0 100 1 0 0 0] [0]; shop 0.625 [750 500 2 0 0 0] [1 2];  0.325 [0 0 0 0 0 0] []; "
	if got != want {
		t.Errorf("the parts of a node are %s, want %s", got, want)
	}
}
