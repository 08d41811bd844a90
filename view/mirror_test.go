package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// in returns a pod on a node.
func in(namespace, name, node string) *view.Pod {
	return &view.Pod{
		UID: "uid-of-" + namespace + "-" + name, Namespace: namespace, Name: name, Node: node,
		Phase: view.Running, Created: viewtest.Now, Requests: view.Amounts{1000},
	}
}

// A mirror with all permissions equals the original, whenever it starts.
func TestAMirrorOfEverythingIsTheSame(t *testing.T) {
	m, pods := viewtest.Cluster(20, 5)
	to, stop := m.Mirror(view.Allow{Nodes: true, Claims: true, Pools: true, Events: true, Pods: true})
	m.DeletePod(pods[3].UID)
	m.SetPod(in("shop", "new", viewtest.NodeName(1)))
	moved := *pods[4]
	moved.Phase = view.Ended
	m.SetPod(&moved)
	m.DeleteNode(viewtest.NodeName(2))
	m.DeleteClaim(viewtest.Claim(2).Name)
	m.SetNode(viewtest.Node(30))
	m.DeletePool("batch")
	m.Say(view.Object{Kind: "Node", Name: viewtest.NodeName(1)},
		view.Said{Reason: "Odd", Message: "odd", At: viewtest.Now})
	for _, q := range []view.Query{{}, {Filter: "capacity=spot"}} {
		want, got := m.Document(viewtest.Now, q), to.Document(viewtest.Now, q)
		if len(want.Nodes) == 0 || len(want.Nodes) != len(got.Nodes) || len(want.Pools) != len(got.Pools) {
			t.Fatalf("%d nodes and %d pools, want %d and %d", len(got.Nodes), len(got.Pools), len(want.Nodes), len(want.Pools))
		}
	}
	if want, got := m.Totals(),
		to.Totals(); want.Sums != got.Sums || want.Bound != got.Bound || want.Running != got.Running || len(got.Notes) != 0 {
		t.Errorf("sums are %+v, want %+v", got, want)
	}
	stop()
	m.DeleteNode(viewtest.NodeName(1))
	if _, ok := to.Node(viewtest.NodeName(1)); !ok {
		t.Error("it follows after it was stopped")
	}
}

// A user who may list the pods of one namespace sees these, the names of their nodes, and nothing else.
func TestAMirrorOfANamespaceHasItsPodsAlone(t *testing.T) {
	m, _ := viewtest.Cluster(3, 2)
	mine := in("mine", "a", viewtest.NodeName(1))
	m.SetPod(mine)
	to, _ := m.Mirror(view.Allow{Namespaces: []string{"mine"}})
	second := in("mine", "b", viewtest.NodeName(2))
	m.SetPod(second)
	m.SetPod(&view.Pod{UID: "uid-of-waits", Namespace: "mine", Name: "waits"})
	m.SetPod(&view.Pod{UID: "uid-of-waits-too", Namespace: "shop", Name: "waits-too"})
	m.SetNode(viewtest.Node(1)) // a change of an object that may not be seen
	m.Say(view.Object{Kind: "Node", Name: viewtest.NodeName(1)},
		view.Said{Reason: "Secret", Message: "secret", At: viewtest.Now})

	seen := func() (names []string) {
		for _, l := range to.Nodes(view.Query{Window: view.Window{Height: 100}}).Rows {
			r := l.Row
			names = append(names, r.Name)
			if r.Status != view.StatusUnknown || r.Type != "" || r.Price != 0 || r.Allocatable != (view.Amounts{}) ||
				r.Claim != "" || len(r.Why) != 0 {
				t.Errorf("more than its name is known of a node: %+v", r)
			}
		}
		slices.Sort(names)
		return names
	}
	if names := seen(); !slices.Equal(names, []string{viewtest.NodeName(1), viewtest.NodeName(2)}) {
		t.Errorf("seen are nodes %v", names)
	}
	sums := to.Totals()
	if sums.Bound != 2 || sums.Waiting != 1 || sums.Requests[0] != 2000 || sums.PoolCount != 0 || sums.Price != 0 ||
		sums.NotReady != 0 {
		t.Errorf("sums tell of others: %+v", sums)
	}
	if text := strings.Join(sums.Notes, "\n"); !strings.Contains(text, "only pods of mine") ||
		!strings.Contains(text, "nodepools.karpenter.sh") {
		t.Errorf("what is left out is not said: %q", text)
	}
	m.DeletePod(second.UID)
	if names := seen(); len(names) != 1 {
		t.Errorf("a node that no pod of theirs names any more is shown: %v", names)
	}
	if all := m.Namespaces(); !slices.Equal(all, []string{"mine", "shop"}) {
		t.Errorf("namespaces %v", all)
	}
}
