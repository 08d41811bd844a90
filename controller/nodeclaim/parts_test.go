package nodeclaim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/devices"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

func TestAPoolThatGoesTakesItsClaimsAlongUnlessItIsToldToLeaveThem(t *testing.T) {
	now := metav1.Now()
	ref := metav1.OwnerReference{Kind: "NodePool", Name: "p", UID: "1"}
	for name, c := range map[string]struct {
		pool karpv1.NodePool
		want bool
	}{
		"it is there":          {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, true},
		"another has its name": {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, false},
		"it waits for its claims": {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{
			UID: "1", DeletionTimestamp: &now,
			Finalizers: []string{"foregroundDeletion"},
		}}, false},
		"it leaves its claims": {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{
			UID: "1", DeletionTimestamp: &now,
			Finalizers: []string{"orphan"},
		}}, true},
	} {
		if got := keepsDependents(&c.pool, ref); got != c.want {
			t.Errorf("%s: kept %v", name, got)
		}
	}
}

func TestWhatBecomesOfDoNotDisruptIsSaid(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]string{
		"10m": "DoNotDisruptUntil The karpenter.sh/do-not-disrupt grace period will elapse at 2026-06-01T12:05:00Z",
		"5m":  "DoNotDisruptGracePeriodElapsed The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable",
		"-5m": `InvalidDoNotDisruptAnnotation Invalid karpenter.sh/do-not-disrupt annotation: duration "-5m" must be positive, ignoring annotation`,
		"yes": `InvalidDoNotDisruptAnnotation Invalid karpenter.sh/do-not-disrupt annotation: "yes" is neither "true" nor a duration such as 30m, ignoring annotation`,
	} {
		started := metav1.NewTime(noon.Add(-5 * time.Minute))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: value}}, Status: corev1.PodStatus{StartTime: &started}}
		if _, reason, message := doNotDisrupt(pod, value, noon); reason+" "+message != want {
			t.Errorf("%s: %s %s", value, reason, message)
		}
		pod.Status.StartTime = nil
		if _, reason, _ := doNotDisrupt(pod, value, noon); strings.HasPrefix(reason, "DoNotDisrupt") {
			t.Errorf("%s, not started: %s", value, reason)
		}
	}
}

func TestAMachineThatIsMuchSmallerThanPromisedIsInconsistent(t *testing.T) {
	amounts := func(memory string) corev1.ResourceList {
		return corev1.ResourceList{"memory": resource.MustParse(memory), "cpu": resource.MustParse("2")}
	}
	claim := &karpv1.NodeClaim{}
	claim.Spec.Resources.Requests = amounts("1Gi")
	claim.Status.Capacity = amounts("128Gi")
	node := &corev1.Node{}
	for memory, want := range map[string]string{
		"116Gi": "", "64Gi": "expected 128Gi of resource memory, but found 64Gi (50.0% of expected)",
	} {
		node.Status.Capacity = amounts(memory)
		if got := strings.Join(shortfalls(node, claim), "; "); got != want {
			t.Errorf("%s: %s", memory, got)
		}
	}
}

func TestANodeIsRepairedForTheConditionThatIsFirstIntolerable(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	policies := []cloud.RepairPolicy{
		{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute},
		{Condition: "AcceleratedHardwareReady", Status: "False", Toleration: 10 * time.Minute},
	}
	node := &corev1.Node{}
	for _, kind := range []corev1.NodeConditionType{"Ready", "AcceleratedHardwareReady"} {
		node.Status.Conditions = append(node.Status.Conditions,
			corev1.NodeCondition{Type: kind, Status: "False", LastTransitionTime: metav1.NewTime(noon)})
	}
	if condition, due := broken(node, policies); condition != "AcceleratedHardwareReady" ||
		!due.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("%s from %s on", condition, due)
	}
	node.Status.Conditions[1].Status = "True"
	if condition, due := broken(node, policies); condition != "Ready" || !due.Equal(noon.Add(30*time.Minute)) {
		t.Errorf("%s from %s on", condition, due)
	}
}

// Catalogs list no offerings of capacity reservations.
func TestWhichInstancesHaveAnOffering(t *testing.T) {
	sold := []model.InstanceType{{
		Name: "m5.large", Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand}},
	}}
	for instance, want := range map[[3]string]bool{
		{"m5.large", "a", model.OnDemand}: true,
		{"m5.large", "a", model.Spot}:     false,
		{"m5.large", "b", model.OnDemand}: false,
		{"m4.large", "a", model.OnDemand}: false,
		{"m5.large", "a", model.Reserved}: true,
		{"m5.large", "b", model.Reserved}: false,
		{"m4.large", "a", model.Reserved}: false,
	} {
		if got := hasOffering(sold, map[string]string{
			model.LabelInstanceType: instance[0], model.LabelZone: instance[1], model.LabelCapacityType: instance[2],
		}); got != want {
			t.Errorf("%v: %v", instance, got)
		}
	}
}

