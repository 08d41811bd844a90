package nodesim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/plane/planetest"
	"github.com/nodeless/nodeless/region/nodesim"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// hall provides the events of instances.
type hall chan nodesim.Event

func (h hall) Watch(context.Context) <-chan nodesim.Event { return h }
func (hall) AssignPodIP(instance, _ string) (netip.Addr, error) {
	if instance == "i-full" {
		return netip.Addr{}, errors.New("all addresses are taken")
	}
	return netip.MustParseAddr("10.1.1.1"), nil
}
func (hall) ReleasePodIP(string) {}
func (h hall) AttachTrunk(instance string) error {
	if f, ok := attaching.Load(instance); ok {
		f.(func())()
	}
	return nil
}
func (hall) SetBranchCooldown(d time.Duration) time.Duration { return d }
func (hall) AssignBranch(_, _ string, groups []string) (nodesim.Branch, error) {
	if slices.Contains(groups, "sg-missing") {
		return nodesim.Branch{}, errors.New("the security group 'sg-missing' does not exist")
	}
	return nodesim.Branch{ID: "eni-1", IP: netip.MustParseAddr("10.1.2.2"), VLAN: 1}, nil
}

func (hall) SetCNI(instance string, c catalog.CNI, maxPods int) {
	if f, ok := configuring.Load(instance); ok {
		f.(func())()
	}
	configured.Store(instance, fmt.Sprintf("%+v for %d pods", c, maxPods))
}

func (hall) SetPodNetwork(instance, subnet string, _ []string) error {
	if subnet != "subnet-pods" {
		return fmt.Errorf("the subnet ID '%s' does not exist", subnet)
	}
	configured.Store(instance+"/network", subnet)
	return nil
}

func (hall) SelectPodNetwork(instance string, subnets, groups []nodesim.Selector) error {
	if !nodesim.Selects(subnets, "subnet-pods", nil) {
		return errors.New("spec.podSubnetSelectorTerms selects no subnet in us-west-2a")
	}
	configured.Store(instance+"/network", fmt.Sprintf("subnet-pods %v", nodesim.Selects(groups, "sg-pods", nil)))
	return nil
}

// configured holds the last CNI configuration of each instance; configuring and attaching hold functions that run
// while an instance is configured, or its trunk attached.
var configured, configuring, attaching sync.Map

func (hall) PodsWithIP() []string { return nil }
func (h hall) boot(name string) {
	h <- nodesim.Event{
		Kind:     nodesim.Booted,
		Instance: instance(name),
	}
}
func ready(status corev1.ConditionStatus) func(*corev1.Node) error { return condition(status, "") }

// instance returns an instance whose node has the label role=NAME.
func instance(name string) nodesim.Instance {
	large, _ := catalog.Lookup("m5.large")
	return nodesim.Instance{
		ID: "i-" + name, ProviderID: "aws:///a/i-" + name, Name: name, IP: netip.MustParseAddr("10.1.0.1"), Type: large,
		Zone: "a",
		UserData: fmt.Appendf(nil,
			"kind: NodeConfig\nspec: {cluster: {name: c}, kubelet: {flags: [\"--node-labels=role=%s\"]}}\n", name),
	}
}

// story is a simulator on the shared control plane.
type story struct {
	*testing.T
	hall
	api       kubernetes.Interface
	namespace string
}

func tell(t *testing.T) *story {
	p := planetest.Start(t)
	api, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, hall: make(hall), api: api, namespace: planetest.Namespace(t, p)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- nodesim.Run(ctx, nodesim.Options{
			REST: p.RESTConfig(), Instances: s.hall, Clock: clock.Real{},
			Log: slog.New(slog.DiscardHandler),
		})
	}()
	t.Cleanup(func() {
		cancel()
		close(s.hall)
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the simulator ended with %v", err)
		}
		_ = api.CoreV1().Nodes().DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	return s
}

func (s *story) node(name string, is func(*corev1.Node) error) *corev1.Node {
	s.Helper()
	var node *corev1.Node
	planetest.Eventually(s.T, "node "+name, func(ctx context.Context) error {
		var err error
		if node, err = s.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return is(node)
	})
	return node
}

