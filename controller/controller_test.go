package controller_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/porttest"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// region is a cloud in memory that only counts its instances.
type region struct {
	mu       sync.Mutex
	machines map[string]cloud.Instance
}

func newRegion() *region { return &region{machines: map[string]cloud.Instance{}} }

func (r *region) Name() string { return "memory" }

func (r *region) Catalog(context.Context, cloud.ClassRef) ([]model.InstanceType, error) {
	return nil, nil
}

func (r *region) Launch(_ context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := cloud.Instance{
		ID: "i-" + req.Claim, ProviderID: "aws:///a/i-" + req.Claim, Claim: req.Claim,
		State: cloud.Running, Launched: time.Now(),
	}
	r.machines[m.ID] = m
	return cloud.LaunchResult{Instance: m}, nil
}

func (r *region) Terminate(_ context.Context, id string) error {
	if _, err := r.Get(context.Background(), id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.machines, id)
	return nil
}

func (r *region) Get(_ context.Context, id string) (cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.machines[id]; ok {
		return m, nil
	}
	return cloud.Instance{}, cloud.ErrNotFound
}

func (r *region) List(context.Context) ([]cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []cloud.Instance
	for _, m := range r.machines {
		out = append(out, m)
	}
	return out, nil
}

func (r *region) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.machines)
}

// replica is one running controller.
type replica struct {
	*region
	leads chan struct{} // closed when it leads
	stop  func()
}

func run(t *testing.T, change func(*controller.Options)) *replica {
	p := planetest.Start(t)
	r := &replica{region: newRegion(), leads: make(chan struct{})}
	ready := sync.OnceFunc(func() { close(r.leads) })
	o := controller.Options{
		REST: p.RESTConfig(), OnReady: ready,
		Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
			return r.region, nil
		},
	}
	change(&o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer ready() // a test that waits for it goes on, and fails, if it ends early
		done <- controller.Run(ctx, o)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controller ended with %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// A release whose FargateProfiles were switched off leaves a webhook behind that nobody serves.
func TestWithoutFargateItsWebhookGoes(t *testing.T) {
	api, err := client.New(planetest.Start(t).RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	webhook.Name = fargate.MutatingWebhooks
	webhook.Webhooks = []admissionregistrationv1.MutatingWebhook{{
		Name: "pods.nodeless.sh", AdmissionReviewVersions: []string{"v1"},
		SideEffects: new(admissionregistrationv1.SideEffectClassNone),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "nodeless"},
		},
	}}
	if err := api.Create(t.Context(), webhook); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), webhook) })
	run(t, func(o *controller.Options) { o.Service = client.ObjectKey{Namespace: "default", Name: "nodeless"} })
	planetest.Eventually(t, "the webhook is gone", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(webhook), webhook); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
}

// A Karpenter in another namespace holds another Lease, so leader election alone would not keep the two apart.
func TestAnotherControllerIsWaitedForAndGivenWayTo(t *testing.T) {
	controller.PatientLeases(t)
	api, err := client.New(planetest.Start(t).RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: controller.DefaultLease},
	}
	held := func(by string) {
		t.Helper()
		lease.Spec = coordinationv1.LeaseSpec{
			HolderIdentity: &by, LeaseDurationSeconds: new(int32(600)), RenewTime: new(metav1.NowMicro()),
		}
		if err := api.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), lease) })
	held("karpenter-7f9_1")

	waits, ended := make(chan string, 1), make(chan error, 1)
	r := &replica{region: newRegion(), leads: make(chan struct{})}
	o := controller.Options{
		REST: planetest.Start(t).RESTConfig(), LeaderElection: true, LeaderNamespace: "default",
		OnReady: func() { close(r.leads) },
		Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
			return r.region, nil
		},
		Log: slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
			if strings.Contains(string(line), "waiting until it ends") {
				waits <- string(line)
			}
			return len(line), nil
		}), nil)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- controller.Run(ctx, o) }()
	select {
	case line := <-waits:
		if !strings.Contains(line, "karpenter-7f9_1") || !strings.Contains(line, metav1.NamespacePublic) {
			t.Errorf("the other controller is not named: %s", line)
		}
	case <-r.leads:
		t.Fatal("both lead")
	case err := <-ended:
		t.Fatal(err)
	}
	held("") // Karpenter has ended and released its Lease
	select {
	case <-r.leads:
	case err := <-ended:
		t.Fatal(err)
	}
	machine(t, "taken-over")
	held("karpenter-7f9_2")
	defer time.AfterFunc(4*time.Minute, cancel).Stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "karpenter-7f9_2") {
		t.Errorf("ended with %v; want to give way to karpenter-7f9_2", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }

// machine creates a NodeClaim and waits until a controller has launched it.
func machine(t *testing.T, name string) {
	t.Helper()
	api, err := client.New(planetest.Start(t).RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	if err := api.Create(context.Background(), claim); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		planetest.Eventually(t, "the test's claim is gone", func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
				return client.IgnoreNotFound(err)
			}
			claim.Finalizers = nil
			return errors.Join(api.Update(ctx, claim), api.Delete(ctx, claim), errors.New("still there"))
		})
	})
	planetest.Eventually(t, "claim "+name+" is launched", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.ProviderID == "" {
			return errors.New("not yet")
		}
		return nil
	})
}

