package metricsapi

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/nodeless/nodeless/plane/extension"
	"github.com/nodeless/nodeless/plane/kubectl"
	"github.com/nodeless/nodeless/plane/planetest"
)

const apiService = "v1beta1.metrics.k8s.io"

// served returns the API as a cluster registers it.
func served(s Source) extension.API {
	return extension.API{
		GroupVersion: metrics.SchemeGroupVersion, Service: "nodeless-metrics", Resources: Resources, Handler: Handler(s),
	}
}

// kubeconfigVariable turns this test binary into kubectl.
const kubeconfigVariable = "PODMETRICS_KUBECTL"

func TestMain(m *testing.M) {
	if config := os.Getenv(kubeconfigVariable); config != "" {
		os.Exit(kubectl.Run(os.Args[1:], config, "", os.Stdin, os.Stdout, os.Stderr))
	}
	planetest.Main(m)
}

// fixed is a Source of two nodes; the second cannot be measured.
type fixed struct{ namespace string }

func (f fixed) Nodes() []*corev1.Node {
	return []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{
			Name:   "fargate-one",
			Labels: map[string]string{"eks.amazonaws.com/compute-type": "fargate"},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "fargate-two"}},
	}
}

func (f fixed) Pods(node string) []*corev1.Pod {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: name,
			Labels: map[string]string{"app": name},
		}}
	}
	return map[string][]*corev1.Pod{"fargate-one": {pod("web")}, "fargate-two": {pod("mute")}}[node]
}

func (f fixed) Stats(_ context.Context, node string) (*stats.Summary, error) {
	if node != "fargate-one" {
		return nil, errors.New("the guest does not answer")
	}
	at := metav1.Now()
	n := func(v uint64) *uint64 { return &v }
	measured := func(cores, bytes uint64) (*stats.CPUStats, *stats.MemoryStats) {
		return &stats.CPUStats{Time: at, UsageNanoCores: n(cores)}, &stats.MemoryStats{Time: at, WorkingSetBytes: n(bytes)}
	}
	s := &stats.Summary{Pods: []stats.PodStats{{
		PodRef:     stats.PodReference{Namespace: f.namespace, Name: "web"},
		Containers: []stats.ContainerStats{{Name: "main"}, {Name: "side"}},
	}}}
	s.Node.CPU, s.Node.Memory = measured(250_000_000, 64<<20)
	s.Pods[0].Containers[0].CPU, s.Pods[0].Containers[0].Memory = measured(200_000_000, 30<<20)
	s.Pods[0].Containers[1].CPU, s.Pods[0].Containers[1].Memory = measured(10_000_000, 5<<20)
	return s, nil
}

func (f fixed) Window() time.Duration { return 10 * time.Second }