// pod creates a pod on a node and waits until it has the phase.
func (s *story) pod(node string, phase corev1.PodPhase, change func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "p-", Namespace: s.namespace,
		Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	pod.Spec = corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		TerminationGracePeriodSeconds: ptr.To[int64](1),
	}
	change(pod)
	pods := s.api.CoreV1().Pods(s.namespace)
	pod, err := pods.Create(context.Background(), pod, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	planetest.Eventually(s.T, "the pod is "+string(phase), func(ctx context.Context) error {
		if pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err == nil && pod.Status.Phase != phase {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	return pod
}

// condition checks the status and reason of condition Ready.
func condition(status corev1.ConditionStatus, reason string) func(*corev1.Node) error {
	return func(node *corev1.Node) error {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == status && (reason == "" || c.Reason == reason) {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", node.Status.Conditions)
	}
}

// write overwrites the Ready condition of a node.
func (s *story) write(node *corev1.Node, status corev1.ConditionStatus, reason string) {
	s.Helper()
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // others write the node's taints
		now, err := s.api.CoreV1().Nodes().Get(context.Background(), node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, Reason: reason,
			LastTransitionTime: metav1.Now(),
		}}
		_, err = s.api.CoreV1().Nodes().UpdateStatus(context.Background(), now, metav1.UpdateOptions{})
		return err
	}); err != nil {
		s.Fatal(err)
	}
}

func TestAnInstanceThatIsRefusedTriesAgain(t *testing.T) {
	s := tell(t)
	ctx := context.Background()
	policies, bindings := s.api.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		s.api.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	name := metav1.ObjectMeta{Name: "no-entry"}
	_, err := policies.Create(ctx,
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.labels['role'] != 'refused'"}},
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bindings.Create(ctx,
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: name,
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refused := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{"role": "refused"}}}
	planetest.Eventually(t, "the policy holds", func(ctx context.Context) error {
		_, err := s.api.CoreV1().Nodes().Create(ctx, refused, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("not yet: %w", errors.Join(err))
	})
	s.boot("refused")
	s.boot("welcome")
	s.node("welcome", ready(corev1.ConditionTrue))
	if _, err := s.api.CoreV1().Nodes().Get(ctx, "refused", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the policy let the node in: %v", err)
	}
	if err := errors.Join(bindings.Delete(ctx, name.Name, metav1.DeleteOptions{}),
		policies.Delete(ctx, name.Name, metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
	if node := s.node("refused", ready(corev1.ConditionTrue)); node.Labels["role"] != "refused" {
		t.Errorf("labels %v", node.Labels)
	}
}

// A Node that its kubelet registers with Karpenter's taint is ready once it is adopted, as on EC2: kube-scheduler
// would bind pods to it before kube-controller-manager knows that the taint, of effect NoExecute, is gone.
func TestANodeIsNotReadyBeforeItIsAdopted(t *testing.T) {
	s := tell(t)
	nodes, ctx := s.api.CoreV1().Nodes(), t.Context()
	seen, err := nodes.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=adopted"})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	i := instance("adopted")
	i.UserData = []byte("kind: NodeConfig\nspec: {cluster: {name: c}, kubelet: {config: {registerWithTaints: " +
		"[{key: karpenter.sh/unregistered, effect: NoExecute}]}}}\n")
	s.hall <- nodesim.Event{Kind: nodesim.Booted, Instance: i}
	node := (<-seen.ResultChan()).Object.(*corev1.Node)
	if err := condition(corev1.ConditionFalse, "KubeletNotReady")(node); err != nil || len(node.Spec.Taints) == 0 {
		t.Errorf("the Node was created with taints %v, %v", node.Spec.Taints, err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, "adopted", metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey })
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.node("adopted", ready(corev1.ConditionTrue))
}

// The simulator reverts what the control plane reports of a node that seemed silent; conditions written by hand stay.
func TestABrokenNodeStaysBroken(t *testing.T) {
	s := tell(t)
	s.boot("sound")
	s.boot("broken")
	broken := s.node("broken", ready(corev1.ConditionTrue))
	s.write(broken, corev1.ConditionFalse, "DiskOnFire")
	s.write(s.node("sound", ready(corev1.ConditionTrue)), corev1.ConditionUnknown, "NodeStatusUnknown")
	s.node("sound", ready(corev1.ConditionTrue))
	s.node("broken", condition(corev1.ConditionFalse, "DiskOnFire"))
}

// kube-controller-manager marks the pods of a node whose kubelet it takes for dead. A kubelet corrects that.
func TestAPodThatWasMarkedNotReadyIsReadyAgain(t *testing.T) {
	s := tell(t)
	s.boot("late")
	s.node("late", ready(corev1.ConditionTrue))
	p := s.pod("late", corev1.PodRunning, func(*corev1.Pod) {})
	conditions.OfPod(p, corev1.PodReady).Status = corev1.ConditionFalse
	pods := s.api.CoreV1().Pods(p.Namespace)
	if _, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "it is ready", func(ctx context.Context) error {
		now, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		if err == nil && !conditions.PodReady(now) {
			err = fmt.Errorf("its conditions are %v", now.Status.Conditions)
		}
		return err
	})
}

func TestPodsBehaveAsTheirKWOKWordsSay(t *testing.T) {
	s := tell(t)
	s.boot("host")
	s.node("host", ready(corev1.ConditionTrue))
	lost := s.pod("host", corev1.PodUnknown, func(p *corev1.Pod) { p.Labels["kwok.x-k8s.io/stage"] = "unhealthy" })
	for _, c := range lost.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionFalse {
			t.Errorf("the pod nobody knows of is ready: %v", c)
		}
	}
	slow := s.pod("host", corev1.PodRunning,
		func(p *corev1.Pod) { p.Annotations["pod-delete.stage.kwok.x-k8s.io/delay"] = "1h" })
	quick := s.pod("host", corev1.PodRunning, func(*corev1.Pod) {})
	pods := s.api.CoreV1().Pods(s.namespace)
	for _, p := range []*corev1.Pod{slow, quick} {
		if err := pods.Delete(context.Background(), p.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	planetest.Eventually(t, "the quick pod is gone", func(ctx context.Context) error {
		if _, err := pods.Get(ctx, quick.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", errors.Join(err))
		}
		return nil
	})
	if _, err := pods.Get(context.Background(), slow.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the slow pod did not take its time: %v", err)
	}
	if err := pods.Delete(context.Background(), slow.Name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Error(err)
	}
}

// A Node that is created by hand to be simulated becomes ready, stays so, and runs pods at its own address.
func TestANodeWithoutAnInstanceIsPlayed(t *testing.T) {
	s := tell(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        "stage",
		Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
	}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.99.0.1"}}
	early := make(chan *corev1.Pod)
	go func() { early <- s.pod("stage", corev1.PodRunning, func(*corev1.Pod) {}) }()
	if _, err := s.api.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.node("stage", ready(corev1.ConditionTrue))
	if pod := <-early; pod.Status.PodIP != "10.99.0.1" || pod.Status.HostIP != "10.99.0.1" {
		t.Errorf("the pod is at %q on %q", pod.Status.PodIP, pod.Status.HostIP)
	}
	planetest.Eventually(t, "the node keeps its lease", func(ctx context.Context) error {
		_, err := s.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "stage", metav1.GetOptions{})
		return err
	})
}

// The events of a kubelet's start in kubectl describe node, and the port where the API server finds the kubelet.
func TestAKubeletSaysThatItStarts(t *testing.T) {
	s := tell(t)
	s.boot("starts")
	node := s.node("starts", ready(corev1.ConditionTrue))
	if port := node.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 10250 {
		t.Errorf("the kubelet's port is %d", port)
	}
	planetest.Eventually(t, "the kubelet's events", func(ctx context.Context) error {
		events, err := s.api.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=starts"})
		if err != nil {
			return err
		}
		said := map[string]string{}
		for _, e := range events.Items {
			if e.Source == (corev1.EventSource{Component: "kubelet", Host: "starts"}) {
				said[e.Reason] = e.Message
			}
		}
		for reason, message := range map[string]string{
			"Starting": "Starting kubelet.", "NodeHasSufficientMemory": "Node starts status is now: NodeHasSufficientMemory",
			"NodeReady": "Node starts status is now: NodeReady",
		} {
			if said[reason] != message {
				return fmt.Errorf("%s: %q, want %q; all: %v", reason, said[reason], message, said)
			}
		}
		return nil
	})
}

// A pod that gets no address behaves as on EKS: its containers stay in ContainerCreating, and its kubelet reports why
// again and again, in one event.
func TestAPodWithoutAnAddressSaysSo(t *testing.T) {
	s := tell(t)
	s.boot("full")
	s.node("full", ready(corev1.ConditionTrue))
	host := s.pod("full", corev1.PodRunning, func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	if host.Status.PodIP != "10.1.0.1" {
		t.Errorf("a pod on the host network has the address %q, want its node's", host.Status.PodIP)
	}
	pod := s.pod("full", corev1.PodPending, func(*corev1.Pod) {})
	planetest.Eventually(t, "the event", func(ctx context.Context) error {
		events, err := s.api.CoreV1().Events(s.namespace).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=FailedCreatePodSandBox"})
		if err != nil || len(events.Items) != 1 || events.Items[0].Count < 2 {
			return fmt.Errorf("%v, %d events; want one that counts more than once: %+v", err, len(events.Items), events.Items)
		}
		e := events.Items[0]
		wanted := regexp.MustCompile(`^Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "[0-9a-f]{64}": ` +
			`plugin type="aws-cni" name="aws-cni" failed \(add\): add cmd: failed to assign an IP address to container$`)
		if e.InvolvedObject.UID != pod.UID || e.Type != corev1.EventTypeWarning ||
			e.Source != (corev1.EventSource{Component: "kubelet", Host: "full"}) || !wanted.MatchString(e.Message) {
			t.Errorf("%+v", e)
		}
		return nil
	})
	pod, err := s.api.CoreV1().Pods(s.namespace).Get(context.Background(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if w := pod.Status.ContainerStatuses[0].State.Waiting; pod.Status.Phase != corev1.PodPending || w == nil ||
		w.Reason != "ContainerCreating" || w.Message != "" || pod.Status.PodIP != "" {
		t.Errorf("%+v", pod.Status)
	}
}

// AWS does not report why an instance joins no cluster; here its NodeClaim says so.
func TestAnInstanceThatJoinsNoClusterSaysSoOnItsNodeClaim(t *testing.T) {
	s := tell(t)
	ctx := context.Background()
	if err := crds.Install(ctx, planetest.Start(t).RESTConfig()); err != nil {
		t.Fatal(err)
	}
	claims, err := client.New(planetest.Start(t).RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: karpv1.NodeClaimSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
	}}
	if err := claims.Create(ctx, claim); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = claims.Delete(ctx, claim) })
	m := instance("lost")
	m.Claim, m.UserData = claim.Name, []byte("#!/bin/bash\n/etc/eks/bootstrap.sh prod\n")
	s.hall <- nodesim.Event{Kind: nodesim.Booted, Instance: m}
	planetest.Eventually(t, "the event", func(ctx context.Context) error {
		events, err := s.api.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.kind=NodeClaim,involvedObject.name=lost"})
		if err != nil || len(events.Items) != 1 {
			return fmt.Errorf("%d events, %v", len(events.Items), err)
		}
		e := events.Items[0]
		if e.InvolvedObject.UID != claim.UID || e.Type != corev1.EventTypeWarning ||
			!strings.Contains(e.Message, "i-lost has booted but cannot join the cluster") ||
			!strings.Contains(e.Message, "al2023@latest") {
			t.Errorf("%+v", e)
		}
		return nil
	})
}
