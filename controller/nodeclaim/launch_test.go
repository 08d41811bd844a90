package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// current is a cache that shows what the API server has.
type current struct {
	cache.Cache
	api client.Client
}

func (c current) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.api.Get(ctx, key, o, opts...)
}

func (c current) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.api.List(ctx, list, opts...)
}

// answering is a cloud with one instance at most, whose launches end as the test says.
type answering struct {
	cloud.Provider
	launch     func() error
	there      []cloud.Instance
	terminated []string
}

func (a *answering) Launch(_ context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	err := a.launch()
	return cloud.LaunchResult{Instance: cloud.Instance{ID: "i-1", ProviderID: "aws:///a/i-1", Claim: req.Claim}}, err
}

func (a *answering) List(context.Context) ([]cloud.Instance, error) { return a.there, nil }

func (a *answering) Get(context.Context, string) (cloud.Instance, error) {
	if len(a.there) == 0 {
		return cloud.Instance{}, cloud.ErrNotFound
	}
	return a.there[0], nil
}

func (a *answering) Terminate(_ context.Context, id string) error {
	a.terminated = append(a.terminated, id)
	return nil
}

// bareClaim is a claim that nobody has touched yet.
func bareClaim() *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "c", UID: "c", Finalizers: []string{karpv1.TerminationFinalizer},
	}}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	return c
}

func serving(f interceptor.Funcs, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&karpv1.NodeClaim{}).WithInterceptorFuncs(f).Build()
}

// process is a controller whose workers do not run.
func process(api client.Client, c cloud.Provider, change ...func(*Options)) *Controller {
	clk := clock.NewVirtual(time.Unix(0, 0))
	o := Options{
		Cloud: c, Cache: current{api: api}, Client: api, Cluster: cluster.New(cluster.Options{Clock: clk}),
		Recorder: silent{}, Clock: clk, Log: slog.New(slog.DiscardHandler), Metrics: metrics.New(nil), Launches: 1,
	}
	for _, f := range change {
		f(&o)
	}
	return newController(o)
}

