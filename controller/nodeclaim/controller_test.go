package nodeclaim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/nodeclaim"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// story is one test's cluster: the shared API server, a region of its own, and a controller that can be restarted.
type story struct {
	*testing.T
	api    client.WithWatch
	region *region
	ns     string
	clock  *clock.Virtual // nil: the story runs in real time
	writes *writes
	start  func() (stop func())
	stop   func()
}

func tell(t *testing.T) *story { return tellAt(t, nil) }

// tellAt starts a story whose time is clk's, or real time if clk is nil.
func tellAt(t *testing.T, clk *clock.Virtual) *story {
	p := planetest.Start(t)
	api, err := client.NewWithWatch(p.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, api: api, region: newRegion(), ns: planetest.Namespace(t, p), clock: clk, writes: &writes{}}
	var used clock.Clock = clock.Real{}
	if clk != nil {
		used = clk
	}
	s.start = func() func() {
		ctx, cancel := context.WithCancel(context.Background())
		ready, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- controller.Run(ctx, controller.Options{
				REST: s.counted(p.RESTConfig()), Clock: used, Gates: gates.Gates{NodeRepair: true},
				OnReady: func() { close(ready) },
				Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
					return s.region, nil
				},
			})
		}()
		select {
		case <-ready:
		case err := <-done:
			t.Fatalf("the controller ended: %v", err)
		}
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("the controller ended with %v", err)
			}
		}
	}
	s.stop = s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *story) restart() {
	s.stop()
	s.stop = s.start()
}

// must fails the test on an error.
func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *story) claim(name string, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	s.Helper()
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
			Taints:       []corev1.Taint{{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}},
			Resources:    karpv1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		},
	}
	for _, f := range change {
		f(c)
	}
	s.must(s.api.Create(context.Background(), c))
	s.Cleanup(func() { s.sweep(name) })
	return c
}

// sweep removes what a failed test left behind.
func (s *story) sweep(name string) {
	for _, o := range []client.Object{&karpv1.NodeClaim{}, &corev1.Node{}} {
		if s.api.Get(context.Background(), client.ObjectKey{Name: name}, o) != nil {
			continue
		}
		o.SetFinalizers(nil)
		_ = s.api.Update(context.Background(), o)
		_ = s.api.Delete(context.Background(), o)
	}
}

// node creates the Node that the instance's kubelet would register.
func (s *story) node(name string) *corev1.Node {
	s.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///a/i-" + name,
			Taints:     []corev1.Taint{karpv1.UnregisteredNoExecuteTaint},
		},
	}
	s.must(s.api.Create(context.Background(), n))
	return n
}

// boot makes the Node ready, as its kubelet and the node lifecycle controller would.
func (s *story) boot(name string) {
	s.Helper()
	ctx := context.Background()
	planetest.Eventually(s, "Node "+name+" says it is ready", func(context.Context) error {
		n := &corev1.Node{}
		if err := s.api.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		n.Status.Allocatable = corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"),
			"pods": resource.MustParse("29"),
		}
		n.Status.Capacity = n.Status.Allocatable
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		}}
		return s.api.Status().Update(ctx, n)
	})
}

// until waits for a condition. A virtual clock advances a little meanwhile: a write that met a conflict, say with
// kube-controller-manager's annotations on a Node, is retried by that clock.
func (s *story) until(name, condition string) *karpv1.NodeClaim {
	s.Helper()
	c := &karpv1.NodeClaim{}
	s.passing(20*time.Millisecond, fmt.Sprintf("NodeClaim %s is %s", name, condition), func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKey{Name: name}, c); err != nil {
			return err
		}
		if !c.StatusConditions(status.WithObservedOnly()).IsTrue(condition) {
			return fmt.Errorf("conditions are %v", c.Status.Conditions)
		}
		return nil
	})
	return c
}

// untilGone waits until an object is gone. A virtual clock advances meanwhile: an earlier process may have launched
// the claims that exist when the controller takes the lead, so it searches the instance lists until these have
// settled.
func (s *story) untilGone(o client.Object) {
	s.Helper()
	s.passing(lookStep, fmt.Sprintf("%T %s is gone", o, o.GetName()), gone(s, o))
}

// ready creates a claim and its Node, and waits until the claim is ready.
func (s *story) ready(name string, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	s.Helper()
	s.claim(name, change...)
	s.until(name, karpv1.ConditionTypeLaunched)
	s.node(name)
	s.until(name, karpv1.ConditionTypeRegistered)
	s.boot(name)
	return s.until(name, status.ConditionReady)
}

func (s *story) delete(o client.Object) {
	s.Helper()
	s.must(s.api.Delete(context.Background(), o))
}