// The deletion of a NodeGroup releases a Node, and its claim is gone before the cache shows it.
func TestAReleasedNodeIsNotAdoptedAgain(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "c"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
	for name, there := range map[string]*karpv1.NodeClaim{
		"its claim is gone":        nil,
		"another one has its name": {ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "d"}},
	} {
		kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(node.DeepCopy())
		if there != nil {
			kube = kube.WithObjects(there)
		}
		api := kube.Build()
		g := &registrar{objects: &objects{
			cluster: cluster.New(cluster.Options{}), client: api, state: &pendingState{}, clock: clock.Real{},
		}}
		found := &corev1.Node{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(node), found); err != nil {
			t.Fatal(err)
		}
		goOn, err := g.find(t.Context(), &reconciliation{claim: claim}, []*corev1.Node{found})
		if goOn || err != nil {
			t.Errorf("%s: goes on: %v, error: %v", name, goOn, err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(node), found); err != nil {
			t.Fatal(err)
		}
		if isRegistered(found) || len(found.Finalizers)+len(found.OwnerReferences) > 0 {
			t.Errorf("%s: the Node is adopted: %v", name, found.ObjectMeta)
		}
	}
}

// slowEnd is a cloud whose instance is gone after the given number of Terminate calls.
type slowEnd struct {
	cloud.Provider
	asks int
}

func (c *slowEnd) Terminate(context.Context, string) error {
	if c.asks--; c.asks < 0 {
		return fmt.Errorf("terminate: %w", cloud.ErrNotFound)
	}
	return nil
}

// A NodeClaim exists as long as its instance: a user who sees it gone is not billed for the instance any more.
func TestTheEndOfAnInstanceIsWaitedFor(t *testing.T) {
	all := &instances{objects: &objects{state: &pendingState{}}, cloud: &slowEnd{asks: 8}}
	for ask := range 9 {
		again, err := all.terminate(t.Context(), "i-1")
		if err != nil {
			t.Fatal(err)
		}
		if want := min(firstPoll<<ask, maxPoll); ask < 8 && again != want {
			t.Errorf("ask %d: again in %s, want %s", ask, again, want)
		} else if ask == 8 && again != 0 {
			t.Errorf("it is gone, and asked for again in %s", again)
		}
	}
}

func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	s, drift := &pendingState{}, &driftDetector{}
	for _, uid := range []types.UID{"gone", "there"} {
		s.claims.update(uid, func(c *claimState) { c.launched = &cloud.LaunchResult{} })
		drift.templates.update(uid, func(*poolTemplate) {})
	}
	for _, name := range []string{"gone", "there", "launched"} {
		s.instances.update(name, func(i *instanceState) { i.gone = true })
		s.nodes.update(name, func(n *nodeState) { n.podEvent = time.Now() })
	}
	s.claims.update("there", func(c *claimState) { c.launched.Instance.ID = "launched" })
	uids, names := map[types.UID]bool{"there": true}, map[string]bool{"there": true}
	l := living{claims: uids, pools: uids, nodes: names, instances: map[string]bool{"there": true}}
	s.retain(l)
	drift.retain(l)
	for what, n := range map[string]int{
		"claims": len(s.claims.all), "nodes": len(s.nodes.all), "templates": len(drift.templates.all),
		"instances": len(s.instances.all) - 1,
	} {
		if n != 1 {
			t.Errorf("%s has %d records, want 1", what, n)
		}
	}
	if s.claims.get("there").launched == nil || !s.instances.get("launched").gone ||
		s.nodes.get("there").podEvent.IsZero() {
		t.Error("what is there is forgotten")
	}
}

// Deleting a claim deletes the record of its instance, even of one that was never written to the claim.
func TestTheRecordOfAnInstanceGoesWithItsClaim(t *testing.T) {
	s := &pendingState{}
	s.claims.update("1", func(c *claimState) { c.launched = &cloud.LaunchResult{Instance: cloud.Instance{ID: "i-1"}} })
	s.instances.update("i-1", func(i *instanceState) { i.terminations++ })
	s.forgetClaim("1", "")
	if len(s.claims.all)+len(s.instances.all) > 0 {
		t.Errorf("%v and %v are left", s.claims.all, s.instances.all)
	}
}

func TestAProcessThatStandsByGathersNothing(t *testing.T) {
	c, heard := &Controller{}, 0
	event := c.whileLeading(func(_, _ client.Object) { heard++ })
	event(nil, &karpv1.NodeClaim{})
	c.leading.Store(true)
	event(nil, &karpv1.NodeClaim{})
	if heard != 1 {
		t.Errorf("%d events were heard, one of them while it stood by", heard)
	}
}

