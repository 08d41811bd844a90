package admission_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/admission"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) {
	*admission.TimeoutSeconds = 30 // API servers ignore a webhook that takes longer, or reject the pod
	planetest.Main(m)
}

// warnings collects the warnings that the API server returns to a client, as kubectl shows them.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// take returns the warnings received since the previous call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

// webhook is a running admission server and a client that records its warnings.
type webhook struct {
	client.Client
	warnings

	mu       sync.Mutex
	profiles []*v1alpha1.FargateProfile
	server   *admission.Server
	stop     func()
}

func (w *webhook) setProfiles(profiles ...*v1alpha1.FargateProfile) {
	w.mu.Lock()
	w.profiles = profiles
	w.mu.Unlock()
	w.server.ProfilesChanged()
}

func start(t *testing.T) *webhook {
	t.Helper()
	p := planetest.Start(t)
	w := &webhook{}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cfg := rest.CopyConfig(p.RESTConfig())
	cfg.WarningHandler = &w.warnings
	var err error
	if w.Client, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at, err := admission.ParsePlace("https://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w.server = admission.New(admission.Options{
		Client: w.Client, At: at.WithSecret("secret-of-the-tests"), Listener: listener, Namespace: "kube-system",
		Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler),
		Able: fargate.DefaultAbilities,
		Profiles: func() []*v1alpha1.FargateProfile {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.profiles)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- w.server.Run(ctx, func() { close(ready) }) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the webhook ended with %v", err)
		}
	})
	t.Cleanup(func() {
		w.stop()
		if err := admission.Uninstall(context.Background(), w.Client, fargate.MutatingWebhooks); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	return w
}

func profile(name, namespace string) *v1alpha1.FargateProfile {
	p := &v1alpha1.FargateProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Sizing = v1alpha1.SizingFargate
	p.Spec.Selectors = []v1alpha1.FargateProfileSelector{{Namespace: namespace}}
	return p
}

func pod(namespace string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "p-"}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("500Mi")},
	}}}
	return p
}

// eventually creates pods in dry-run mode until one is as expected: API servers pick up a changed webhook
// configuration with a short delay.
func eventually(t *testing.T, w *webhook, namespace string, right func(*corev1.Pod, error) bool) *corev1.Pod {
	t.Helper()
	var out *corev1.Pod
	planetest.Eventually(t, "a pod as expected", func(ctx context.Context) error {
		w.take()
		out = pod(namespace)
		if err := w.Create(ctx, out, client.DryRunAll); !right(out, err) {
			return fmt.Errorf("got %+v, %w", out.ObjectMeta, err)
		}
		return nil
	})
	return out
}

func ofProfile(name string) func(*corev1.Pod, error) bool {
	return func(p *corev1.Pod, err error) bool { return err == nil && p.Labels[fargate.ProfileLabel] == name }
}