func TestKubectlTop(t *testing.T) {
	p := planetest.Start(t)
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	a, err := aggregator.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := planetest.Namespace(t, p)
	for _, n := range (fixed{}).Nodes() {
		n.Status.Capacity = resources("1", "128Mi")
		n.Status.Allocatable = n.Status.Capacity
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.CoreV1().Nodes().Delete(context.Background(), n.Name, metav1.DeleteOptions{}) })
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- served(fixed{namespace}).Run(ctx, p.Kubeconfig()) }()
	planetest.Eventually(t, "the aggregator finds the API", func(ctx context.Context) error {
		s, err := a.ApiregistrationV1().APIServices().Get(ctx, apiService, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range s.Status.Conditions {
			if c.Type == registration.Available && c.Status == registration.ConditionTrue {
				return nil
			}
		}
		return errors.New("not available")
	})
	kubectl := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-n", namespace}, args...)...)
		c.Env = append(os.Environ(), kubeconfigVariable+"="+p.Kubeconfig())
		var b bytes.Buffer
		c.Stdout, c.Stderr = &b, &b
		_ = c.Run()
		return strings.Join(strings.Fields(b.String()), " ")
	}
	planetest.Eventually(t, "kubectl top node", func(context.Context) error {
		if got := kubectl("top", "node"); !strings.Contains(got, "fargate-one 250m 25% 64Mi 50%") ||
			!strings.Contains(got, "fargate-two <unknown>") {
			return errors.New(got)
		}
		return nil
	})
	// The aggregator may take the API for unavailable for a moment.
	says := func(right func(got string) bool, args ...string) {
		t.Helper()
		planetest.Eventually(t, "kubectl "+strings.Join(args, " "), func(context.Context) error {
			if got := kubectl(args...); !right(got) {
				return errors.New(got)
			}
			return nil
		})
	}
	is := func(want string) func(string) bool { return func(got string) bool { return got == want } }
	has := func(all ...string) func(string) bool {
		return func(got string) bool {
			return !slices.ContainsFunc(all, func(want string) bool { return !strings.Contains(got, want) })
		}
	}
	says(is("web 210m 35Mi"), "top", "pod", "--no-headers")
	says(has("web main 200m 30Mi", "web side 10m 5Mi"), "top", "pod", "--containers", "--no-headers")
	if got := kubectl("top", "pod", "-l", "app=other"); strings.Contains(got, "web") {
		t.Errorf("top pod of another label: %q", got)
	}
	says(is("web 210m 35Mi"), "top", "pod", "web", "--no-headers")
	says(has("was not measured yet"), "top", "pod", "mute")
	// A user without permissions gets nothing.
	says(has("forbidden"), "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes",
		"--as=system:serviceaccount:"+namespace+":default")

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := a.ApiregistrationV1().APIServices().Get(t.Context(), apiService,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the registration stays: %v", err)
	}
}

// metrics-server's own manifest, applied beside ours, takes over the API, which is then left alone.
func TestAnotherManifestTakesTheMetricsAPIOver(t *testing.T) {
	p := planetest.Start(t)
	a, err := aggregator.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- served(fixed{}).Run(ctx, p.Kubeconfig()) }()
	planetest.Eventually(t, "our API is registered", func(ctx context.Context) error {
		_, err := a.ApiregistrationV1().APIServices().Get(ctx, apiService, metav1.GetOptions{})
		return err
	})
	defer func() {
		_ = a.ApiregistrationV1().APIServices().Delete(context.Background(), apiService, metav1.DeleteOptions{})
	}()
	c := exec.CommandContext(t.Context(), os.Args[0], "apply", "-f", "-")
	c.Env = append(os.Environ(), kubeconfigVariable+"="+p.Kubeconfig())
	c.Stdin = strings.NewReader(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  service: {name: metrics-server, namespace: kube-system}
  group: metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
`)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	there, err := a.ApiregistrationV1().APIServices().Get(t.Context(), apiService, metav1.GetOptions{})
	if err != nil {
		t.Fatal("we have removed it:", err)
	}
	if s := there.Spec; s.Service.Name != "metrics-server" || *s.Service.Port != 443 || s.CABundle != nil ||
		!s.InsecureSkipTLSVerify || len(there.Labels) > 0 {
		t.Errorf("labels %v, port %d, %+v", there.Labels, *s.Service.Port, s)
	}
}

// A metrics-server that the cluster already has is left alone.
func TestAnotherMetricsAPIIsLeftAlone(t *testing.T) {
	p := planetest.Start(t)
	a, err := aggregator.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	other := &registration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiService},
		Spec: registration.APIServiceSpec{
			Service: &registration.ServiceReference{
				Namespace: metav1.NamespaceSystem,
				Name:      "metrics-server",
			},
			Group: "metrics.k8s.io", Version: "v1beta1", InsecureSkipTLSVerify: true, GroupPriorityMinimum: 100,
			VersionPriority: 100,
		},
	}
	if _, err := a.ApiregistrationV1().APIServices().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = a.ApiregistrationV1().APIServices().Delete(context.Background(), apiService, metav1.DeleteOptions{})
	}()
	if err := served(fixed{}).Run(t.Context(), p.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	there, err := a.ApiregistrationV1().APIServices().Get(t.Context(), apiService, metav1.GetOptions{})
	if err != nil || there.Spec.Service.Name != "metrics-server" {
		t.Errorf("%+v, %v", there, err)
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
	}
}
