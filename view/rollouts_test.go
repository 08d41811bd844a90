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

// A revision starts with its first pod, in whatever order pods are seen, and does not start again.
func TestRollouts(t *testing.T) {
	m, n := model(t), 0
	pod := func(name, hash string, minute int) *view.Pod {
		n++
		p := &view.Pod{
			UID: fmt.Sprint(n), Namespace: "shop", Name: fmt.Sprint(name, n),
			Created:  viewtest.Now.Add(time.Duration(minute) * time.Minute),
			Revision: unique.Make(view.Revision{Workload: view.Object{Kind: "Deployment", Namespace: "shop", Name: name}, Hash: hash}),
		}
		m.SetPod(p)
		return p
	}
	began := func(from, to int) string {
		var out []string
		at := func(minute int) time.Time { return viewtest.Now.Add(time.Duration(minute) * time.Minute) }
		for _, r := range m.Rollouts(view.Span{From: at(from), To: at(to)}) {
			out = append(out, fmt.Sprintf("%s:%s@%.0f", r.Workload.Name, r.Hash, r.At.Sub(viewtest.Now).Minutes()))
		}
		return strings.Join(out, " ")
	}
	pod("web", "a", 3)
	first := pod("web", "a", 1)
	pod("api", "x", 3)
	pod("web", "b", 5)
	m.SetPod(&view.Pod{UID: "job", Namespace: "shop", Name: "job", Created: viewtest.Now})
	if got, want := began(0, 10), "web:a@1 api:x@3 web:b@5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	m.DeletePod(first.UID)
	pod("web", "a", 8) // the pod was moved, or the template is used again
	if got, want := began(2, 10), "api:x@3 web:b@5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := began(3, 5); got != "api:x@3" {
		t.Errorf("from a moment until before another: %s", got)
	}
	for i := range 10_000 {
		pod("many", fmt.Sprint(i), 20+i)
	}
	if got := began(0, 21); got != "many:0@20" {
		t.Errorf("of more than are kept, the oldest are %s", got)
	}
	pod("late", "y", 2)
	if got := began(0, 20); got != "" {
		t.Errorf("what began before all that are kept is there: %s", got)
	}
}