func (s *story) started(want, there int) {
	s.Helper()
	if started, now := s.region.count(); started != want || now != there {
		s.Errorf("%d machines were started and %d are there, want %d and %d", started, now, want, there)
	}
}

func TestAClaimBecomesAReadyNodeAndGoesAgain(t *testing.T) {
	s := tell(t)
	claim := s.ready("life")
	if claim.Status.ImageID != "ami-1" || claim.Labels[corev1.LabelInstanceTypeStable] != "m5.large" ||
		claim.Status.NodeName != "life" {
		t.Errorf("claim does not say what was launched: %v %v", claim.Labels, claim.Status)
	}
	node := &corev1.Node{}
	s.must(s.api.Get(context.Background(), client.ObjectKey{Name: "life"}, node))
	if node.Labels[karpv1.NodeInitializedLabelKey] != "true" ||
		!slices.Contains(node.Finalizers, karpv1.TerminationFinalizer) || len(node.OwnerReferences) != 1 {
		t.Errorf("node is not the claim's: %v", node.ObjectMeta)
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == karpv1.UnregisteredTaintKey {
			t.Error("the unregistered taint is still there")
		}
	}
	s.delete(claim)
	s.untilGone(claim)
	s.untilGone(node)
	s.started(1, 0)
}

// Instances register with the unregistered taint as NoExecute, microVMs as NoSchedule: only the key counts.
func TestTheUnregisteredTaintIsKnownByItsKey(t *testing.T) {
	s := tell(t)
	s.claim("microvm")
	s.until("microvm", karpv1.ConditionTypeLaunched)
	s.must(s.api.Create(context.Background(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "microvm"},
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///a/i-microvm",
			Taints:     []corev1.Taint{{Key: karpv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoSchedule}},
		},
	}))
	claim := s.until("microvm", karpv1.ConditionTypeRegistered)
	if got := claim.StatusConditions().Get(karpv1.ConditionTypeRegistered).Reason; got == "UnregisteredTaintMissing" {
		t.Errorf("registered with reason %q", got)
	}
	node := &corev1.Node{}
	s.must(s.api.Get(context.Background(), client.ObjectKey{Name: "microvm"}, node))
	for _, taint := range node.Spec.Taints {
		if taint.Key == karpv1.UnregisteredTaintKey {
			t.Errorf("taint %s has not been removed", taint.ToString())
		}
	}
}

func TestDeletingTheNodeTakesTheSamePath(t *testing.T) {
	s := tell(t)
	claim := s.ready("bynode")
	s.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bynode"}})
	s.untilGone(claim)
	s.started(1, 0)
}

func TestAClaimWithoutCapacityIsDeleted(t *testing.T) {
	s := tell(t)
	s.region.set(func() { s.region.fail = cloud.ErrNoCapacity })
	s.untilGone(s.claim("nocapacity"))
	s.started(0, 0)
}

func TestAClaimMadeTogetherWithItsClassWaitsForIt(t *testing.T) {
	s := tell(t)
	s.region.set(func() { s.region.fail = cloud.ErrClassNotReady })
	s.claim("withclass")
	planetest.Eventually(t, "the cloud was asked again", func(context.Context) (err error) {
		s.region.set(func() {
			if len(s.region.requests) < 2 {
				err = errors.New("not yet")
			}
		})
		return err
	})
	s.region.set(func() { s.region.fail = nil })
	s.until("withclass", karpv1.ConditionTypeLaunched)
	s.started(1, 1)
}

func TestAClaimWhoseClassStaysUnreadyIsDeleted(t *testing.T) {
	s := tellAt(t, clock.NewVirtual(time.Now().Add(nodeclaim.ClassGrace+time.Hour)))
	s.region.set(func() { s.region.fail = cloud.ErrClassNotReady })
	s.untilGone(s.claim("noclass"))
	s.started(0, 0)
}

func TestAnUnknownErrorIsSaidAndTriedAgain(t *testing.T) {
	s := tell(t)
	s.region.set(func() { s.region.fail = fmt.Errorf("the cloud hiccups: %w", cloud.ErrThrottled) })
	c := s.claim("hiccup")
	planetest.Eventually(t, "the claim says why", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if got := c.StatusConditions(status.WithObservedOnly()).Get(karpv1.ConditionTypeLaunched); got == nil ||
			got.Reason != "LaunchFailed" {
			return fmt.Errorf("condition is %v", got)
		}
		return nil
	})
	s.region.set(func() { s.region.fail = nil })
	s.until("hiccup", karpv1.ConditionTypeLaunched)
	s.started(1, 1)
}

