package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/nodeless/nodeless/view"
)

// A node that has an unknown number of addresses for pods contributes none in use either, so that the sums of a group
// on the page, of nodes or of parts of nodes, are of the same nodes.
func TestAddressesInUseAreOfNodesWithAKnownNumber(t *testing.T) {
	m, err := view.New([]string{"cpu"})
	if err != nil {
		t.Fatal(err)
	}
	for name, offers := range map[string]int64{"known": 27, "unknown": 0} {
		n := &view.Node{Name: name, Ready: true, Allocatable: view.Amounts{1000}}
		n.Allocatable[view.Addresses] = offers
		m.SetNode(n)
		for _, pod := range []string{"a", "b", "c"} {
			p := &view.Pod{UID: name + pod, Namespace: "shop", Name: name + pod, Node: name, Requests: view.Amounts{100}}
			p.Requests[view.Addresses] = 1
			m.SetPod(p)
		}
	}
	var used, offered int64
	for _, b := range m.Journal().Take().Set {
		r, err := newRecord(&b, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		var fields []json.RawMessage
		var requests, allocatable []int64
		if err := json.Unmarshal(r.json, &fields); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(fields[7], &requests); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(fields[8], &allocatable); err != nil {
			t.Fatal(err)
		}
		used, offered = used+requests[2], offered+allocatable[2]
	}
	if used != 3 || offered != 27 {
		t.Errorf("%d of %d addresses are in use, want 3 of 27", used, offered)
	}
	got, err := parts{m}.answer(httptest.NewRequest(http.MethodGet, "/api/parts?by=namespace", nil))
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]int64{"known": 3, "unknown": 0} {
		if p := got.(map[string][]partItem)[node][0]; p.Requests[0] != 300 || p.Requests[2] != want {
			t.Errorf("of %s, pods take %v, want 300 of the CPU and %d addresses", node, p.Requests, want)
		}
	}
	if sums := m.Totals().Sums; sums.Requests[view.Addresses] != 3 || sums.Allocatable[view.Addresses] != 27 {
		t.Errorf("the cluster's sums are %+v", sums)
	}
}