func TestALaunchRequestSaysWhatTheClaimAsksFor(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tier": "web"}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	claim.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m")}
	req, err := launchRequest(translate.NewNames(), claim)
	if err != nil || req.Requests[model.CPU] != 1500 || req.Class.Name != "default" || req.Labels["tier"] != "web" {
		t.Errorf("launch request %+v, %v", req, err)
	}
}

// A node is initialized only when the drivers that it was launched for have published their devices.
func TestANodeWaitsForTheDevicesThatItWasLaunchedFor(t *testing.T) {
	state := cluster.New(cluster.Options{})
	g := &registrar{objects: &objects{cluster: state}}
	state.Update(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{karpv1.DRADriversAnnotationKey: "gpu.nvidia.com,nic.example.com"},
	}}
	for _, driver := range []string{"gpu.nvidia.com", "nic.example.com"} {
		want := obstacle{notPublished, `DRA driver "` + driver + `" has not published a complete resource pool`}
		if got := g.obstacles(node, claim); len(got) != 1 || got[0] != want {
			t.Errorf("got %v, want %v", got, want)
		}
		state.Update(devices.Slice("n", driver, nil))
	}
	if got := g.obstacles(node, claim); len(got) > 0 {
		t.Errorf("all is published: %v", got)
	}
}

// cached is a cache of one claim.
type cached struct {
	cache.Cache
	claim *karpv1.NodeClaim
}

func (c cached) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	c.claim.DeepCopyInto(o.(*karpv1.NodeClaim))
	return nil
}

// While a class's new offer is not known, its claims wait for it: a claim that was reconciled at once would be
// launched at once, and so on.
func TestAClaimThatIsHeldIsNotReconciledUntilItIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk, quiet := clock.NewVirtual(time.Unix(0, 0)), slog.New(slog.DiscardHandler)
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "held", UID: "h"}}
		claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "nodeless.sh", Kind: "NodeGroup", Name: "web"}
		state := cluster.New(cluster.Options{Clock: clk})
		state.SetCatalog(cluster.ClassRef(claim.Spec.NodeClassRef), nil, "")
		state.ClassChanged(cluster.ClassRef(claim.Spec.NodeClassRef))
		claims, reconciled := workqueue.New("claims", clk, quiet), 0
		l := newLauncher(&objects{cache: cached{claim: claim}, cluster: state, clock: clk, state: &pendingState{}},
			Options{Preflight: true, Clock: clk, Log: quiet}, nil, claims)
		if again, err := l.launch(t.Context(), "held"); again != classRetry || err != nil {
			t.Errorf("it is tried again in %s, %v; want %s", again, err, classRetry)
		}
		ctx, stop := context.WithCancel(t.Context())
		go claims.Run(ctx, 1, func(context.Context, string) (time.Duration, error) {
			reconciled++
			return 0, nil
		})
		synctest.Wait()
		if reconciled > 0 {
			t.Errorf("it is reconciled %d times before it is tried again", reconciled)
		}
		stop()
		synctest.Wait()
	})
}

// ailing is a cloud that denies access to its health checks at first.
type ailing struct {
	cloud.Provider
	asked int
}

func (a *ailing) Unhealthy(context.Context) ([]cloud.Interruption, error) {
	if a.asked++; a.asked <= 2 {
		return nil, fmt.Errorf("describe instance status: %w: ExpiredToken", cloud.ErrUnauthorized)
	}
	return []cloud.Interruption{{InstanceIDs: []string{"i-1"}, Kind: cloud.InstanceFailed}}, nil
}

// Credentials may expire for a moment. Meanwhile the log says so once.
func TestHealthChecksGoOnAfterTheCloudDeniedAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := bareClaim()
		claim.Status.ProviderID = "aws:///a/i-1"
		api, provider, said := serving(interceptor.Funcs{}, claim), &ailing{}, &strings.Builder{}
		p := process(api, provider, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(said, nil)) })
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		p.cluster.Update(claim)
		ctx, stop := context.WithCancel(t.Context())
		go p.interrupter.checkHealth(ctx)
		for range 2 {
			synctest.Wait()
			p.clock.(*clock.Virtual).Advance(deniedInterval)
		}
		synctest.Wait()
		err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
		if err != nil || claim.DeletionTimestamp == nil {
			t.Errorf("asked %d times, and the claim of the broken instance stays: %v", provider.asked, err)
		}
		if n := strings.Count(said.String(), "cannot ask"); n != 1 {
			t.Errorf("the log says it %d times:\n%s", n, said)
		}
		stop()
		synctest.Wait()
	})
}