func TestPodsOfAProfileAreChangedAndTheirAuthorsAreTold(t *testing.T) {
	w := start(t)
	namespace := planetest.Namespace(t, planetest.Start(t))
	eventually(t, w, namespace, ofProfile(""))
	w.setProfiles(profile("demo", namespace[:len(namespace)-2]+"*"))
	got := eventually(t, w, namespace, ofProfile("demo"))
	if s := got.Spec; s.SchedulerName != "fargate-scheduler" || s.PriorityClassName != "system-node-critical" ||
		s.Priority == nil || *s.Priority != 2000001000 || *s.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("spec %+v", s)
	}
	if got.Annotations["CapacityProvisioned"] != "0.5vCPU 1GB" ||
		got.Annotations["Logging"] != "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND" {
		t.Errorf("annotations %v", got.Annotations)
	}
	if said := w.take(); !slices.Contains(said,
		"FargateProfile demo: the pod runs as 0.5vCPU 1GB in its own microVM; it requests 500m CPU and 500Mi memory") {
		t.Errorf("warnings %q", said)
	}

	second := pod(namespace)
	second.Spec.NodeName = "fargate-ip-10-0-0-7.us-west-2.compute.internal"
	if err := w.Create(t.Context(), second, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if said := w.take(); second.Spec.SchedulerName != fargate.SchedulerName || len(said) != 1 ||
		!strings.Contains(said[0], "remove spec.nodeName") {
		t.Errorf("a pod that names another's node: %s, %q", second.Spec.SchedulerName, said)
	}

	replicas := int32(1)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	d.Spec.Template.Labels, d.Spec.Template.Spec = map[string]string{"a": "b"}, pod(namespace).Spec
	d.Spec.Template.Spec.HostNetwork = true
	planetest.Eventually(t, "the Deployment's author is told", func(ctx context.Context) error {
		w.take()
		if err := w.Create(ctx, d.DeepCopy(), client.DryRunAll); err != nil {
			return err
		}
		if said := w.take(); !slices.Contains(said,
			"FargateProfile demo: the pod will not run: Pod not supported on Fargate: fields not supported: HostNetwork") {
			return fmt.Errorf("warnings %q", said)
		}
		return nil
	})
	if err := w.Create(context.Background(), d, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if d.Spec.Template.Spec.SchedulerName == fargate.SchedulerName {
		t.Error("on Fargate the template stays as it is")
	}
}

// A widely used patch is meant to let CoreDNS run on Fargate, but removes more than the one annotation.
func TestAPatchThatRemovesAllAnnotationsIsAcceptedAndSaid(t *testing.T) {
	w := start(t)
	namespace := planetest.Namespace(t, planetest.Start(t))
	w.setProfiles(profile("demo", namespace))
	eventually(t, w, namespace, ofProfile("demo"))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "coredns"}}
	d.Spec.Replicas, d.Spec.Selector = new(int32(0)), &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	d.Spec.Template.Labels, d.Spec.Template.Spec = map[string]string{"a": "b"}, pod(namespace).Spec
	d.Spec.Template.Annotations = map[string]string{fargate.ComputeType: "ec2", "prometheus.io/scrape": "true"}
	if err := w.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	patch := func(text string) []string {
		t.Helper()
		w.take()
		c := d.DeepCopy()
		if err := w.Patch(t.Context(), c, client.RawPatch(types.JSONPatchType, []byte(text)), client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		if c.Spec.Template.Annotations[fargate.ComputeType] != "" {
			t.Errorf("annotations %v", c.Spec.Template.Annotations)
		}
		return w.take()
	}
	const lost = "This removes all annotations of the pods, prometheus.io/scrape too: the operation remove of a JSON patch " +
		"ignores value; to remove one annotation, its path is " +
		"/spec/template/metadata/annotations/eks.amazonaws.com~1compute-type"
	// The API server picks up the workload webhook independently of the pod webhook.
	planetest.Eventually(t, "the lost annotations are warned of", func(context.Context) error {
		said := patch(`[{"op":"remove","path":"/spec/template/metadata/annotations","value":"eks.amazonaws.com/compute-type"}]`)
		if !slices.Contains(said, lost) {
			return fmt.Errorf("warnings %q", said)
		}
		return nil
	})
	said := patch(`[{"op":"remove","path":"/spec/template/metadata/annotations/eks.amazonaws.com~1compute-type"}]`)
	if slices.Contains(said, lost) {
		t.Errorf("warnings %q", said)
	}
}

// While the webhook is down, a pod that needs a node of its own is not scheduled to a shared node. Other namespaces,
// and the controller itself, are unaffected.
func TestWithoutTheWebhook(t *testing.T) {
	w := start(t)
	alone, shared := planetest.Namespace(t, planetest.Start(t)), planetest.Namespace(t, planetest.Start(t))
	w.setProfiles(profile("demo", alone))
	eventually(t, w, alone, ofProfile("demo"))
	planetest.Eventually(t, "the configuration is said again", func(ctx context.Context) error {
		c := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := w.Get(ctx, client.ObjectKey{Name: fargate.MutatingWebhooks}, c); err != nil {
			return err
		}
		if got, want := c.Annotations["nodeless.sh/said-again"],
			fmt.Sprint(c.Generation); got != want || !strings.Contains(c.Webhooks[0].MatchConditions[0].Expression, alone) {
			return fmt.Errorf("said again of generation %q, it is %s: %v", got, want, c.Webhooks[0].MatchConditions)
		}
		return nil
	})
	w.stop()
	eventually(t, w, alone, func(_ *corev1.Pod, err error) bool {
		return err != nil && strings.Contains(err.Error(), `failed calling webhook "profiles.pods.nodeless.sh"`)
	})
	eventually(t, w, shared, ofProfile(""))
	for _, labels := range []map[string]string{
		{"app.kubernetes.io/name": "nodeless"}, {"app.kubernetes.io/name": "karpenter", fargate.ControllerLabel: "true"},
	} {
		own := pod(alone)
		own.Labels = labels
		if err := w.Create(context.Background(), own, client.DryRunAll); err != nil {
			t.Errorf("the controller with labels %v cannot start: %v", labels, err)
		}
	}
}

