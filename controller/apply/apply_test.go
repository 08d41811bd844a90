package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// room is a real API server, a cluster state that watches it, and an applier that writes to it.
type room struct {
	t         *testing.T
	client    client.Client
	namespace string
	pool      string
	clock     *clock.Virtual
	state     *cluster.State
	applier   *Applier
	events    *recorder
	leave     func() // stops the watch
}

// recorder keeps the recorded events as "Reason object message".
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func (e *recorder) Event(o runtime.Object, _, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, reason+" "+o.(client.Object).GetName()+" "+message)
}

// count returns the number of events that begin with prefix.
func (e *recorder) count(prefix string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, s := range e.seen {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

var class = cloud.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}

// catalog returns a small and a large type in one zone.
func catalog() []model.InstanceType {
	size := func(name string, cpu int64, price model.Price) model.InstanceType {
		r := model.Resources{model.CPU: cpu, model.Memory: cpu << 22, model.Pods: 110, model.EphemeralStorage: 20 << 30}
		return model.InstanceType{
			Name: name, Capacity: r, Allocatable: r,
			Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, name),
				model.OneOf(model.LabelArch, "amd64"), model.OneOf(model.LabelOS, "linux")),
			Offerings: []model.Offering{{Zone: "z1", CapacityType: model.OnDemand, Price: price, Available: true}},
		}
	}
	return []model.InstanceType{size("t.large", 2000, 20), size("t.xlarge", 4000, 40)}
}

// enter creates a room with its own NodePool, limited to cpuLimit.
func enter(t *testing.T, cpuLimit string) *room {
	p := planetest.Start(t)
	r := &room{t: t, namespace: planetest.Namespace(t, p), events: &recorder{}, clock: clock.NewVirtual(time.Now())}
	r.pool = "pool-" + r.namespace
	ctx := context.Background()
	var err error
	if r.client, err = client.New(p.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: r.pool}}
	np.Spec.Template.Labels = map[string]string{"tier": "web"}
	np.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{
		Key:      model.LabelArch,
		Operator: "In", Values: []string{"amd64"},
	}}
	np.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: class.Group, Kind: class.Kind, Name: class.Name}
	np.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("720h")
	np.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	np.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse(cpuLimit)}
	if err := r.client.Create(ctx, np); err != nil {
		t.Fatal(err)
	}
	r.restart(nil)
	t.Cleanup(func() { r.leave() })
	t.Cleanup(r.sweep)
	return r
}

// restart simulates a new process: an empty cluster state and an applier that writes through the given client, or
// through the room's client if nil.
func (r *room) restart(through client.Client) {
	r.t.Helper()
	if r.leave != nil {
		r.leave()
	}
	ctx, stop := context.WithCancel(context.Background())
	r.leave = stop
	c, err := cache.New(planetest.Start(r.t).RESTConfig(), cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = c.Start(ctx) }()
	r.state = cluster.New(cluster.Options{Clock: r.clock})
	if err := r.state.Attach(ctx, c); err != nil {
		r.t.Fatal(err)
	}
	r.state.SetCatalog(class, catalog(), "")
	if through == nil {
		through = r.client
	}
	r.applier = New(Options{Client: through, State: r.state, Recorder: r.events, Clock: r.clock})
}

// sweep deletes the objects that the test created, finalizers included.
func (r *room) sweep() {
	ctx := context.Background()
	var claims karpv1.NodeClaimList
	if err := r.client.List(ctx, &claims, client.MatchingLabels{karpv1.NodePoolLabelKey: r.pool}); err != nil {
		r.t.Error(err)
	}
	for i := range claims.Items {
		_ = r.client.Delete(ctx, &claims.Items[i])
		r.release(&claims.Items[i])
	}
	if err := r.client.Delete(ctx,
		&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: r.pool}}); client.IgnoreNotFound(err) != nil {
		r.t.Error(err)
	}
}

// release removes the finalizers of a claim.
func (r *room) release(c *karpv1.NodeClaim) {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := client.IgnoreNotFound(r.client.Patch(context.Background(), c.DeepCopy(), patch)); err != nil {
		r.t.Error(err)
	}
}