func TestAClaimDeletedAtAnyStageLeavesNoMachine(t *testing.T) {
	s := tell(t)
	hold := make(chan struct{})
	s.region.set(func() { s.region.hold = hold })
	inFlight := s.claim("stage-inflight")
	planetest.Eventually(t, "the launch is under way", func(context.Context) error {
		if n, _ := s.region.count(); n != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	s.delete(inFlight)
	close(hold)
	s.region.set(func() { s.region.hold = nil })
	s.untilGone(inFlight)

	launched := s.claim("stage-launched")
	s.until("stage-launched", karpv1.ConditionTypeLaunched)
	s.delete(launched)
	s.untilGone(launched)

	registered := s.claim("stage-registered")
	s.until("stage-registered", karpv1.ConditionTypeLaunched)
	s.node("stage-registered")
	s.until("stage-registered", karpv1.ConditionTypeRegistered)
	s.delete(registered)
	s.untilGone(registered)
	s.started(3, 0)
}

func TestARestartAtAnyStageLaunchesNothingTwice(t *testing.T) {
	s := tell(t)
	// The instance exists, but the process ends before it receives the response.
	s.region.set(func() { s.region.hold = make(chan struct{}) })
	s.claim("restart")
	lost := s.claim("restart-lost")
	planetest.Eventually(t, "the launches are under way", func(context.Context) error {
		if n, _ := s.region.count(); n != 2 {
			return errors.New("not yet")
		}
		return nil
	})
	s.stop()
	s.region.set(func() { s.region.hold = nil })
	s.delete(lost) // no record says which instance it has
	s.stop = s.start()
	s.untilGone(lost)
	s.until("restart", karpv1.ConditionTypeLaunched)
	s.restart()
	s.node("restart")
	s.until("restart", karpv1.ConditionTypeRegistered)
	s.restart()
	s.boot("restart")
	claim := s.until("restart", status.ConditionReady)
	s.started(2, 1)
	s.region.set(func() { s.region.lingers = true })
	s.delete(claim)
	s.until("restart", karpv1.ConditionTypeInstanceTerminating)
	s.restart()
	s.region.set(func() { s.region.lingers = false })
	s.untilGone(claim)
	s.started(2, 0)
}

func TestADrainRespectsAPodDisruptionBudget(t *testing.T) {
	s := tell(t)
	ctx := context.Background()
	claim := s.ready("budget")
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "db"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		},
	}
	s.must(s.api.Create(ctx, budget))
	zero := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "db", Labels: map[string]string{"app": "db"}},
		Spec: corev1.PodSpec{
			NodeName: "budget", TerminationGracePeriodSeconds: &zero, Containers: []corev1.Container{{Name: "db", Image: "db"}},
			Tolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}},
		},
	}
	s.must(s.api.Create(ctx, pod))
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Now(),
	}}
	s.must(s.api.Status().Update(ctx, pod))
	planetest.Eventually(t, "the budget counts the pod", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return err
		}
		if budget.Status.CurrentHealthy != 1 {
			return fmt.Errorf("it counts %d", budget.Status.CurrentHealthy)
		}
		return nil
	})
	s.delete(claim)
	planetest.Eventually(t, "the node says that it cannot be drained", func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.api.List(ctx, &events, client.InNamespace("default")); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "FailedDraining" && e.InvolvedObject.Name == "budget" {
				return nil
			}
		}
		return errors.New("no event yet")
	})
	s.must(s.api.Get(ctx, client.ObjectKeyFromObject(pod), pod))
	if pod.DeletionTimestamp != nil {
		t.Error("the pod was evicted against its budget")
	}
	s.started(1, 1)
	s.delete(budget)
	s.untilGone(claim)
	s.started(1, 0)
}

func TestATerminationGracePeriodEndsADrain(t *testing.T) {
	s := tell(t)
	claim := s.ready("grace", func(c *karpv1.NodeClaim) {
		c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Second}
	})
	zero := int64(0)
	s.must(s.api.Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.ns, Name: "held",
			Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"},
		},
		Spec: corev1.PodSpec{
			NodeName: "grace", TerminationGracePeriodSeconds: &zero,
			Containers:  []corev1.Container{{Name: "c", Image: "c"}},
			Tolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}},
		},
	}))
	s.delete(claim)
	planetest.Eventually(t, "the held pod is asked to end", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := s.api.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "held"}, pod)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case pod.DeletionTimestamp == nil:
			return errors.New("it is left alone")
		}
		// No kubelet runs here: the test deletes the pod in its place.
		now := int64(0)
		return client.IgnoreNotFound(s.api.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: &now}))
	})
	s.untilGone(claim)
	s.started(1, 0)
}