func TestOneOfTwoReplicasActsAndTheOtherTakesOver(t *testing.T) {
	controller.PatientLeases(t)
	as := func(identity string) func(*controller.Options) {
		return func(o *controller.Options) {
			o.LeaderElection, o.LeaderNamespace, o.Identity = true, "default", identity
		}
	}
	first := run(t, as("first"))
	<-first.leads
	second := run(t, as("second"))
	machine(t, "led-by-first")
	select {
	case <-second.leads:
		t.Fatal("both lead")
	default:
	}
	if first.count() != 1 || second.count() != 0 {
		t.Errorf("the first launched %d machines and the second %d, want 1 and 0", first.count(), second.count())
	}
	given := givenBack(t)
	first.stop()
	for what, happens := range map[string]<-chan struct{}{"the Lease is given back": given, "the second leads": second.leads} {
		select {
		case <-happens:
		case <-time.After(4 * time.Minute):
			t.Fatalf("not in four minutes: %s", what)
		}
	}
	machine(t, "led-by-second")
	if first.count() != 1 || second.count() != 1 {
		t.Errorf("the first launched %d machines and the second %d, want 1 and 1", first.count(), second.count())
	}
}

// A replica in another namespace has another Lease. While it waits it holds none, or the one that leads would give
// way to it.
func TestAReplicaInAnotherNamespaceWaitsToo(t *testing.T) {
	controller.PatientLeases(t)
	waits := make(chan struct{})
	told := sync.OnceFunc(func() { close(waits) })
	in := func(namespace string) func(*controller.Options) {
		return func(o *controller.Options) {
			o.LeaderElection, o.LeaderNamespace, o.Identity = true, namespace, namespace
			o.Log = slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
				if strings.Contains(string(line), "waiting until it ends") {
					told()
				}
				return len(line), nil
			}), nil))
		}
	}
	first := run(t, in(metav1.NamespaceDefault))
	<-first.leads
	second := run(t, in(metav1.NamespacePublic))
	<-waits
	api, err := client.New(planetest.Start(t).RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	var leases coordinationv1.LeaseList
	if err := api.List(t.Context(), &leases, client.InNamespace(metav1.NamespacePublic)); err != nil {
		t.Fatal(err)
	}
	for _, l := range leases.Items {
		if holder := l.Spec.HolderIdentity; holder != nil && strings.HasPrefix(*holder, metav1.NamespacePublic) {
			t.Errorf("the one that waits holds its Lease: %s", *holder)
		}
	}
	machine(t, "led-by-default")
	if first.count() != 1 || second.count() != 0 {
		t.Errorf("the first launched %d machines and the second %d, want 1 and 0", first.count(), second.count())
	}
	first.stop()
	<-second.leads
	machine(t, "led-by-public")
}

// givenBack returns a channel that is closed once the Lease names no holder.
func givenBack(t *testing.T) <-chan struct{} {
	t.Helper()
	api, err := kubernetes.NewForConfig(planetest.Start(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	watch, err := api.CoordinationV1().Leases(metav1.NamespaceDefault).Watch(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + controller.DefaultLease})
	if err != nil {
		t.Fatal(err)
	}
	given := make(chan struct{})
	go func() {
		for e := range watch.ResultChan() {
			if l, ok := e.Object.(*coordinationv1.Lease); ok && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == "" {
				close(given)
				return
			}
		}
	}()
	return given
}

// address returns an address on which nothing listens.
func address(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, 16800, 16899))
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestHealthAndMetricsAnswer(t *testing.T) {
	for name, shared := range map[string]bool{"one address": true, "two addresses": false} {
		t.Run(name, func(t *testing.T) {
			metrics, probes := address(t), address(t)
			if shared {
				probes = metrics
			}
			r := run(t, func(o *controller.Options) { o.MetricsAddress, o.HealthAddress = metrics, probes })
			<-r.leads
			for _, path := range []string{"/healthz", "/readyz"} {
				if code, body := get(t, probes, path); code != http.StatusOK || body != "ok" {
					t.Errorf("%s: %d %q", path, code, body)
				}
			}
			planetest.Eventually(t, "it has decided", func(context.Context) error {
				code, body := get(t, metrics, "/metrics")
				if code != http.StatusOK {
					return fmt.Errorf("/metrics: %d %s", code, body)
				}
				for _, want := range []string{
					"nodeless_launch_duration_seconds", "karpenter_scheduler_queue_depth",
					"go_goroutines",
				} {
					if !strings.Contains(body, want) {
						return fmt.Errorf("/metrics lacks %s", want)
					}
				}
				return nil
			})
		})
	}
}

func TestAnOccupiedAddressIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = controller.Run(context.Background(), controller.Options{
		REST: planetest.Start(t).RESTConfig(), MetricsAddress: l.Addr().String(),
		Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
			return nil, errors.New("not to be asked")
		},
	})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

func TestWhatTheProviderSaysEndsTheController(t *testing.T) {
	err := controller.Run(context.Background(), controller.Options{
		REST: planetest.Start(t).RESTConfig(),
		Provider: func(_ context.Context, _ func(cloud.ClassRef) *ec2v1.EC2NodeClass,
			version string,
		) (cloud.Provider, error) {
			return nil, fmt.Errorf("no region for Kubernetes %s", version)
		},
	})
	if err == nil || !strings.Contains(err.Error(), "no region for Kubernetes 1.36") {
		t.Errorf("got %v", err)
	}
}