// pods creates pods that request the given CPU, and waits until the cluster state has them.
func (r *room) pods(count int, cpu string) {
	r.t.Helper()
	for range count {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: r.namespace}}
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "pause", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)},
		}}}
		if err := r.client.Create(r.t.Context(), p); err != nil {
			r.t.Fatal(err)
		}
	}
	r.until("the pods wait", func() bool { return len(r.snapshot().Pending) >= count })
}

func (r *room) until(what string, ok func() bool) {
	r.t.Helper()
	planetest.Eventually(r.t, what, func(context.Context) error {
		if !ok() {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// snapshot returns the snapshot restricted to the pods and the NodePool of this room.
func (r *room) snapshot() *model.Snapshot {
	s := *r.state.Snapshot()
	s.Pending = slices.DeleteFunc(slices.Clone(s.Pending), func(p model.Pod) bool { return p.Namespace != r.namespace })
	s.Pools = slices.DeleteFunc(slices.Clone(s.Pools), func(p model.Pool) bool { return p.Name != r.pool })
	return &s
}

// plan returns the engine's plan for the snapshot, which check.Plan must accept.
func (r *room) plan(s *model.Snapshot) model.Plan {
	r.t.Helper()
	p := engine.Provision(s, model.Policy{})
	if wrong := check.Plan(s, model.Policy{}, p); len(wrong) > 0 {
		r.t.Fatal(wrong)
	}
	return p
}

// carryOut applies a plan and reports on its pods.
func (r *room) carryOut(s *model.Snapshot, p model.Plan) cycle.Result {
	r.t.Helper()
	done := r.applier.Apply(r.t.Context(), s, p)
	r.applier.Report(s, p, done.Claims)
	return done
}

func (r *room) claim(name string) *karpv1.NodeClaim {
	r.t.Helper()
	c := &karpv1.NodeClaim{}
	if err := r.client.Get(r.t.Context(), types.NamespacedName{Name: name}, c); err != nil {
		r.t.Fatal(err)
	}
	return c
}

func TestAPendingPodGetsOneClaimHoweverOftenThePlanIsReplayed(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "1")
	s := r.snapshot()
	p := r.plan(s)
	done := r.carryOut(s, p)
	if len(done.Created) != 1 || len(done.Errors) != 0 {
		t.Fatalf("got %+v", done)
	}
	if now := r.snapshot(); len(r.plan(now).Launches) != 0 {
		t.Error("the next snapshot does not know the claim")
	}
	again := r.carryOut(s, p)
	if len(again.Created) != 0 || !slices.Equal(again.Existing, done.Created) {
		t.Errorf("replayed: %+v", again)
	}
	c := r.claim(done.Created[0])
	if !strings.HasPrefix(c.Name, r.pool+"-") || c.Labels["tier"] != "web" ||
		c.Labels["karpenter.k8s.aws/ec2nodeclass"] != "default" ||
		!slices.Contains(c.Finalizers, karpv1.TerminationFinalizer) || c.OwnerReferences[0].Name != r.pool ||
		c.Annotations[karpv1.NodePoolHashAnnotationKey] == "" || c.Spec.ExpireAfter.Duration == nil {
		t.Errorf("contract: %+v", c)
	}
	if r.events.count("Nominated web-") != 1 {
		t.Errorf("events: %v", r.events.seen)
	}
}

func TestANameThatATerminatingClaimHoldsIsNotWaitedFor(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "1")
	s := r.snapshot()
	p := r.plan(s)
	first := r.applier.Apply(t.Context(), s, p).Created
	if err := r.client.Delete(t.Context(), r.claim(first[0])); err != nil {
		t.Fatal(err)
	}
	second := r.applier.Apply(t.Context(), s, p)
	third := r.applier.Apply(t.Context(), s, p)
	if len(second.Created) != 1 || second.Created[0] == first[0] || !slices.Equal(third.Existing, second.Created) {
		t.Errorf("second %+v, third %+v", second, third)
	}
}

func TestLimitsHoldAlsoForAnOldPlan(t *testing.T) {
	r := enter(t, "4")
	r.pods(2, "1500m")
	s := r.snapshot()
	old := r.plan(s)
	if done := r.applier.Apply(t.Context(), s, old); len(done.Created) == 0 {
		t.Fatalf("got %+v", done)
	}
	r.pods(3, "1500m")
	blind := r.snapshot()
	blind.Nodes = nil
	blind.Pools[0].Usage, blind.Pools[0].NodeCount = model.Resources{}, 0
	done := r.applier.Apply(t.Context(), blind, engine.Provision(blind, model.Policy{}))
	if len(done.Created) != 0 || len(done.Refused) == 0 {
		t.Errorf("got %+v", done)
	}
	if used, _ := r.state.PoolUsage(r.pool); used[model.CPU] > 4000 {
		t.Errorf("the limit of 4 CPUs was exceeded: %d", used[model.CPU])
	}
}

// A new leader whose watch began with a stale list has not seen the claims that its predecessor created last.
func TestLimitsHoldForALeaderWhoseWatchIsBehind(t *testing.T) {
	r := enter(t, "4")
	r.pods(2, "1500m")
	s := r.snapshot()
	first := r.applier.Apply(t.Context(), s, r.plan(s))
	if len(first.Created) == 0 {
		t.Fatalf("got %+v", first)
	}
	r.state = cluster.New(cluster.Options{Clock: r.clock}) // watches nothing
	np := &karpv1.NodePool{}
	if err := r.client.Get(t.Context(), types.NamespacedName{Name: r.pool}, np); err != nil {
		t.Fatal(err)
	}
	r.state.Update(np)
	r.state.SetCatalog(class, catalog(), "")
	r.applier = New(Options{Client: r.client, State: r.state, Recorder: r.events, Clock: r.clock})
	if err := r.applier.Resync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if used, nodes := r.state.PoolUsage(r.pool); used[model.CPU] != 4000 || nodes != int64(len(first.Created)) {
		t.Errorf("%d CPUs on %d machines are known", used[model.CPU], nodes)
	}
}

func TestAPodThatFitsNothingHearsWhyOnce(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "64")
	for range 3 {
		s := r.snapshot()
		r.carryOut(s, r.plan(s))
	}
	if n := r.events.count("FailedScheduling web-"); n != 1 || r.events.count("FailedScheduling") != 1 {
		t.Errorf("events: %v", r.events.seen)
	}
}

// boot registers a ready, empty Node for a claim.
func (r *room) boot(name string) string {
	r.t.Helper()
	ctx := r.t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, Labels: map[string]string{
		karpv1.NodePoolLabelKey: r.pool, karpv1.NodeInitializedLabelKey: "true", model.LabelInstanceType: "t.large",
	}}}
	node.Spec.ProviderID = "aws:///z1/i-" + name
	if err := r.client.Create(ctx, node); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = r.client.Delete(context.Background(), node) })
	// kube-controller-manager updates it too.
	planetest.Eventually(r.t, "the node says it is ready", func(ctx context.Context) error {
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		node.Status.Capacity = corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"),
			"pods": resource.MustParse("110"),
		}
		node.Status.Allocatable = node.Status.Capacity
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return r.client.Status().Update(ctx, node)
	})
	planetest.Eventually(r.t, "kube-controller-manager takes the node's first taint off", func(ctx context.Context) error {
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("taints %v: %w", node.Spec.Taints, err)
		}
		return nil
	})
	c := r.claim(name)
	c.Status.ProviderID, c.Status.NodeName = node.Spec.ProviderID, node.Name
	c.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	if err := r.client.Status().Update(ctx, c); err != nil {
		r.t.Fatal(err)
	}
	r.until("the machine is ready", func() bool {
		m, ok := r.state.NodeOfClaim(name)
		return ok && m.State == model.Initialized
	})
	return node.Name
}

