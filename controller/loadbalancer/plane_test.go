package loadbalancer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/loadbalancer"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/plane/planetest"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

func TestMain(m *testing.M) { planetest.Main(m) }

var bindings = schema.GroupVersionResource{Group: "elbv2.k8s.aws", Version: "v1beta1", Resource: "targetgroupbindings"}

// gated is a namespace with the controller, an Ingress to the Service web, and the region with its load balancer.
type gated struct {
	*testing.T
	*kubernetes.Clientset
	dynamic   dynamic.Interface
	region    *region.Region
	namespace string
}

// gate starts a controller for an API server that has a namespace with the given label.
func gate(t *testing.T, label string) *gated {
	t.Helper()
	p := planetest.Start(t)
	if err := crds.Apply(t.Context(), p.RESTConfig(), loadbalancer.CRDs()); err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(p.RESTConfig())
	others, err2 := dynamic.NewForConfig(p.RESTConfig())
	r, err3 := region.Open(region.Config{
		Name: "us-west-2", Seed: 1, Clock: clock.NewVirtual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)),
	})
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(awsapi.New(r, awsapi.Options{}))
	t.Cleanup(func() { server.Close(); _ = r.Close() })
	g := &gated{T: t, Clientset: kube, dynamic: others, region: r, namespace: planetest.Namespace(t, p)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- loadbalancer.Run(ctx, loadbalancer.Options{
			REST: p.RESTConfig(), Cluster: "prod",
			AWS: aws.Config{
				Region: "us-west-2", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
			},
			Locate: func(string) (loadbalancer.Location, bool) {
				return loadbalancer.Location{Hostname: "web.example", Ports: map[int32]int32{80: 80}}, true
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the controller ended with %v", err)
		}
		_, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(context.Background(),
			"aws-load-balancer-webhook", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("its webhook is still registered: %v", err)
		}
	})
	g.label(label)
	g.serve()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: g.namespace}}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = kube.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{})
	})
	return g
}

