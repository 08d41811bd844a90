package transition

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// podOf returns a running pod of a controller, on node-0.
func podOf(namespace, name, owner string) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace,
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &yes}},
	}}
	p.Spec.NodeName, p.Status.Phase = "node-0", corev1.PodRunning
	return p
}

// leaseOf returns the Lease "leader" of a controller.
func leaseOf(holder string, renewed time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(renewed)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader", Namespace: "kube-system"}}
	l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, &at
	return l
}

// drainable returns a place whose groups are closed, and which has a pod to move.
func drainable(t *testing.T, objects ...apiruntime.Object) *place {
	t.Helper()
	p := newPlace(t, state(Closed, 1), append(objects, podOf("shop", "web-1", "web"))...)
	p.group.desired = 1
	p.kubernetes.Resources = []*metav1.APIResourceList{{GroupVersion: "v1"}} // without evictions, pods are deleted
	return p
}

// passTime advances the clock whenever something waits for it, until ctx ends.
func (p *place) passTime(ctx context.Context) {
	go func() {
		for ; ctx.Err() == nil; runtime.Gosched() {
			if next, waits := p.clock.Next(); waits {
				p.clock.Advance(next.Sub(p.clock.Now()))
			}
		}
	}()
}

// evictions counts the requests that remove pods.
func (p *place) evictions() (n int) {
	for _, a := range p.kubernetes.Actions() {
		if a.GetSubresource() == "eviction" || a.Matches("delete", "pods") {
			n++
		}
	}
	return n
}

// refused takes the next step, which must fail without an eviction.
func (p *place) refused(wants ...string) {
	p.t.Helper()
	s, err := p.Next(p.untilItWaits(), false)
	if err == nil || s.Step != Closed || p.evictions() > 0 {
		p.t.Fatalf("step %s with %d evictions, %v; %q", s.Step, p.evictions(), err, p.said)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			p.t.Errorf("%v, want %q", err, want)
		}
	}
}

// Both reasons to stop are named at once: --force overrules both.
func TestADrainStopsIfPodsWouldGetNoNode(t *testing.T) {
	lone := podOf("shop", "lone", "")
	lone.OwnerReferences = nil
	p := drainable(t, lone)
	for i := range 12 {
		p.forecast.Unplaced = append(p.forecast.Unplaced, Unplaced{fmt.Sprint("shop/web-", i), "no pool has the label"})
	}
	p.refused(`step "drained"`, "shop/web-0: no pool has the label", "and 2 more", "shop/lone has no controller",
		"--force")
	if len(p.taints()) > 0 {
		t.Errorf("the nodes have taints %v", p.taints())
	}
	p.Forecast = func(context.Context, []string) (*Forecast, error) { return nil, errors.New("a kind is not served") }
	p.refused("it is not known", "a kind is not served")
}

// taints returns those of all nodes.
func (p *place) taints() (out []corev1.Taint) {
	p.t.Helper()
	nodes, err := p.kubernetes.CoreV1().Nodes().List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range nodes.Items {
		out = append(out, nodes.Items[i].Spec.Taints...)
	}
	return out
}

func TestForceEvictsPodsThatWouldGetNoNode(t *testing.T) {
	p := drainable(t)
	p.forecast.Unplaced = []Unplaced{{"shop/web-1", "no pool has the label"}}
	p.Force = true
	s, err := p.Next(p.untilItWaits(), false)
	if err != nil || s.Step != Drained || p.evictions() != 1 {
		t.Fatalf("step %s with %d evictions, %v; %q", s.Step, p.evictions(), err, p.said)
	}
	if !slices.ContainsFunc(p.said, func(text string) bool { return strings.Contains(text, "no pool has the label") }) {
		t.Errorf("it says %q", p.said)
	}
}

// A launch that fails leaves no NodeClaim to wait for: what was launched is judged again.
func TestADrainStopsIfALaunchFails(t *testing.T) {
	p := drainable(t)
	n := 0
	p.Forecast = func(context.Context, []string) (*Forecast, error) {
		if n++; n == 1 {
			return &Forecast{Launches: 2}, nil
		}
		return &Forecast{Unplaced: []Unplaced{{"shop/web-1", "the last launch of its pool failed"}}}, nil
	}
	p.refused("the last launch of its pool failed")
}

func TestADrainStopsWithoutAController(t *testing.T) {
	t.Run("that renews its Lease", func(t *testing.T) {
		p := drainable(t, leaseOf("nodeless-1_id", noon))
		p.passTime(t.Context())
		p.refused("no controller runs", "leader", "--leader-election-name")
	})
	t.Run("that launches nodes", func(t *testing.T) { // and needs no Lease
		p := drainable(t)
		p.forecast.Launches = 3
		p.clock.Advance(time.Second) // the only node was launched before
		say := p.Say
		p.Say = func(format string, args ...any) {
			if !strings.HasPrefix(format, "waiting for the") {
				say(format, args...)
			}
		}
		p.passTime(t.Context())
		p.refused("the pods need 3 more nodes", "have launched none")
	})
}