func TestAnEmptyMachineGoesUnlessAPodHasCome(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "1")
	s := r.snapshot()
	name := r.applier.Apply(t.Context(), s, r.plan(s)).Created[0]
	node := r.boot(name)
	removal := model.Plan{Removals: []model.Removal{{Node: node, Claim: name, Pool: r.pool, Method: model.Empty}}}
	before := r.state.Snapshot()
	r.until("kube-scheduler or the test binds the pod", func() bool {
		r.bind(node)
		m, _ := r.state.NodeOfClaim(name)
		return len(m.Pods) == 1
	})
	if done := r.applier.Apply(t.Context(), before, removal); len(done.Removed) != 0 || len(done.Refused) != 1 {
		t.Fatalf("a pod has come: %+v", done)
	}
	if err := r.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(r.namespace),
		client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	r.until("the machine is empty", func() bool {
		m, _ := r.state.NodeOfClaim(name)
		return len(m.Pods) == 0
	})
	done := r.applier.Apply(t.Context(), r.state.Snapshot(), removal)
	if !slices.Equal(done.Removed, []string{name}) {
		t.Fatalf("empty: %+v", done)
	}
	if c := r.claim(name); c.DeletionTimestamp == nil || c.Annotations[translate.AnnotationDisruption] != "Empty" {
		t.Errorf("claim: %+v", c.ObjectMeta)
	}
	if m, ok := r.state.NodeOfClaim(name); !ok || !m.Deleting {
		t.Error("the next snapshot does not know that the machine goes")
	}
	if again := r.applier.Apply(t.Context(), r.state.Snapshot(), removal); len(again.Removed) != 0 {
		t.Errorf("again: %+v", again)
	}
	if r.events.count("DisruptionTerminating") != 2 {
		t.Errorf("events: %v", r.events.seen)
	}
}