// A controller in the cluster keeps its webhook when a process that served beside it is uninstalled: without it, pods
// of profiles would be scheduled to shared nodes.
func TestUninstallLeavesTheWebhookOfAControllerInTheCluster(t *testing.T) {
	w := start(t)
	ctx := context.Background()
	service := &admissionregistrationv1.MutatingWebhookConfiguration{}
	service.Name = "of-a-service"
	service.Webhooks = []admissionregistrationv1.MutatingWebhook{{
		Name: "pods.nodeless.sh", AdmissionReviewVersions: []string{"v1"},
		SideEffects: new(admissionregistrationv1.SideEffectClassNone),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: "nodeless-system", Name: "nodeless"},
		},
	}}
	if err := w.Create(ctx, service); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Delete(context.Background(), service) })
	w.stop()
	if err := admission.Uninstall(ctx, w.Client, service.Name); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{service.Name: true, fargate.MutatingWebhooks: false} {
		err := w.Get(ctx, client.ObjectKey{Name: name}, &admissionregistrationv1.MutatingWebhookConfiguration{})
		if (err == nil) != stays || client.IgnoreNotFound(err) != nil {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
}

// A controller whose FargateProfiles were switched off deletes the webhook that its own Service served, and no other.
func TestRetireDeletesTheWebhookOfOneService(t *testing.T) {
	w := start(t)
	w.stop()
	ctx := t.Context()
	c := &admissionregistrationv1.MutatingWebhookConfiguration{}
	v := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	mutating := client.ObjectKey{Name: fargate.MutatingWebhooks}
	validating := client.ObjectKey{Name: fargate.ValidatingWebhooks}
	if err := errors.Join(w.Get(ctx, mutating, c), w.Get(ctx, validating, v)); err != nil {
		t.Fatal(err)
	}
	at := admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: "nodeless-system", Name: "nodeless"},
	}
	for i := range c.Webhooks {
		c.Webhooks[i].ClientConfig = at
	}
	for i := range v.Webhooks {
		v.Webhooks[i].ClientConfig = at
	}
	if err := errors.Join(w.Update(ctx, c), w.Update(ctx, v)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = w.Delete(context.Background(), c), w.Delete(context.Background(), v) })
	for _, step := range []struct {
		service client.ObjectKey
		gone    bool
	}{
		{client.ObjectKey{Namespace: "kube-system", Name: "nodeless"}, false},
		{client.ObjectKey{Namespace: "nodeless-system", Name: "another"}, false},
		{client.ObjectKey{Namespace: "nodeless-system", Name: "nodeless"}, true},
		{client.ObjectKey{Namespace: "nodeless-system", Name: "nodeless"}, true},
	} {
		if err := admission.Retire(ctx, w.Client, step.service); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{w.Get(ctx, mutating, c.DeepCopy()), w.Get(ctx, validating, v.DeepCopy())} {
			if apierrors.IsNotFound(err) != step.gone || client.IgnoreNotFound(err) != nil {
				t.Errorf("of Service %s: %v, want the webhook to be gone: %v", step.service, err, step.gone)
			}
		}
	}
}

// A configuration that another process writes between the reading and the deletion is read again.
func TestUninstallReadsAgainWhatChanged(t *testing.T) {
	w := start(t)
	w.stop()
	deletions := 0
	busy := interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{Delete: func(
		ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption,
	) error {
		if deletions++; deletions == 1 {
			other := &admissionregistrationv1.MutatingWebhookConfiguration{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
				return err
			}
			other.Labels = map[string]string{"of": "another"}
			if err := c.Update(ctx, other); err != nil {
				return err
			}
		}
		return c.Delete(ctx, o, options...)
	}})
	if err := admission.Uninstall(context.Background(), busy, fargate.MutatingWebhooks); err != nil || deletions < 2 {
		t.Errorf("after %d deletions: %v", deletions, err)
	}
}

