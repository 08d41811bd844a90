package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// occupied creates a ready node of the room with a pod of one CPU on it, and returns the claim's name.
func (r *room) occupied(name string, change ...func(*karpv1.NodeClaim)) string {
	r.t.Helper()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: r.pool + "-" + name, Labels: map[string]string{karpv1.NodePoolLabelKey: r.pool},
		Finalizers: []string{karpv1.TerminationFinalizer},
	}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: class.Group, Kind: class.Kind, Name: class.Name}
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	for _, f := range change {
		f(claim)
	}
	if err := r.client.Create(r.t.Context(), claim); err != nil {
		r.t.Fatal(err)
	}
	r.until("the claim is known", func() bool { return r.state.Claim(claim.Name) != nil })
	node := r.boot(claim.Name)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "pause", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
	}}}
	if err := r.client.Create(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
	r.until("the pod is on its machine", func() bool {
		m, _ := r.state.NodeOfClaim(claim.Name)
		return len(m.Pods) == 1
	})
	return claim.Name
}

// replace returns the command that replaces the nodes of these claims with what the engine would launch for their
// pods.
func (r *room) replace(s *model.Snapshot, claims ...string) model.Command {
	r.t.Helper()
	c := model.Command{ID: "command-" + r.namespace, Method: model.Underutilized}
	names := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if slices.Contains(claims, n.Claim) {
			names[n.Name] = true
			c.Removals = append(c.Removals,
				model.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Method: c.Method, Saves: n.Price})
		}
	}
	c.Launches = engine.Provision(s.Draining(names), model.Policy{}).Launches
	if len(c.Removals) != len(claims) || len(c.Launches) != 1 {
		r.t.Fatalf("a command of %d removals and %d launches", len(c.Removals), len(c.Launches))
	}
	return c
}

func still(s *model.Snapshot, c model.Command) model.Reason {
	return engine.StillTrue(s, model.Policy{}, c)
}

// turn runs one cycle of the controller, without disruption.
func (r *room) turn() cycle.Result {
	r.t.Helper()
	s := r.snapshot()
	done := r.applier.Apply(r.t.Context(), s, engine.Provision(s, model.Policy{}))
	advanced, _ := r.applier.Advance(r.t.Context(), r.snapshot(), still)
	done.Add(advanced)
	return done
}

// claims returns the NodeClaims of the room's pool by name.
func (r *room) claims() map[string]*karpv1.NodeClaim {
	r.t.Helper()
	var list karpv1.NodeClaimList
	if err := r.client.List(context.Background(), &list,
		client.MatchingLabels{karpv1.NodePoolLabelKey: r.pool}); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]*karpv1.NodeClaim{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// bootReplacements makes the nodes of all claims ready that are neither victims nor registered yet.
func (r *room) bootReplacements(victims ...string) {
	r.t.Helper()
	for name, c := range r.claims() {
		if !slices.Contains(victims, name) && c.Status.ProviderID == "" && c.DeletionTimestamp == nil {
			r.boot(name)
		}
	}
}

// marks lists the marks of a command that a node carries: annotation, taint, condition.
func (r *room) marks(claim string) string {
	r.t.Helper()
	c, out := r.claim(claim), ""
	if c.Annotations[translate.AnnotationCommand] != "" {
		out += "annotation "
	}
	node := &corev1.Node{}
	if err := r.client.Get(r.t.Context(), client.ObjectKey{Name: "node-" + claim}, node); err == nil && isTainted(node) {
		out += "taint "
	}
	if conditions.IsTrue(c, karpv1.ConditionTypeDisruptionReason) {
		out += "condition "
	}
	if c.DeletionTimestamp != nil {
		out += "going "
	}
	return out
}

const allMarks = "annotation taint condition "

func (r *room) expectMarks(want string, claims ...string) {
	r.t.Helper()
	for _, c := range claims {
		if got := r.marks(c); got != want {
			r.t.Errorf("%s: %q, want %q", c, got, want)
		}
	}
}

func TestMachinesGoWhenTheirReplacementIsReady(t *testing.T) {
	r := enter(t, "100")
	a, b := r.occupied("a"), r.occupied("b")
	s := r.snapshot()
	done := r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a, b)}})
	if len(done.Created) != 1 || len(done.Begun) != 1 || len(done.Errors)+len(done.Refused) != 0 {
		t.Fatalf("begun: %+v", done)
	}
	r.expectMarks(allMarks, a, b)
	for range 3 {
		if done := r.turn(); len(done.Created)+len(done.Removed)+len(done.Undone) != 0 {
			t.Fatalf("nothing is ready yet: %+v", done)
		}
	}
	r.boot(done.Created[0])
	r.until("the machines go", func() bool { return len(r.turn().Finished) == 1 })
	r.expectMarks(allMarks+"going ", a, b)
	if c := r.claim(a); c.Annotations[translate.AnnotationDisruption] != "Underutilized" {
		t.Errorf("claim: %+v", c.Annotations)
	}
	for _, e := range []string{
		"DisruptionLaunching", "DisruptionWaitingReadiness", "DisruptionTerminating " + a,
		"DisruptionTerminating node-" + a,
	} {
		if r.events.count(e) != 1 {
			t.Errorf("event %s: %v", e, r.events.seen)
		}
	}
	if done := r.turn(); len(done.Created)+len(done.Removed) != 0 || len(r.claims()) != 3 {
		t.Errorf("afterwards: %+v", done)
	}
}