func (g *gated) label(label string) {
	g.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"enabled"}}}`, label)
	if _, err := g.CoreV1().Namespaces().Patch(g.Context(), g.namespace, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		g.Fatal(err)
	}
}

// serve creates a Service and an Ingress for the pods of app=web.
func (g *gated) serve() {
	g.Helper()
	_, err := g.CoreV1().Services(g.namespace).Create(g.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	_, err2 := g.NetworkingV1().Ingresses(g.namespace).Create(g.Context(), &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{
			"alb.ingress.kubernetes.io/target-type": "ip",
		}},
		Spec: networkingv1.IngressSpec{IngressClassName: new("alb"), DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
		}},
	}, metav1.CreateOptions{})
	if err := errors.Join(err, err2); err != nil {
		g.Fatal(err)
	}
}

// binding waits for the TargetGroupBinding of the Ingress and returns its name.
func (g *gated) binding() (name string) {
	g.Helper()
	planetest.Eventually(g, "the TargetGroupBinding", func(ctx context.Context) error {
		list, err := g.dynamic.Resource(bindings).Namespace(g.namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%v bindings: %w", list, err)
		}
		name = list.Items[0].GetName()
		return nil
	})
	return name
}

// create creates a pod on the namespace's node and returns its readiness gates.
func (g *gated) create(name, app string, dryRun bool, gates ...string) string {
	g.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}}
	p.Spec.NodeName, p.Spec.Containers = g.namespace, []corev1.Container{{Name: "c", Image: "i"}}
	p.Spec.TerminationGracePeriodSeconds = new(int64) // no kubelet terminates it
	for _, gate := range gates {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{
			ConditionType: corev1.PodConditionType(gate),
		})
	}
	o := metav1.CreateOptions{}
	if dryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	p, err := g.CoreV1().Pods(g.namespace).Create(g.Context(), p, o)
	if err != nil {
		g.Fatal(err)
	}
	var out []string
	for _, gate := range p.Spec.ReadinessGates {
		out = append(out, string(gate.ConditionType))
	}
	return strings.Join(out, " ")
}

// starts updates a pod as a kubelet does: its containers are ready, and it has an address.
func (g *gated) starts(name, ip string) {
	g.Helper()
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}},
	}})
	if err != nil {
		g.Fatal(err)
	}
	if _, err := g.CoreV1().Pods(g.namespace).Patch(g.Context(), name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status"); err != nil {
		g.Fatal(err)
	}
}

// wantCondition waits until the condition of a pod's gate is want.
func (g *gated) wantCondition(pod, gate, want string) {
	g.Helper()
	planetest.Eventually(g, "the condition of the gate of pod "+pod, func(ctx context.Context) error {
		p, err := g.CoreV1().Pods(g.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		at := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return string(c.Type) == gate })
		if at < 0 {
			return errors.New("there is none")
		}
		c := p.Status.Conditions[at]
		if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); got != want || c.LastTransitionTime.IsZero() {
			return fmt.Errorf("%q since %s, want %q", got, c.LastTransitionTime, want)
		}
		return nil
	})
}

// reports sets the health of a pod in the Ingress's target group, as the load balancer does.
func (g *gated) reports(ip string, h region.TargetHealth) {
	g.Helper()
	for _, group := range g.region.TargetGroups() {
		g.region.SetTargetHealth(group.TargetGroupARN, region.Target{ID: ip, Port: 8080}, h)
	}
}

// wantTargets waits until the given number of targets is registered in a target group.
func (g *gated) wantTargets(arn string, want int) {
	g.Helper()
	planetest.Eventually(g, "targets", func(context.Context) error {
		n := 0
		for _, group := range g.region.TargetGroups() {
			for _, t := range group.Targets {
				if group.TargetGroupARN == arn && t.DeregisteredAt.IsZero() {
					n++
				}
			}
		}
		if n != want {
			return fmt.Errorf("%d targets, want %d", n, want)
		}
		return nil
	})
}

// wantNoBinding waits until a TargetGroupBinding is gone.
func (g *gated) wantNoBinding(name string) {
	g.Helper()
	planetest.Eventually(g, "the TargetGroupBinding goes", func(ctx context.Context) error {
		_, err := g.dynamic.Resource(bindings).Namespace(g.namespace).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

// A new pod of an Ingress's Service gets a readiness gate, which reports its target's health in ELB's words.
func TestAPodIsReadyWhenItsTargetIsHealthy(t *testing.T) {
	for _, label := range []string{
		"elbv2.k8s.aws/pod-readiness-gate-inject", "eks.amazonaws.com/pod-readiness-gate-inject",
	} {
		t.Run(strings.Split(label, "/")[0], func(t *testing.T) {
			g := gate(t, label)
			want := "target-health.elbv2.k8s.aws/" + g.binding()
			planetest.Eventually(t, "gates of a new pod", func(context.Context) error {
				if got := g.create("dry", "web", true); got != want {
					return fmt.Errorf("%q, want %q", got, want)
				}
				return nil
			})
			if got := g.create("db", "db", true); got != "" {
				t.Errorf("a pod of no Service has the gates %q", got)
			}
			legacy := "target-health.alb.ingress.k8s.aws/web_web_80"
			if got := g.create("a", "web", false, legacy, "example.com/own"); got != "example.com/own "+want {
				t.Errorf("gates %q, want its own, none of version 1 and %s", got, want)
			}
			g.starts("a", "10.201.0.9")
			g.wantCondition("a", want, "False Elb.RegistrationInProgress Target registration is in progress")
			g.reports("10.201.0.9", region.TargetHealth{
				State: region.TargetInitial, Reason: "Elb.InitialHealthChecking", Description: "Initial health checks in progress",
			})
			g.wantCondition("a", want, "False Elb.InitialHealthChecking Initial health checks in progress")
			g.reports("10.201.0.9", region.TargetHealth{State: region.TargetHealthy})
			g.wantCondition("a", want, "True  ")
		})
	}
}

// When a TargetGroupBinding is deleted, its pods no longer wait for it.
func TestWithoutItsBindingAGateIsOpen(t *testing.T) {
	g := gate(t, "elbv2.k8s.aws/pod-readiness-gate-inject")
	want := "target-health.elbv2.k8s.aws/" + g.binding()
	planetest.Eventually(t, "gates of a new pod", func(context.Context) error {
		if g.create("dry", "web", true) != want {
			return errors.New("none yet")
		}
		return nil
	})
	g.create("a", "web", false)
	g.starts("a", "10.201.0.9")
	g.wantCondition("a", want, "False Elb.RegistrationInProgress Target registration is in progress")
	if err := g.NetworkingV1().Ingresses(g.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	g.wantCondition("a", want, "True  Target Group Binding is deleted")
}

// A user's own TargetGroupBinding adds gates, too. It may omit the target type.
func TestAnOwnBindingGivesAGate(t *testing.T) {
	g := gate(t, "elbv2.k8s.aws/pod-readiness-gate-inject")
	of := g.binding()
	made, err := g.region.CreateTargetGroup(region.TargetGroup{TargetGroupName: "own", Protocol: "HTTP", Port: 80, TargetType: "ip"})
	own := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "elbv2.k8s.aws/v1beta1", "kind": "TargetGroupBinding", "metadata": map[string]any{"name": "own"},
		"spec": map[string]any{
			"targetGroupARN": made.TargetGroupARN, "serviceRef": map[string]any{"name": "web", "port": int64(80)},
		},
	}}
	_, err2 := g.dynamic.Resource(bindings).Namespace(g.namespace).Create(t.Context(), own, metav1.CreateOptions{})
	if err := cmp.Or(err, err2); err != nil {
		t.Fatal(err)
	}
	gates := "target-health.elbv2.k8s.aws/" + of + " target-health.elbv2.k8s.aws/own"
	planetest.Eventually(t, "gates of a new pod", func(context.Context) error {
		if got := g.create("dry", "web", true); got != gates {
			return fmt.Errorf("%q, want %q", got, gates)
		}
		return nil
	})
	g.create("a", "web", false)
	g.starts("a", "10.201.0.9")
	g.wantCondition("a", "target-health.elbv2.k8s.aws/own", "False Target.NotInUse Target group is not configured to "+
		"receive traffic from the load balancer")
	g.wantCondition("a", "target-health.elbv2.k8s.aws/"+of,
		"False Elb.RegistrationInProgress Target registration is in progress")
	g.reports("10.201.0.9", region.TargetHealth{State: region.TargetHealthy})
	g.wantCondition("a", "target-health.elbv2.k8s.aws/"+of, "True  ")

	// When it is deleted, its pods are deregistered. A binding whose target group is gone can be deleted, too.
	g.wantTargets(made.TargetGroupARN, 1)
	client := g.dynamic.Resource(bindings).Namespace(g.namespace)
	if err := client.Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	g.wantTargets(made.TargetGroupARN, 0)
	g.wantNoBinding("own")
	_, err = client.Create(t.Context(), own, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g.wantTargets(made.TargetGroupARN, 1)
	if err := g.region.DeleteTargetGroup(made.TargetGroupARN); err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	g.wantNoBinding("own")
}
