package incluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/plane/planetest"
)

// affinityTo makes a pod require one of some operating systems.
func affinityTo(systems ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: systems,
				}},
			}}},
		}}
	}
}

// New pods that a SecurityGroupPolicy selects request a branch interface, and those on Fargate are annotated with
// their groups. The webhook does not see pods of namespaces without a policy, and is removed with the last policy.
// Pods on Windows request an address while the VPC CNI provides these.
func TestPodsThatAPolicySelectsAskForAnInterface(t *testing.T) {
	s := tell(t)
	p := planetest.Start(t)
	if err := crds.Apply(t.Context(), p.RESTConfig(), crds.VPCCNI()); err != nil {
		t.Fatal(err)
	}
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1beta1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	kubectl, err := client.New(p.RESTConfig(), client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.eks.RunPodResources(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	}

	namespace := planetest.Namespace(t, p)
	policy := func(name string, pod, account *metav1.LabelSelector, groups ...string) *v1beta1.SecurityGroupPolicy {
		t.Helper()
		o := &v1beta1.SecurityGroupPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: v1beta1.SecurityGroupPolicySpec{
				PodSelector: pod, ServiceAccountSelector: account, SecurityGroups: v1beta1.GroupIDs{Groups: groups},
			},
		}
		if err := kubectl.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	by := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "payer", Labels: map[string]string{"app": "payer"},
	}}
	if err := kubectl.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	all := []*v1beta1.SecurityGroupPolicy{policy("web", by("web"), nil, "sg-web", "sg-all"), policy("pay", nil, by("payer"), "sg-pay")}
	created := func(change func(*corev1.Pod)) *corev1.Pod {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Namespace: namespace, Labels: map[string]string{}}}
		pod.Spec.Containers = []corev1.Container{{Name: "a", Image: "i"}, {Name: "b", Image: "i"}}
		change(pod)
		if err := kubectl.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	web := func(p *corev1.Pod) { p.Labels["app"] = "web" }
	planetest.Eventually(t, "the webhook is registered", func(context.Context) error {
		if p := created(web); !v1beta1.AsksForBranch(p) {
			return fmt.Errorf("resources %v", p.Spec.Containers[0].Resources)
		}
		return nil
	})
	pod := created(web)
	limit, second := pod.Spec.Containers[0].Resources.Limits[v1beta1.PodENI], pod.Spec.Containers[1].Resources.Limits
	if limit.Value() != 1 || len(second) > 0 {
		t.Errorf("limits %s and %v", &limit, second)
	}
	for what, c := range map[string]struct {
		change func(*corev1.Pod)
		asks   bool
		groups string
	}{
		"another app":        {func(p *corev1.Pod) { p.Labels["app"] = "db" }, false, ""},
		"a service account":  {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "payer" }, true, ""},
		"the host's network": {func(p *corev1.Pod) { web(p); p.Spec.HostNetwork = true }, false, ""},
		"on Fargate":         {func(p *corev1.Pod) { web(p); p.Labels[fargate.ProfileLabel] = "x" }, false, "sg-web,sg-all"},
		"another namespace":  {func(p *corev1.Pod) { web(p); p.Namespace = "default" }, false, ""},
	} {
		pod := created(c.change)
		if asks, groups := v1beta1.AsksForBranch(pod), pod.Annotations["fargate.amazonaws.com/pod-sg"]; asks != c.asks ||
			groups != c.groups {
			t.Errorf("%s: asks %v, groups %q; want %v and %q", what, asks, groups, c.asks, c.groups)
		}
	}

	windows := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} }
	elsewhere := func(p *corev1.Pod) { windows(p); p.Namespace = "default" }
	setting := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "amazon-vpc-cni"},
		Data:       map[string]string{"enable-windows-ipam": "true"},
	}
	if v1beta1.AsksForAddress(created(windows)) {
		t.Error("a pod on Windows asks for an address that the VPC CNI does not give")
	}
	if err := kubectl.Create(t.Context(), setting); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "pods on Windows ask for an address in every namespace", func(context.Context) error {
		if p := created(elsewhere); !v1beta1.AsksForAddress(p) {
			return fmt.Errorf("resources %v", p.Spec.Containers[0].Resources)
		}
		return nil
	})
	for what, c := range map[string]struct {
		change func(*corev1.Pod)
		asks   bool
	}{
		"of another namespace":       {elsewhere, true},
		"of the policies' namespace": {windows, true},
		"that a policy selects":      {func(p *corev1.Pod) { windows(p); web(p) }, true},
		"by affinity":                {affinityTo("windows"), true},
		"by affinity to Linux":       {affinityTo("linux"), false},
		"by affinity to any":         {affinityTo("linux", "windows"), false},
		"on the host's network":      {func(p *corev1.Pod) { windows(p); p.Spec.HostNetwork = true }, false},
		"of Linux":                   {func(p *corev1.Pod) {}, false},
		"of Linux, and of a policy":  {web, false},
	} {
		p := created(c.change)
		if asks := v1beta1.AsksForAddress(p); asks != c.asks || c.asks && v1beta1.AsksForBranch(p) {
			t.Errorf("a pod %s: asks for an address: %v, want %v", what, asks, c.asks)
		}
	}
	if err := kubectl.Delete(t.Context(), setting); err != nil {
		t.Fatal(err)
	}

	gone := func(context.Context) error {
		var w admissionv1.MutatingWebhookConfiguration
		if err := kubectl.Get(t.Context(), client.ObjectKey{Name: "vpc-resource-mutating-webhook"}, &w); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	}
	for _, o := range all {
		if err := kubectl.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	planetest.Eventually(t, "without policies there is no webhook", gone)
	policy("again", by("web"), nil, "sg-web")
	planetest.Eventually(t, "it is registered again", func(context.Context) error {
		if p := created(web); !v1beta1.AsksForBranch(p) {
			return errors.New("not yet")
		}
		return nil
	})
	stop()
	if err := gone(t.Context()); err != nil {
		t.Errorf("after the end: %v", err)
	}
}
