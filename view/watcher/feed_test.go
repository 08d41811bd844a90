package watcher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/plane/planetest"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/watcher"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// story is a cluster and a user who looks at it.
type story struct {
	*testing.T
	api       client.Client
	rest      *rest.Config
	namespace string
}

func tell(t *testing.T) *story {
	p := planetest.Start(t)
	api, err := client.New(p.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &story{T: t, api: api, rest: p.RESTConfig(), namespace: planetest.Namespace(t, p)}
}

func (s *story) create(o client.Object) {
	s.Helper()
	if err := s.api.Create(context.Background(), o); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = client.IgnoreNotFound(s.api.Delete(context.Background(), o, client.GracePeriodSeconds(0))) })
}

// look starts a feed for this story's nodes.
func (s *story) look(cfg *rest.Config) (*view.Model, error) { return s.lookFor(cfg, false) }

func (s *story) lookFor(cfg *rest.Config, decisions bool) (*view.Model, error) {
	s.Helper()
	m, err := view.New([]string{"cpu", "memory", "pods"})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // the feed lasts as long as the test
	s.Cleanup(cancel)
	f, err := watcher.Start(ctx, watcher.Options{
		REST: cfg, Context: "story", Selector: "story=" + s.namespace, Decisions: decisions, Addresses: true, Model: m,
	})
	if err != nil {
		return nil, err
	}
	s.Cleanup(f.Stop)
	first, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return m, f.Wait(first)
}

func (s *story) node(name string) *corev1.Node { return s.nodeOf(name, func(*corev1.Node) {}) }

func (s *story) nodeOf(name string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + name, Labels: map[string]string{
		"story": s.namespace, "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
		"topology.kubernetes.io/region": "us-west-2",
	}}}
	change(n)
	s.create(n)
	before := n.DeepCopy() // Kubernetes' controllers change a new Node, too
	n.Status.Allocatable = corev1.ResourceList{
		"cpu": resource.MustParse("1930m"), "memory": resource.MustParse("7Gi"),
		"pods": resource.MustParse("29"),
	}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Now(),
	}}
	if err := s.api.Status().Patch(context.Background(), n, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	s.keepReady(n.Name)
	return n
}