func TestAMachineDeletedByHandIsReplacedBeforeItIsDrained(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "1")
	s := r.snapshot()
	old := r.carryOut(s, r.plan(s)).Created[0]
	node := r.boot(old)
	r.until("the pod runs there", func() bool {
		r.bind(node)
		m, _ := r.state.NodeOfClaim(old)
		return len(m.Pods) == 1
	})
	if err := r.client.Delete(t.Context(), r.claim(old)); err != nil {
		t.Fatal(err)
	}
	r.until("the pod has to leave", func() bool { return len(r.snapshot().Pending) == 1 })
	s = r.snapshot()
	done := r.carryOut(s, r.plan(s))
	if len(done.Created) != 1 || s.Pending[0].From != node {
		t.Fatalf("from %q: %+v", s.Pending[0].From, done)
	}
	if next := r.plan(r.snapshot()); len(next.Launches) != 0 || len(next.Placements) != 1 ||
		next.Placements[0].Node != done.Created[0] {
		t.Errorf("the replacement is not waited for: %+v", next)
	}
	var pods corev1.PodList
	if err := r.client.List(t.Context(), &pods, client.InNamespace(r.namespace)); err != nil ||
		pods.Items[0].Spec.NodeName != node || pods.Items[0].DeletionTimestamp != nil {
		t.Errorf("the pod: %v %+v", err, pods.Items)
	}
	if n := r.events.count("Nominated"); n != 1 {
		t.Errorf("events: %v", r.events.seen)
	}
}

// bind binds the room's pods to a node, as kube-scheduler does.
func (r *room) bind(node string) {
	var pods corev1.PodList
	if err := r.client.List(r.t.Context(), &pods, client.InNamespace(r.namespace)); err != nil {
		r.t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == "" {
			to := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
			_ = r.client.SubResource("binding").Create(r.t.Context(), &pods.Items[i], to) // kube-scheduler may be first
		}
	}
}

func TestAPodThatTheSchedulerLeavesOutIsSeen(t *testing.T) {
	e := &recorder{}
	w := cluster.New(cluster.Options{})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Message: "0/1 nodes are available: port taken",
	}}
	w.Update(pod)
	r := newPodReporter(New(Options{State: w, Recorder: e}).o)
	key := model.PodKey{Namespace: "default", Name: "web", UID: "u"}
	start := time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)
	for _, at := range []time.Duration{0, 5 * time.Second, 14 * time.Second, 16 * time.Second, 20 * time.Second} {
		if at == 16*time.Second && len(e.seen) > 0 {
			t.Errorf("kube-scheduler may try the pod again by itself: %v", e.seen)
		}
		s := &model.Snapshot{
			Now: start.Add(at), Pending: []model.Pod{{PodKey: key}},
			Nodes: []model.Node{{Name: "n", State: model.Initialized}},
		}
		r.report(s, &model.Plan{Placements: []model.Placement{{Pod: key, Node: "n"}}}, nil)
	}
	if e.count("SchedulerDisagrees web Pod should fit node/n, but kube-scheduler does not bind it: 0/1 nodes are available: port taken") != 1 || len(e.seen) != 1 {
		t.Errorf("events: %v", e.seen)
	}
}