func TestAControllerThatRenewsItsLeaseRuns(t *testing.T) {
	p := drainable(t, leaseOf("", noon))
	p.passTime(t.Context())
	reads := 0
	p.kubernetes.PrependReactor("list", "leases", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		reads++
		if reads < 4 {
			return false, nil, nil
		}
		return true, &coordinationv1.LeaseList{Items: []coordinationv1.Lease{*leaseOf("other_id", noon.Add(-time.Hour))}}, nil
	})
	if err := leaderOf(p.Transition).check(t.Context()); err != nil {
		t.Error(err)
	}
}

// The chart keeps the controller off the nodes that it launches. If it runs on a group of the migration, it would be
// evicted and nothing launched any more.
func TestAMigrationStopsIfTheControllerCouldRunNowhereElse(t *testing.T) {
	p := newPlace(t, &State{}, leaseOf("nodeless-1_id", noon), podOf("kube-system", "nodeless-1", "nodeless"),
		podOf("kube-system", "nodeless-2", "nodeless"))
	p.group.desired, p.group.tag = 1, "kubernetes.io/cluster/prod"
	p.readyPool()
	p.forecast.Unplaced = []Unplaced{
		{"kube-system/nodeless-2", "karpenter.sh/nodepool must not exist"}, {"shop/web-1", "no pool has the label"},
	}
	s, err := p.Next(p.untilItWaits(), false)
	if err == nil || s.Step != NotBegun || len(p.group.calls) > 0 {
		t.Fatalf("step %s, %v; calls %q", s.Step, err, p.group.calls)
	}
	for _, want := range []string{`step "observed"`, "kube-system/nodeless-2: karpenter.sh", "--keep", "Fargate"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p.forecast.Unplaced = p.forecast.Unplaced[1:]
	if s, err := p.Next(p.untilItWaits(), false); err != nil || s.Step != Observed {
		t.Errorf("step %s, %v", s.Step, err)
	}
	if !strings.Contains(fmt.Sprint(p.said), "shop/web-1: no pool has the label") {
		t.Errorf("it says %q", p.said)
	}
}

// On the host network, the holder of the Lease is called after its node.
func TestTheControllerIsKnownOnTheHostNetwork(t *testing.T) {
	host := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.HostNetwork = true
		return p
	}
	daemon, elsewhere := host(podOf("kube-system", "proxy-1", "proxy")), host(podOf("kube-system", "dns-1", "dns"))
	daemon.OwnerReferences[0].Kind, elsewhere.Spec.NodeName = "DaemonSet", "node-1"
	replica := host(podOf("kube-system", "nodeless-2", "nodeless"))
	replica.Spec.NodeName = "node-2"
	p := newPlace(t, &State{}, leaseOf("node-0.us-west-2.compute.internal_id", noon), daemon, elsewhere, replica,
		host(podOf("kube-system", "nodeless-1", "nodeless")), podOf("kube-system", "web-1", "web"),
		host(podOf("shop", "proxy-2", "proxy-2")))
	got, err := leaderOf(p.Transition).pods(t.Context())
	want := map[string]bool{"kube-system/nodeless-1": true, "kube-system/nodeless-2": true}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestAMigrationLeavesGroupsAloneThatUsersKeep(t *testing.T) {
	p := newPlace(t, &State{})
	p.group.desired, p.group.tag = 1, "kubernetes.io/cluster/prod"
	p.readyPool()
	p.Keep = []string{"api"}
	if _, err := p.Next(p.untilItWaits(), false); err == nil || !strings.Contains(err.Error(), "no such group") {
		t.Errorf("a group that does not exist: %v", err)
	}
	for _, keep := range [][]string{{"web"}, nil, {"web"}} { // it is remembered, and may be said again
		p.Keep = keep
		s, err := p.Next(p.untilItWaits(), false)
		if err == nil || len(s.Groups) > 0 || !slices.Equal(s.Keep, []string{"web"}) {
			t.Errorf("--keep %q: groups %v, kept %q, %v", keep, s.titles(), s.Keep, err)
		}
	}
	p = newPlace(t, state(Closed, 1))
	p.Keep = []string{"web"}
	if _, err := p.Next(p.untilItWaits(), false); err == nil || !strings.Contains(err.Error(), "migrate back") {
		t.Errorf("a closed group: %v", err)
	}
}