func TestACommandWhoseReplacementIsNeverReadyIsUndone(t *testing.T) {
	r := enter(t, "100")
	a := r.occupied("a")
	s := r.snapshot()
	r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a)}})
	_, due := r.applier.Advance(t.Context(), r.snapshot(), still)
	if want := r.clock.Now().Add(10 * time.Minute); !due.Equal(want) {
		t.Errorf("to be looked at again at %s, want %s", due, want)
	}
	r.clock.Advance(9 * time.Minute)
	if done := r.turn(); len(done.Undone) != 0 {
		t.Fatalf("too early: %+v", done)
	}
	r.clock.Advance(time.Minute)
	if done := r.turn(); len(done.Undone) != 1 || done.Undone[0].Why != "timeout" {
		t.Fatalf("undone: %+v", done)
	}
	r.expectMarks("", a)
	if len(r.claims()) != 2 || !r.state.Resting(r.pool) {
		t.Error("its replacement stays, and the pool is left alone for a while")
	}
	if r.events.count("DisruptionBlocked "+a+
		" Disruption was abandoned: its replacement was not ready within 10m0s") != 1 {
		t.Errorf("events: %v", r.events.seen)
	}
	if done := r.turn(); len(done.Created)+len(done.Undone) != 0 {
		t.Errorf("again: %+v", done)
	}
}

func TestACommandIsUndoneWhen(t *testing.T) {
	for name, c := range map[string]struct {
		ready  bool // whether the replacement is ready
		happen func(r *room, victim, replacement string)
		why    string
		grace  *metav1.Duration // the victim's terminationGracePeriod
	}{
		"its replacement is gone": {false, func(r *room, _, replacement string) {
			c := r.claim(replacement)
			_ = r.client.Delete(r.t.Context(), c)
			r.release(c)
		}, "replacement_failed", nil},
		"its replacement is being deleted": {true, func(r *room, _, replacement string) {
			_ = r.client.Delete(r.t.Context(), r.claim(replacement))
		}, "replacement_failed", nil},
		"a pod may not be disrupted any more": {true, holdPod, "no_longer_true", nil},
		"nor before a deadline":               {true, holdPod, "no_longer_true", &metav1.Duration{Duration: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			r := enter(t, "100")
			a := r.occupied("a", func(claim *karpv1.NodeClaim) { claim.Spec.TerminationGracePeriod = c.grace })
			s := r.snapshot()
			replacement := r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a)}}).Created[0]
			c.happen(r, a, replacement)
			if c.ready {
				r.bootIfThere(replacement)
			}
			r.until("it is undone", func() bool {
				advanced, _ := r.applier.Advance(t.Context(), r.snapshot(), still)
				return len(advanced.Undone) == 1 && advanced.Undone[0].Why == c.why
			})
			r.expectMarks("", a)
			if again, _ := r.applier.Advance(t.Context(), r.snapshot(), still); len(again.Undone)+len(again.Errors) != 0 {
				t.Errorf("again: %+v", again)
			}
		})
	}
}

