package watcher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/watcher"
)

// breaks is the way to an API server on which watches end, and now and then are too old to go on, so that everything
// is listed again.
type breaks struct {
	server *apisim.Server
	mu     sync.Mutex
	r      *rand.Rand
	open   map[*broken]bool
	lists  int
}

func (b *breaks) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	switch {
	case strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews"):
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		// This server forgets events.
		return say(req, http.StatusCreated,
			fmt.Sprintf(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`,
				!bytes.Contains(body, []byte("events")))), nil
	case q.Get("watch") == "" || q.Get("sendInitialEvents") != "":
		b.mu.Lock()
		b.lists++
		b.mu.Unlock()
	case b.chance(2):
		return say(req, http.StatusGone,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}`), nil
	}
	resp, err := b.server.RoundTrip(req)
	if err == nil && q.Get("watch") != "" && resp.StatusCode == http.StatusOK {
		w := &broken{ReadCloser: resp.Body, of: b}
		b.mu.Lock()
		b.open[w] = true
		b.mu.Unlock()
		resp.Body = w
	}
	return resp, err
}

// chance is true once in n times.
func (b *breaks) chance(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.r.IntN(n) == 0
}

// cut ends all watches, so that what changes from now on is seen later, and all at once.
func (b *breaks) cut() {
	b.mu.Lock()
	all := slices.Collect(maps.Keys(b.open))
	b.open = map[*broken]bool{}
	b.mu.Unlock()
	for _, w := range all {
		_ = w.ReadCloser.Close()
	}
}

func say(req *http.Request, status int, text string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text)), Request: req,
	}
}

// broken is a watch that cut can end.
type broken struct {
	io.ReadCloser
	of *breaks
}

// Read ends as a watch does whose time is over.
func (w *broken) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}

func (w *broken) Close() error {
	w.of.mu.Lock()
	delete(w.of.open, w)
	w.of.mu.Unlock()
	return w.ReadCloser.Close()
}

// soak is a cluster in which things come, change and go, and the models that follow it.
type soak struct {
	*testing.T
	api     client.Client
	r       *rand.Rand
	models  map[string]*view.Model
	journal *view.Journal
	boxes   map[uint64]view.Box // what the page has been told
}

// However pods come, change, go and come again under the same name, and however the watches break, the model is what
// the API server has: in its sums, its lists, its journal and its mirrors.
func TestTheModelIsTheClusterAfterTenThousandChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.New()
		door := &breaks{server: server, r: rand.New(rand.NewPCG(14, 6)), open: map[*broken]bool{}}
		api, err := client.New(server.Config("story", nil),
			client.Options{Scheme: scheme.Scheme, HTTPClient: &http.Client{Transport: server}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := view.New([]string{"cpu"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f, err := watcher.Start(ctx, watcher.Options{REST: server.Config("view", door), Context: "soak", Model: m})
		if err != nil {
			t.Fatal(err)
		}
		mirror, stop := m.Mirror(view.Allow{Nodes: true, Claims: true, Pools: true, Events: true, Pods: true})
		s := &soak{
			T: t, api: api, r: rand.New(rand.NewPCG(6, 14)),
			models: map[string]*view.Model{"model": m, "mirror": mirror}, journal: m.Journal(), boxes: map[uint64]view.Box{},
		}
		for n := 1; n <= 10_000; n++ {
			s.change()
			if n%50 == 0 {
				synctest.Wait() // some changes are seen one by one, others at once
			}
			if n%250 == 100 {
				door.cut()
			}
			if n%250 == 0 {
				time.Sleep(10 * time.Minute) // of virtual time: reflectors wait before they list again
				synctest.Wait()
				if s.compare(n); t.Failed() {
					break
				}
			}
		}
		if door.lists < 40 {
			t.Errorf("there were %d lists: watches did not break as they should", door.lists)
		}
		stop()
		f.Stop()
		cancel()
		time.Sleep(time.Minute)
	})
}

// change lets one thing come, change or go.
func (s *soak) change() {
	ctx, name := s.Context(), fmt.Sprintf("web-%d", s.r.IntN(60))
	node := fmt.Sprintf("node-%d", s.r.IntN(8))
	pod := &corev1.Pod{}
	err := s.api.Get(ctx, client.ObjectKey{Namespace: "shop", Name: name}, pod)
	switch {
	case s.r.IntN(20) == 0:
		err = s.changeNode(node)
	case apierrors.IsNotFound(err):
		err = s.api.Create(ctx, s.pod(name, node))
	case err != nil:
	default:
		err = s.changePod(pod, node)
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *soak) pod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(1+s.r.IntN(500)), resource.DecimalSI)},
	}}}
	if s.r.IntN(4) == 0 {
		p.Spec.NodeName = node // as a DaemonSet of old did
	}
	return p
}

func (s *soak) changePod(pod *corev1.Pod, node string) error {
	ctx, now := s.Context(), client.GracePeriodSeconds(0)
	switch s.r.IntN(6) {
	case 0: // it goes, from whatever state
		return s.api.Delete(ctx, pod, now)
	case 1: // another one takes its name before anybody looks
		if err := s.api.Delete(ctx, pod, now); err != nil {
			return err
		}
		return s.api.Create(ctx, s.pod(pod.Name, node))
	case 2: // it is asked to end
		return s.api.Delete(ctx, pod)
	case 3:
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			return s.api.SubResource("binding").Create(ctx, pod,
				&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
		}
		fallthrough
	default:
		was := pod.DeepCopy()
		pod.Status.Phase = []corev1.PodPhase{
			corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodFailed,
			corev1.PodSucceeded,
		}[s.r.IntN(5)]
		return s.api.Status().Patch(ctx, pod, client.MergeFrom(was))
	}
}

func (s *soak) changeNode(name string) error {
	node := &corev1.Node{}
	err := s.api.Get(s.Context(), client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return s.api.Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if err != nil || s.r.IntN(2) == 0 {
		return err
	}
	return s.api.Delete(s.Context(), node)
}

// compare wants the models to be what the API server has.
func (s *soak) compare(n int) {
	s.Helper()
	var pods corev1.PodList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&pods, &nodes} {
		if err := s.api.List(s.Context(), list); err != nil {
			s.Fatal(err)
		}
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
		for i := range 8 {
			name := fmt.Sprintf("node-%d", i)
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
