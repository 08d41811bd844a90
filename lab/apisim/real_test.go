package apisim_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// The same calls have the same outcomes on the real API server and on the simulated one.
func TestItAnswersAsTheRealServerDoes(t *testing.T) {
	real := planetest.Start(t)
	simulated := apisim.New()
	node(t, real, "n") // pods that are bound to a Node that does not exist are deleted after 40 s
	on := map[string][]string{}
	for name, at := range map[string]caller{
		"real":      {config: real.RESTConfig(), namespace: planetest.Namespace(t, real)},
		"simulated": {config: simulated.Config("test", nil), namespace: "default", http: &http.Client{Transport: simulated}},
	} {
		at.t = t
		on[name] = at.outcomes()
	}
	for i := range max(len(on["real"]), len(on["simulated"])) {
		if i >= len(on["real"]) || i >= len(on["simulated"]) || on["real"][i] != on["simulated"][i] {
			t.Errorf("differs from here on:\nreal      %q\nsimulated %q", on["real"][i:], on["simulated"][i:])
			break
		}
	}
}

// node creates a Node until the test ends.
func node(t *testing.T, p *plane.Plane, name string) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kube.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// caller makes the calls and records their outcomes.
type caller struct {
	t         *testing.T
	config    *rest.Config
	namespace string
	http      *http.Client
	said      []string
}

func (c *caller) note(what string, err error, more ...any) {
	outcome := "ok"
	if err != nil {
		outcome = string(apierrors.ReasonForError(err))
	}
	c.said = append(c.said, what+": "+outcome+" "+fmt.Sprintln(more...))
}

func (c *caller) outcomes() []string {
	scheme := newScheme()
	api, err := client.New(c.config, client.Options{Scheme: scheme, HTTPClient: c.http})
	if err != nil {
		c.t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.claims(api)
	c.pods(api, kube)
	return c.said
}

// claims are a custom resource: status, finalizers, optimistic locking, preconditions.
func (c *caller) claims(api client.Client) {
	ctx := context.Background()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "apisim", Finalizers: []string{"example.com/f"}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "x"}
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{
		Key:      "a",
		Operator: corev1.NodeSelectorOpIn, Values: []string{"b"},
	}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	claim.Status.ProviderID = "dropped"
	again := claim.DeepCopy()
	c.note("create", api.Create(ctx, claim), claim.Status.ProviderID, claim.Generation, claim.UID != "",
		claim.CreationTimestamp.IsZero())
	c.note("create again", api.Create(ctx, again))
	stale := claim.DeepCopy()
	patched := claim.DeepCopy()
	patched.Labels = map[string]string{"a": "b"}
	patched.Status.ProviderID = "ignored"
	c.note("patch", api.Patch(ctx, patched, locked(claim)), patched.Labels, patched.Status.ProviderID, patched.Generation)
	same := patched.DeepCopy()
	c.note("patch of nothing",
		api.Patch(ctx, same, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))),
		same.ResourceVersion == patched.ResourceVersion)
	late := stale.DeepCopy()
	late.Annotations = map[string]string{"too": "late"}
	c.note("stale patch", api.Patch(ctx, late, locked(stale)))
	status := patched.DeepCopy()
	status.Status.ProviderID, status.Labels = "aws:///z/i", map[string]string{"not": "here"}
	c.note("status patch", api.Status().Patch(ctx, status, locked(patched)), status.Status.ProviderID, status.Labels,
		status.Generation)
	c.note("delete of another version",
		api.Delete(ctx, claim.DeepCopy(), client.Preconditions{ResourceVersion: &stale.ResourceVersion}))
	c.note("delete of another", api.Delete(ctx, claim.DeepCopy(), client.Preconditions{UID: ptr.To(types.UID("other"))}))
	c.note("delete", api.Delete(ctx, claim.DeepCopy(),
		client.Preconditions{UID: &claim.UID, ResourceVersion: &status.ResourceVersion}))
	going := &karpv1.NodeClaim{}
	c.note("get", api.Get(ctx, client.ObjectKeyFromObject(claim), going), going.DeletionTimestamp != nil,
		*going.DeletionGracePeriodSeconds, going.Generation)
	c.note("delete again", api.Delete(ctx, claim.DeepCopy()))
	free := going.DeepCopy()
	free.Finalizers = nil
	c.note("finalizer off", api.Patch(ctx, free, locked(going)))
	c.note("get", api.Get(ctx, client.ObjectKeyFromObject(claim), &karpv1.NodeClaim{}))
	c.note("status patch of what is gone",
		api.Status().Patch(ctx, free, client.RawPatch(types.MergePatchType, []byte(`{"status":{"nodeName":"x"}}`))))
}

