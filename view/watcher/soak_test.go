package watcher_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/lab/churn"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/watcher"
)

// soak is a cluster in which objects are created, changed and deleted, and the models that follow it.
type soak struct {
	*testing.T
	cluster *churn.Cluster
	models  map[string]*view.Model
	journal *view.Journal
	boxes   map[uint64]view.Box // what the page was sent
}

// However pods are created, changed, deleted and recreated with the same name, and however the watches break, the
// model equals the API server's state: in its sums, lists, journal and mirrors.
func TestTheModelIsTheClusterAfterTenThousandChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, door, stop := soaked(t)
		defer stop()
		for n := 1; n <= 10_000; n++ {
			if err := s.cluster.Change(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n%50 == 0 {
				synctest.Wait() // some changes are seen one by one, others in batches
			}
			if n%250 == 100 {
				door.Cut()
			}
			if n%250 == 0 {
				time.Sleep(10 * time.Minute) // of virtual time: reflectors wait before they list again
				synctest.Wait()
				if s.compare(n); t.Failed() {
					break
				}
			}
		}
		if n := door.Lists(); n < 40 {
			t.Errorf("there were %d lists: watches did not break as they should", n)
		}
	})
}

// Without contact with the API server, a note says that what is shown may be old. It goes with contact, and the model
// then equals the API server's state again.
func TestWithoutContactTheModelSaysThatItIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, door, stop := soaked(t)
		defer stop()
		for n, closed := range []bool{false, true, true, false, true, false} {
			if door.closed.Store(closed); closed {
				door.Cut()
			}
			for range 100 {
				if err := s.cluster.Change(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Minute) // of virtual time
			synctest.Wait()
			for of, m := range s.models {
				notes := strings.Join(m.Totals().Notes, "\n")
				for _, kind := range []string{"pods", "nodes"} {
					if strings.Contains(notes, "what is shown of "+kind+" may be old: watch: ") != closed {
						t.Errorf("step %d, contact: %t: the notes of the %s are %q", n, !closed, of, notes)
					}
				}
			}
			if !closed {
				s.compare(100 * (n + 1))
			}
		}
	})
}

// door is a connection to the API server that can be closed.
type door struct {
	*churn.Watches
	closed atomic.Bool
}

func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.closed.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return d.Watches.RoundTrip(r)
}

// soaked returns an empty cluster, the models that follow it, and what they follow it through.
func soaked(t *testing.T) (s *soak, through *door, stop func()) {
	t.Helper()
	server := apisim.New()
	through = &door{Watches: churn.Through(server)}
	cluster, err := churn.New(server)
	if err != nil {
		t.Fatal(err)
	}
	m, err := view.New([]string{"cpu"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f, err := watcher.Start(ctx,
		watcher.Options{REST: server.Config("view", through), Context: "soak", Addresses: true, Model: m})
	if err != nil {
		t.Fatal(err)
	}
	mirror, unmirror := m.Mirror(view.Allow{Nodes: true, Claims: true, Pools: true, Events: true, Pods: true})
	s = &soak{
		T: t, cluster: cluster,
		models: map[string]*view.Model{"model": m, "mirror": mirror}, journal: m.Journal(), boxes: map[uint64]view.Box{},
	}
	return s, through, func() {
		unmirror()
		f.Stop()
		cancel()
		time.Sleep(time.Minute)
	}
}

// compare checks that the models equal the API server's state.
func (s *soak) compare(n int) {
	s.Helper()
	pods, nodes, err := s.cluster.Read(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	there, want, asked := map[string]bool{}, map[string][]string{}, map[string]int64{}
	for _, node := range nodes.Items {
		there[node.Name] = true
	}
	var running, pending int
	for i := range pods.Items {
		p := &pods.Items[i]
		switch p.Status.Phase {
		case corev1.PodRunning:
			running++
		case corev1.PodPending:
			pending++
		default:
			continue
		}
		want[p.Spec.NodeName] = append(want[p.Spec.NodeName],
			fmt.Sprintf("%s %s %t", p.Name, p.Status.Phase, p.DeletionTimestamp != nil))
		asked[p.Spec.NodeName] += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	}
	s.followJournal()
	for of, m := range s.models {
		t := m.Totals()
		if t.Running != running || t.Pending != pending || t.Waiting != len(want[""]) ||
			t.Bound != running+pending-len(want[""]) || t.Nodes != len(nodes.Items) {
			s.Errorf("after %d changes the %s counts %+v; the API server has %d running, %d pending, %d without a place, "+
				"%d nodes", n, of, t, running, pending, len(want[""]), len(nodes.Items))
		}
		s.same(n, of+": without a place", m.Waiting(view.Query{}).Rows, want[""])
		for i := range churn.Nodes {
			name := churn.NodeName(i)
			row, known := m.Node(name)
			s.same(n, of+": on "+name, m.PodsOf(name, view.Query{}).Rows, want[name])
			if known != there[name] || known && (row.Pods != len(want[name]) || row.Requests[0] != asked[name]) {
				s.Errorf("after %d changes the %s has %s as %+v, known %t; the API server has %v with %d pods that ask for %d",
					n, of, name, row, known, there[name], len(want[name]), asked[name])
			}
		}
	}
	for _, b := range s.boxes {
		if len(b.Pods) != len(want[b.Name]) || !there[b.Name] {
			s.Errorf("after %d changes the page shows %d pods on %s, which is there: %t; the API server has %d", n,
				len(b.Pods), b.Name, there[b.Name], len(want[b.Name]))
		}
	}
	if len(s.boxes) != len(nodes.Items) {
		s.Errorf("after %d changes the page shows %d nodes of %d", n, len(s.boxes), len(nodes.Items))
	}
}

func (s *soak) followJournal() {
	changes := s.journal.Take()
	for _, id := range changes.Gone {
		delete(s.boxes, id)
	}
	for _, b := range changes.Set {
		s.boxes[b.ID] = b
	}
}

func (s *soak) same(n int, what string, rows []view.PodRow, want []string) {
	s.Helper()
	got := make([]string, len(rows))
	for i, r := range rows {
		got[i] = fmt.Sprintf("%s %s %t", r.Name, r.Phase, r.Deleting)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.Errorf("after %d changes, %s: %q; the API server has %q", n, what, got, want)
	}
}