// keepReady sends a node's heartbeats until the test ends, in place of a kubelet: Kubernetes takes a node without them
// for lost after 50 s.
func (s *story) keepReady(node string) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`,
				time.Now().UTC().Format(time.RFC3339))
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
			_ = s.api.Status().Patch(ctx, n, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
		}
	}()
}

func (s *story) pod(name, node string) *corev1.Pod { return s.podOf(name, node, func(*corev1.Pod) {}) }

func (s *story) podOf(name, node string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")},
	}}}
	p.Spec.InitContainers = []corev1.Container{{
		Name: "i", Image: "i",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}}
	if node == "" {
		p.Spec.NodeSelector = map[string]string{"story": "nobody-s"}
	}
	change(p)
	s.create(p)
	return p
}

func (s *story) eventually(what string, ok func() error) {
	s.Helper()
	planetest.Eventually(s, what, func(context.Context) error { return ok() })
}

// The contents of a plain cluster are shown, and so are its changes.
func TestTheModelFollowsTheCluster(t *testing.T) {
	s := tell(t)
	n := s.node("a")
	first := s.pod("first", n.Name)
	m, err := s.look(s.rest)
	if err != nil {
		t.Fatal(err)
	}
	row := func() view.NodeRow {
		r, _ := m.Node(n.Name)
		return r
	}
	if r := row(); r.Pods != 1 || r.Requests != (view.Amounts{1000, 1 << 30, 1}) ||
		r.Allocatable != (view.Amounts{1930, 7 << 30, 29}) || r.Status != view.StatusReady || r.Price != 96_000 {
		t.Fatalf("%+v", r)
	}
	s.pod("second", n.Name)
	s.eventually("a second pod is seen", func() error { return want(row().Pods, 2) })
	if err := s.api.Delete(context.Background(), first, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually("a deleted pod is not", func() error { return want(row().Requests, view.Amounts{1000, 1 << 30, 1}) })
	cordoned := n.DeepCopy()
	cordoned.Spec.Unschedulable = true
	if err := s.api.Patch(context.Background(), cordoned, client.MergeFrom(n)); err != nil {
		t.Fatal(err)
	}
	s.eventually("it is cordoned", func() error { return want(row().Status, view.StatusCordoned) })

	s.pod("waiting", "")
	s.create(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "said", Namespace: s.namespace},
		Source:     corev1.EventSource{Component: "karpenter"}, Reason: "FailedScheduling",
		Message: "no pool has such nodes", LastTimestamp: metav1.Now(),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: s.namespace, Name: "waiting"},
	})
	s.eventually("it is said why a pod waits", func() error {
		for _, r := range m.Waiting(view.Query{}).Rows {
			if r.Namespace == s.namespace {
				return want(r.Name+": "+r.Why, "waiting: no pool has such nodes")
			}
		}
		return errors.New("no pod waits")
	})
}

// A workload's first pods, and those of a new template, are rollouts; a replacement pod is not.
func TestRolloutsAreSeen(t *testing.T) {
	s := tell(t)
	m, err := s.look(s.rest)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	d.Spec.Template.Spec.NodeSelector = map[string]string{"story": "nobody-s"}
	s.create(d)
	seen := func() (out []string) {
		for _, r := range m.Rollouts(view.Span{To: time.Now().Add(time.Hour)}) {
			if r.Workload.Namespace == s.namespace {
				out = append(out, r.Workload.Kind+" "+r.Workload.Name)
			}
		}
		return out
	}
	s.eventually("the first pod is a rollout", func() error { return want(strings.Join(seen(), ", "), "Deployment web") })
	var pods corev1.PodList
	if err := s.api.List(t.Context(), &pods, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Delete(t.Context(), &pods.Items[0], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually("another pod takes its place", func() error {
		rows := m.Waiting(view.Query{Filter: "namespace=" + s.namespace}).Rows
		if len(rows) != 1 || rows[0].Name == pods.Items[0].Name {
			return fmt.Errorf("waiting: %+v", rows)
		}
		return want(strings.Join(seen(), ", "), "Deployment web")
	})
	before := d.DeepCopy()
	d.Spec.Template.Spec.Containers[0].Image = "web:2"
	if err := s.api.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.eventually("the new template is another", func() error {
		return want(strings.Join(seen(), ", "), "Deployment web, Deployment web")
	})
}

// NodeClaims have rows before their nodes do, and pools have limits and budgets.
func TestClaimsAndPoolsAreShown(t *testing.T) {
	s := tell(t)
	np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	np.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	np.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass",
		Name: "x",
	}
	np.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("100")}
	np.Spec.Disruption.Budgets = []karpv1.Budget{
		{Nodes: "1"},
		{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}},
	}
	np.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	s.create(np)
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: s.namespace + "-1", Labels: map[string]string{"story": s.namespace, karpv1.NodePoolLabelKey: np.Name},
		Annotations: map[string]string{"nodeless.sh/interrupted": "spot_interrupted 2026-11-22T01:16:15Z"},
	}}
	c.Spec.Requirements, c.Spec.NodeClassRef = []karpv1.NodeSelectorRequirementWithMinValues{},
		np.Spec.Template.Spec.NodeClassRef
	s.create(c)
	m, err := s.look(s.rest)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := m.Node(c.Name)
	if !ok || r.HasNode || r.Pool != np.Name || r.Status != view.StatusInterrupted ||
		strings.Join(r.Why, "") != "spot interrupted" {
		t.Errorf("%+v", r)
	}
	for _, p := range m.Pools(time.Now(), view.Query{Filter: np.Name}).Rows {
		if p.Name != np.Name {
			continue
		}
		// One node of the pool is in flight and there is no node yet: none may be removed.
		if len(p.Limits) != 1 || p.Limits[0].Most != "100" || strings.Join(p.Budgets, "|") != "1|0 Drifted" ||
			p.Rows != 1 {
			t.Errorf("%+v", p)
		}
		if b := p.Disruption(time.Now()).Budgets; len(b) != 2 || !b[0].Active || b[1].Nodes != "0" ||
			strings.Join(b[1].Reasons, "") != "Drifted" {
			t.Errorf("budgets %+v", b)
		}
		if got := p.Pool.Allowed(time.Now(), 10); got != [len(view.Reasons)]int{1, 0, 1} {
			t.Errorf("of ten nodes may go %v", got)
		}
	}
}

// as returns the configuration of a user with these permissions on all objects.
func (s *story) as(rules ...rbacv1.PolicyRule) *rest.Config {
	user := "reader-of-" + s.namespace
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	s.create(role)
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})
	cfg := rest.CopyConfig(s.rest)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return cfg
}

func TestWhatMayNotBeSeenIsSaid(t *testing.T) {
	s := tell(t)
	n := s.nodeOf("seen", func(n *corev1.Node) {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.9.1.0/26", []string{"10.9.1.0/26"}
	})
	cfg := s.as(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}})
	var m *view.Model
	s.eventually("the API server knows the role", func() (err error) {
		m, err = s.look(cfg)
		return err
	})
	r, ok := m.Node(n.Name)
	if !ok || r.Allocatable[0] != 1930 {
		t.Errorf("the node is not seen: %+v", r)
	}
	if got := r.Allocatable[view.Addresses]; got != 0 { // there may be a VPC CNI, which does not use the node's range
		t.Errorf("the node has %d addresses, want none: how many is unknown", got)
	}
	notes := strings.Join(m.Totals().Notes, "\n")
	for _, want := range []string{
		"you may not list pods", "you may not list events",
		"you may not list nodeclaims.karpenter.sh", "you may not list nodepools.karpenter.sh",
		"you may not list daemonsets.apps: not shown are how many addresses nodes have for pods",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not said in %q", want, notes)
		}
	}
}

func TestWithoutNodesThereIsAnError(t *testing.T) {
	s := tell(t)
	if _, err := s.look(s.as()); err == nil ||
		!strings.Contains(err.Error(), `context "story" does not let you list nodes`) ||
		!strings.Contains(err.Error(), "list and watch") {
		t.Errorf("got %v", err)
	}
	gone := rest.CopyConfig(s.rest)
	gone.Host = "https://127.0.0.1:1"
	if _, err := s.look(gone); err == nil || !strings.Contains(err.Error(), "does not answer") ||
		!strings.Contains(err.Error(), "--context") {
		t.Errorf("got %v", err)
	}
	stale := rest.CopyConfig(s.rest)
	stale.CertData, stale.KeyData, stale.CertFile, stale.KeyFile, stale.BearerToken = nil, nil, "", "", "old"
	if _, err := s.look(stale); err == nil || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("got %v", err)
	}
	if _, err := watcher.Start(context.Background(), watcher.Options{REST: s.rest, Selector: "a=b=c"}); err == nil ||
		!strings.Contains(err.Error(), "node selector") {
		t.Errorf("got %v", err)
	}
}

func want[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// The decisions in the log are shown, new ones are added, and damage is reported.
func TestDecisionsAreFollowed(t *testing.T) {
	s := tell(t)
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.api, err = client.New(s.rest, client.Options{Scheme: known}); err != nil {
		t.Fatal(err)
	}
	entries := []record.Entry{{Decision: &record.Decision{
		ID: "a", Time: time.Now(), Kind: record.Launch,
		Why: "m5.large for 1 pod",
	}}}
	pack := func() []byte {
		data, err := record.Encode(entries)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	log := &v1alpha1.DecisionLog{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Piece: 1, Entries: 1,
		From: metav1.Now(), To: metav1.Now(), Data: pack(),
	}
	s.create(log)
	m, err := s.lookFor(s.rest, true)
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Decision("a"); r == nil || r.Why != "m5.large for 1 pod" {
		t.Errorf("what was decided is not seen: %+v", r)
	}
	entries = append(entries,
		record.Entry{Outcome: &record.Outcome{Of: "a", Kind: record.Ready, Time: time.Now(), Node: "n", Seconds: 44}})
	log.Data = pack()
	if err := s.api.Update(context.Background(), log); err != nil {
		t.Fatal(err)
	}
	s.eventually("what became of it is seen", func() error {
		if r := m.Decision("a"); r == nil || r.Result() != "ready in 44s as n" {
			return fmt.Errorf("got %+v", r)
		}
		return nil
	})
	log.Data = []byte("nonsense")
	if err := s.api.Update(context.Background(), log); err != nil {
		t.Fatal(err)
	}
	s.eventually("that it is damaged is said", func() error {
		if notes := strings.Join(m.Totals().Notes, "\n"); !strings.Contains(notes, "DecisionLog "+s.namespace) ||
			m.Decision("a") != nil {
			return fmt.Errorf("the notes are %q", notes)
		}
		return nil
	})
}

// Every node counts GPUs of all makes, and the addresses of pods: those that the VPC CNI, or else the node's range of
// addresses, has room for, and those in use. The VPC CNI is followed by all who may watch its DaemonSet.
func TestGPUsAndAddressesAreCounted(t *testing.T) {
	s := tell(t)
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), "amd.com/gpu": resource.MustParse("1")}
	n := s.nodeOf("a", func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.9.0.0/26", []string{"10.9.0.0/26"} })
	before := n.DeepCopy()
	for name, q := range gpu {
		n.Status.Allocatable[name] = q
	}
	if err := s.api.Status().Patch(t.Context(), n, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	takes := s.podOf("takes", n.Name, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("2")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
	})
	host := s.podOf("host", n.Name, func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	for _, p := range []*corev1.Pod{takes, host} {
		was := p.DeepCopy()
		p.Status.Phase = corev1.PodRunning
		if err := s.api.Status().Patch(t.Context(), p, client.MergeFrom(was)); err != nil {
			t.Fatal(err)
		}
	}
	read := []string{"list", "watch"}
	cfg := s.as(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: read},
		rbacv1.PolicyRule{
			APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, ResourceNames: []string{"aws-node"}, Verbs: read,
		})
	var m *view.Model
	s.eventually("the API server knows the role", func() (err error) {
		m, err = s.look(cfg)
		return err
	})
	counts := func() string {
		r, _ := m.Node(n.Name)
		return fmt.Sprint(r.Requests[view.GPUs:], r.Allocatable[view.GPUs:])
	}
	if got := counts(); got != "[2 1] [5 61]" {
		t.Errorf("in use and offered are %s, want 2 of 5 GPUs and 1 of 61 addresses", got)
	}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "aws-node"}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "aws-node"}}
	ds.Spec.Template.Labels = ds.Spec.Selector.MatchLabels
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "aws-node", Image: "i"}}
	s.create(ds)
	s.eventually("an m5.large has 3 interfaces with 9 addresses each for pods", func() error {
		return want(counts(), "[2 1] [5 27]")
	})
	was := ds.DeepCopy()
	ds.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ENABLE_PREFIX_DELEGATION", Value: "true"}}
	if err := s.api.Patch(t.Context(), ds, client.MergeFrom(was)); err != nil {
		t.Fatal(err)
	}
	s.eventually("each is a prefix of 16", func() error { return want(counts(), "[2 1] [5 432]") })
	was = ds.DeepCopy()
	ds.Spec.Template.Spec.NodeSelector = map[string]string{"cni": "another"}
	if err := s.api.Patch(t.Context(), ds, client.MergeFrom(was)); err != nil {
		t.Fatal(err)
	}
	s.eventually("it runs on some nodes: nothing is known of any", func() error { return want(counts(), "[2 0] [5 0]") })
	if err := s.api.Delete(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	s.eventually("without it the node's own range counts", func() error { return want(counts(), "[2 1] [5 61]") })
	if notes := strings.Join(m.Totals().Notes, "\n"); strings.Contains(notes, "daemonsets") {
		t.Errorf("it is said that something is not shown: %q", notes)
	}
}