// pods are a built-in resource with subresources of its own.
func (c *caller) pods(api client.Client, kube kubernetes.Interface) {
	ctx := context.Background()
	pods := kube.CoreV1().Pods(c.namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", Namespace: c.namespace,
		Labels: map[string]string{"app": "p"},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	pod.Spec.SchedulerName = "nobody"
	pod.Status.Phase = corev1.PodRunning
	c.note("create", api.Create(ctx, pod), pod.Status.Phase, *pod.Spec.TerminationGracePeriodSeconds,
		pod.Spec.RestartPolicy, pod.Spec.DNSPolicy)
	onNode, err := pods.Watch(ctx,
		metav1.ListOptions{FieldSelector: "spec.nodeName=n", ResourceVersion: pod.ResourceVersion})
	if err != nil {
		c.t.Fatal(err)
	}
	defer onNode.Stop()
	all, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: pod.ResourceVersion, FieldSelector: "metadata.name=p"})
	if err != nil {
		c.t.Fatal(err)
	}
	defer all.Stop()
	bind := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: c.namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n"},
	}
	c.note("bind", pods.Bind(ctx, bind, metav1.CreateOptions{}))
	c.note("bind again", pods.Bind(ctx, bind, metav1.CreateOptions{}))
	bound, err := pods.Get(ctx, "p", metav1.GetOptions{})
	c.note("get", err, bound.Spec.NodeName)
	bound.Status.Phase = corev1.PodRunning
	bound.Status.Conditions = append(bound.Status.Conditions,
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	bound, err = pods.UpdateStatus(ctx, bound, metav1.UpdateOptions{})
	c.note("status", err, bound.Status.Phase)
	c.evictions(api)
	left, err := pods.Get(ctx, "p", metav1.GetOptions{})
	c.note("get", err, left.DeletionTimestamp != nil, *left.DeletionGracePeriodSeconds,
		slices.ContainsFunc(left.Status.Conditions, func(x corev1.PodCondition) bool {
			return x.Type == corev1.DisruptionTarget && x.Status == corev1.ConditionTrue
		}))
	c.note("delete sooner", pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}))
	left, err = pods.Get(ctx, "p", metav1.GetOptions{})
	c.note("get", err, *left.DeletionGracePeriodSeconds)
	c.note("delete now", pods.Delete(ctx, "p",
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &pod.UID}}))
	c.note("get", api.Get(ctx, client.ObjectKeyFromObject(pod), pod))
	c.note("watch", nil, until(all, watch.Deleted))
	c.note("watch of a node", nil, until(onNode, watch.Deleted))
}

// evictions evicts a pod whose budget allows no disruption, and again when it allows one.
func (c *caller) evictions(api client.Client) {
	ctx := context.Background()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: c.namespace}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "p"}}
	budget.Spec.MinAvailable = ptr.To(intstr.FromInt32(1))
	c.note("budget", api.Create(ctx, budget))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: c.namespace}}
	evict := func() error { return api.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{}) }
	c.await(api, budget, 0)
	err := evict()
	var told *apierrors.StatusError
	c.note("eviction", err, errors.As(err, &told) &&
		told.ErrStatus.Details.Causes[0].Type == policyv1.DisruptionBudgetCause)
	budget.Spec.MinAvailable = ptr.To(intstr.FromInt32(0))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minAvailable":0}}`))
	c.note("budget", api.Patch(ctx, budget, patch))
	c.await(api, budget, 1)
	// The real server also adds the pod to the budget's disruptedPods, until its controller has seen the pod's
	// deletion, which may be at once.
	c.note("eviction", evict())
}

// await waits until the budget allows the given number of disruptions: on the real server its controller sets it,
// here the test.
func (c *caller) await(api client.Client, budget *policyv1.PodDisruptionBudget, allowed int32) {
	c.t.Helper()
	planetest.Eventually(c.t, "the budget is counted", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return err
		}
		if c.http != nil {
			budget.Status = policyv1.PodDisruptionBudgetStatus{
				ObservedGeneration: budget.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1,
				DesiredHealthy: 1 - allowed, ExpectedPods: 1,
			}
			return api.Status().Update(ctx, budget)
		}
		if s := budget.Status; s.ObservedGeneration != budget.Generation || s.DisruptionsAllowed != allowed ||
			s.CurrentHealthy != 1 {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
}

// until returns the types of a watch's events up to and including last. Consecutive events of the same type count
// once.
func until(w watch.Interface, last watch.EventType) []watch.EventType {
	var out []watch.EventType
	for e := range w.ResultChan() {
		if e.Type != watch.Bookmark && (len(out) == 0 || out[len(out)-1] != e.Type) {
			out = append(out, e.Type)
		}
		if e.Type == last {
			return out
		}
	}
	return out
}

func locked(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from.DeepCopyObject().(client.Object), client.MergeFromWithOptimisticLock{})
}