// An instance launched from a class that is edited meanwhile must drift, as with Karpenter, which reads the class once.
func TestAClaimCarriesTheHashOfTheClassThatItWasLaunchedFrom(t *testing.T) {
	for name, c := range map[string]struct {
		stamped string // the hash that the claim carries, if an earlier process began its launch
		first   error  // the outcome of the launch during which the class is edited
		restart bool
		want    string
	}{
		"it is edited during the launch":                   {"", nil, false, "before"},
		"the answer was lost":                              {"", errors.New("lost"), false, "before"},
		"the process ended before the answer":              {"", context.Canceled, true, "before"},
		"the first launch was refused and started nothing": {"", cloud.ErrRefused, false, "after"},
		"the user copied another claim":                    {"copied", nil, false, "before"},
	} {
		t.Run(name, func(t *testing.T) {
			hash, claim := "before", bareClaim()
			if c.stamped != "" {
				claim.Annotations = map[string]string{"hash": c.stamped}
			}
			answers := []error{c.first, nil}
			provider := &answering{launch: func() (err error) {
				hash = "after"
				err, answers = answers[0], answers[1:]
				return err
			}}
			annotated := func(o *Options) {
				o.Annotations = func(*karpv1.NodeClaim) map[string]string { return map[string]string{"hash": hash} }
			}
			api := serving(interceptor.Funcs{}, claim)
			p := process(api, provider, annotated)
			if _, err := p.launcher.launch(t.Context(), "c"); !errors.Is(err, c.first) {
				t.Fatal(err)
			}
			if c.restart {
				p = process(api, provider, annotated)
				if err := p.resume(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.launcher.launch(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
				t.Fatal(err)
			}
			if got := claim.Annotations["hash"]; got != c.want || claim.Status.ProviderID == "" {
				t.Errorf("instance %q carries the hash from %q, want %q", claim.Status.ProviderID, got, c.want)
			}
		})
	}
}

// Another controller may have begun a claim's launch without a hash: from now on it drifts like all others.
func TestAClaimThatIsTakenOverWithoutAHashGetsOne(t *testing.T) {
	claim := bareClaim()
	api := serving(interceptor.Funcs{}, claim)
	p := process(api, &answering{launch: func() error { return nil }}, func(o *Options) {
		o.Annotations = func(*karpv1.NodeClaim) map[string]string { return map[string]string{"hash": "now"} }
	})
	if err := p.resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.launcher.launch(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	if claim.Annotations["hash"] != "now" {
		t.Errorf("its annotations are %v", claim.Annotations)
	}
}

// ended deletes a claim, and checks that it waits for the end of the instance that was launched for it.
func ended(t *testing.T, p *Controller, provider *answering, claim *karpv1.NodeClaim) {
	t.Helper()
	provider.there = []cloud.Instance{{ID: "i-1", Claim: claim.Name, State: cloud.Running}}
	if err := client.IgnoreNotFound(p.client.Delete(t.Context(), claim)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.reconcile(t.Context(), claim.Name); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(provider.terminated) != "[i-1]" {
		t.Errorf("terminated with the claim: %v", provider.terminated)
	}
	if err := p.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Errorf("the claim is gone before its instance: %v", err)
	}
}

// A launch finds no capacity, the deletion of its claim fails, and the next launch starts an instance but its answer
// is lost.
func TestAnInstanceIsLookedForAlthoughAnEarlierLaunchFoundNoCapacity(t *testing.T) {
	failing := true
	api := serving(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if failing {
				return errors.New("the API server is busy")
			}
			return c.Delete(ctx, o, opts...)
		},
	}, bareClaim())
	answer := cloud.ErrNoCapacity
	provider := &answering{launch: func() error { return answer }}
	p := process(api, provider)
	if _, err := p.launcher.launch(t.Context(), "c"); err == nil {
		t.Fatal("the claim is deleted")
	}
	failing, answer = false, errors.New("the answer is lost")
	if _, err := p.launcher.launch(t.Context(), "c"); !errors.Is(err, answer) {
		t.Fatal(err)
	}
	ended(t, p, provider, bareClaim())
}

// An earlier process launched an instance and could not record it; now its node would have too few addresses.
func TestAnInstanceIsLookedForAlthoughItsClaimWouldNotBeLaunchedNow(t *testing.T) {
	claim := bareClaim()
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: model.LabelInstanceType, Operator: "In", Values: []string{"m5.large"}},
	}
	provider := &answering{launch: func() error { return errors.New("not to be called") }}
	p := process(serving(interceptor.Funcs{}, claim), provider, func(o *Options) { o.Preflight = true })
	p.cluster.SetCatalog(cluster.ClassRef(claim.Spec.NodeClassRef),
		[]model.InstanceType{{Name: "m5.large", Unaddressed: 1}}, "")
	if err := p.resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.launcher.launch(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	ended(t, p, provider, claim)
}

// The deletion of a NodeGroup takes the marks off its instances and then deletes their claims; a list of instances
// from before still shows the marks.
func TestAnInstanceThatWasReleasedSinceItWasListedStays(t *testing.T) {
	for name, c := range map[string]struct {
		now  []cloud.Instance
		want string
	}{
		"it was released":      {[]cloud.Instance{{ID: "i-1"}}, "[]"},
		"another claim has it": {[]cloud.Instance{{ID: "i-1", Claim: "other"}}, "[]"},
		"it ended":             {nil, "[]"},
		"its claim is gone":    {[]cloud.Instance{{ID: "i-1", Claim: "gone"}}, "[i-1]"},
	} {
		provider := &answering{there: c.now}
		p := process(serving(interceptor.Funcs{}), provider)
		listed := cloud.Instance{
			ID: "i-1", Claim: "gone", State: cloud.Running, Launched: p.now().Add(-40 * time.Second),
		}
		if err := p.collector.collectInstance(t.Context(), listed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := fmt.Sprint(provider.terminated); got != c.want {
			t.Errorf("%s: terminated %s, want %s", name, got, c.want)
		}
	}
}