// holdPod forbids to disrupt the pod on the victim.
func holdPod(r *room, victim, _ string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: r.namespace}}
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"true"}}}`))
	if err := r.client.Patch(r.t.Context(), pod, patch); err != nil {
		r.t.Fatal(err)
	}
	r.until("the world knows", func() bool {
		m, _ := r.state.NodeOfClaim(victim)
		return len(m.Pods) == 1 && m.Pods[0].DoNotDisrupt
	})
}

// bootIfThere registers a claim's Node unless the claim is being deleted.
func (r *room) bootIfThere(name string) {
	if c := r.claims()[name]; c != nil && c.DeletionTimestamp == nil {
		r.boot(name)
	}
}

func TestAVictimThatIsDeletedByHandDoesNotHoldTheOthers(t *testing.T) {
	r := enter(t, "100")
	a, b := r.occupied("a"), r.occupied("b")
	s := r.snapshot()
	replacement := r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a, b)}}).Created[0]
	if err := r.client.Delete(t.Context(), r.claim(a)); err != nil {
		t.Fatal(err)
	}
	r.boot(replacement)
	r.until("the other goes too", func() bool { return slices.Equal(r.turn().Removed, []string{b}) })
	if len(r.claims()) != 3 {
		t.Errorf("claims: %v", r.claims())
	}
}

func TestAPoolThatIsDeletedTakesItsCommandsWithIt(t *testing.T) {
	r := enter(t, "100")
	a := r.occupied("a")
	s := r.snapshot()
	replacement := r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a)}}).Created[0]
	if err := r.client.Delete(t.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: r.pool}}); err != nil {
		t.Fatal(err)
	}
	r.until("the garbage collector takes the replacement",
		func() bool { return r.claim(replacement).DeletionTimestamp != nil })
	r.until("the command is undone", func() bool {
		r.turn()
		return r.marks(a) == ""
	})
}

func TestMarksThatNoCommandAccountsForAreRemoved(t *testing.T) {
	r := enter(t, "100")
	a, b, c := r.occupied("a"), r.occupied("b"), r.occupied("c")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + a}}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	tainted := node.DeepCopy()
	tainted.Spec.Taints = append(tainted.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	garbled := r.claim(b)
	garbled.Annotations = map[string]string{translate.AnnotationCommand: "{not JSON", translate.AnnotationReplaces: "x"}
	condition := r.claim(c)
	condition.StatusConditions().SetTrue(karpv1.ConditionTypeDisruptionReason)
	for _, err := range []error{
		r.client.Update(t.Context(), tainted), r.client.Update(t.Context(), garbled),
		r.client.Status().Update(t.Context(), condition),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.until("all are as any other", func() bool {
		done := r.turn()
		if len(done.Created)+len(done.Removed) != 0 {
			t.Fatalf("done: %+v", done)
		}
		return r.marks(a)+r.marks(b)+r.marks(c) == "" && r.claim(b).Annotations[translate.AnnotationReplaces] == ""
	})
}

func TestALimitHoldsBackTheWholeCommand(t *testing.T) {
	r := enter(t, "4")
	a, b := r.occupied("a"), r.occupied("b")
	s := r.snapshot()
	s.Pools[0].Limits = model.Limits{}
	done := r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a, b)}})
	if len(done.Created)+len(done.Begun) != 0 || len(done.Refused) != 1 {
		t.Errorf("got %+v", done)
	}
	r.expectMarks("", a, b)
}

// mortal is a process that dies after the given number of writes: the last write takes effect, but its response is
// lost.
type mortal struct {
	client.Client
	mu   sync.Mutex
	left int
}

var errDead = errors.New("the process has stopped")

// live makes a call if the process is alive, and returns errDead if the process dies with it.
func (m *mortal) live(call func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left <= 0 {
		return errDead
	}
	m.left--
	if err := call(); m.left > 0 {
		return err
	}
	return errDead
}

func (m *mortal) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left <= 0
}

func (m *mortal) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return m.live(func() error { return m.Client.Create(ctx, o, opts...) })
}

func (m *mortal) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return m.live(func() error { return m.Client.Patch(ctx, o, p, opts...) })
}

func (m *mortal) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return m.live(func() error { return m.Client.Delete(ctx, o, opts...) })
}

func (m *mortal) Status() client.SubResourceWriter { return mortalStatus{m.Client.Status(), m} }

type mortalStatus struct {
	client.SubResourceWriter
	m *mortal
}

func (s mortalStatus) Patch(ctx context.Context, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	return s.m.live(func() error { return s.SubResourceWriter.Patch(ctx, o, p, opts...) })
}

// A command consists of one replacement, three marks on each of two victims, and two writes to end each victim. A
// process may stop after any of these writes; the next process finds the command and completes it.
func TestAProcessMayStopAfterAnyWriteOfACommand(t *testing.T) {
	const writes = 1 + 2*3 + 2*2
	for k := range writes + 1 {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			r := enter(t, "100")
			a, b := r.occupied("a"), r.occupied("b")
			m := &mortal{Client: r.client, left: k}
			r.restart(m)
			s := r.snapshot()
			r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a, b)}})
			r.bootReplacements(a, b)
			if !m.dead() {
				r.until("the process stops, or is done", func() bool { return len(r.turn().Finished) == 1 || m.dead() })
			}
			r.restart(nil)
			if k == 0 {
				r.turn()
				r.expectMarks("", a, b)
				return
			}
			r.until("the command is done", func() bool {
				r.turn()
				return r.marks(a)+r.marks(b) == allMarks+"going "+allMarks+"going "
			})
			if all := r.claims(); len(all) != 3 {
				t.Errorf("%d claims", len(all))
			}
		})
	}
}

// Undoing is one write to the replacement and three writes to each of two victims.
func TestAProcessMayStopAfterAnyWriteOfUndoing(t *testing.T) {
	const writes = 1 + 2*3
	for k := range writes + 1 {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			r := enter(t, "100")
			a, b := r.occupied("a"), r.occupied("b")
			s := r.snapshot()
			r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a, b)}})
			r.clock.Advance(10 * time.Minute)
			m := &mortal{Client: r.client, left: k}
			r.restart(m)
			r.turn()
			r.restart(nil)
			r.until("the command is undone", func() bool {
				r.turn()
				return r.marks(a)+r.marks(b) == ""
			})
			if all := r.claims(); len(all) != 3 {
				t.Errorf("%d claims", len(all))
			}
		})
	}
}