func TestProfilesAndTheLogRouterAreJudged(t *testing.T) {
	w := start(t)
	ctx := context.Background()
	planetest.Eventually(t, "a profile for the whole cluster is warned of", func(ctx context.Context) error {
		w.take()
		if err := w.Create(ctx, profile("everything", "*"), client.DryRunAll); err != nil {
			return err
		}
		if said := w.take(); !slices.ContainsFunc(said, func(s string) bool {
			return strings.Contains(s, "selects every pod of the cluster, its system pods included")
		}) {
			return fmt.Errorf("warnings %q", said)
		}
		return nil
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   "aws-observability",
		Labels: map[string]string{"aws-observability": "enabled"},
	}}
	if err := w.Create(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Delete(ctx, namespace) })
	logging := func(output string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "aws-observability", Name: "aws-logging"},
			Data:       map[string]string{"output.conf": output},
		}
	}
	err := w.Create(ctx, logging("[OUTPUT]\n  Name amazon_data_firehose\n  Match *\n"), client.DryRunAll)
	if !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "amazon_data_firehose is not a supported output plugin") {
		t.Errorf("got %v", err)
	}
	const stdout = "[OUTPUT]\n  Name stdout\n  Match *\n"
	w.take()
	for output, want := range map[string]string{
		stdout: "",
		"[OUTPUT]\n  Name cloudwatch\n  Match *\n":         "output plugin cloudwatch needs AWS",
		stdout + "[OUTPUT]\n  Name firehose\n  Match *\n":  "but not for output plugin firehose, which needs AWS and is not supported here",
		"[OUTPUT]\n  Name http\n  Match *\n  Port 99999\n": "output.conf line 1: http: port is not a number",
	} {
		if err := w.Create(ctx, logging(output), client.DryRunAll); err != nil {
			t.Error(err)
		}
		if said := strings.Join(w.take(), "\n"); want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("of %q: warnings %q, want %q", output, said, want)
		}
	}
}

// A profile and its first pod are often created by one kubectl apply. It does not matter that the cache does not hold
// the profile yet.
func TestAPodOfAProfileThatIsNotCachedYet(t *testing.T) {
	w := start(t)
	namespace, another := planetest.Namespace(t, planetest.Start(t)), planetest.Namespace(t, planetest.Start(t))
	w.setProfiles(profile("known", another))
	eventually(t, w, another, ofProfile("known")) // the API server calls this webhook
	eventually(t, w, namespace, ofProfile(""))
	p := profile("new", namespace)
	if err := w.Create(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Delete(context.Background(), p) })
	const pods = 8 // the API server ignores a webhook that takes too long, which 32 at once may on a loaded machine
	got := make(chan error, pods)
	for range pods {
		go func() {
			own := pod(namespace)
			err := w.Create(context.Background(), own, client.DryRunAll)
			if err == nil && own.Labels[fargate.ProfileLabel] != "new" {
				err = fmt.Errorf("labels are %v", own.Labels)
			}
			got <- err
		}()
	}
	for range pods {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

// The Secret is shared: a second process serves the first one's certificate. A damaged certificate is replaced.
func TestCertificatesAreSharedThroughTheSecret(t *testing.T) {
	first := start(t)
	ctx := context.Background()
	key := client.ObjectKey{Namespace: "kube-system", Name: fargate.WebhookSecret}
	secret, again := &corev1.Secret{}, &corev1.Secret{}
	if err := first.Get(ctx, key, secret); err != nil {
		t.Fatal(err)
	}
	second := start(t)
	if err := second.Get(ctx, key, again); err != nil {
		t.Fatal(err)
	}
	if secret.ResourceVersion != again.ResourceVersion {
		t.Error("the second process made certificates of its own")
	}
	again.Data[corev1.TLSPrivateKeyKey] = secret.Data[corev1.TLSCertKey]
	if err := second.Update(ctx, again); err == nil {
		second.server.ProfilesChanged()
		planetest.Eventually(t, "the damaged Secret is made anew", func(ctx context.Context) error {
			if err := second.Get(ctx, key, again); err != nil {
				return err
			}
			if slices.Equal(again.Data[corev1.TLSPrivateKeyKey], secret.Data[corev1.TLSCertKey]) {
				return errors.New("not yet")
			}
			return nil
		})
	}
	namespace := planetest.Namespace(t, planetest.Start(t))
	second.setProfiles(profile("demo", namespace))
	eventually(t, second, namespace, ofProfile("demo"))
}
