package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

func claim() *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{
		karpv1.NodePoolLabelKey: "web", karpv1.CapacityTypeLabelKey: "spot", corev1.LabelTopologyZone: "us-west-2a",
	}}}
}

func TestWhatHappensToAClaimIsCountedUnderKarpentersNames(t *testing.T) {
	r := prometheus.NewRegistry()
	c, now := metrics.New(r), time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	going := claim()
	going.DeletionTimestamp = &metav1.Time{Time: now.Add(-3 * time.Second)}
	going.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, "Underutilized", "")

	c.ClaimCreated(claim(), "provisioned")
	c.ClaimDisrupted(claim(), metrics.Snake("Underutilized"))
	c.ClaimTerminated(going, now)
	c.PodDrained(going)
	c.Commanded(metrics.Replace, "Underutilized", 2, "web", "web")
	c.NoticeReceived(cloud.SpotInterruption)

	err := testutil.GatherAndCompare(r, strings.NewReader(`
# HELP karpenter_nodeclaims_created_total NodeClaims that were made for pods, for static pools or to replace others.
# TYPE karpenter_nodeclaims_created_total counter
karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="web",reason="provisioned"} 1
# HELP karpenter_nodeclaims_disrupted_total NodeClaims whose deletion Nodeless asked for, by reason.
# TYPE karpenter_nodeclaims_disrupted_total counter
karpenter_nodeclaims_disrupted_total{capacity_type="spot",nodepool="web",reason="underutilized"} 1
# HELP karpenter_nodeclaims_terminated_total NodeClaims that are gone for good.
# TYPE karpenter_nodeclaims_terminated_total counter
karpenter_nodeclaims_terminated_total{capacity_type="spot",nodepool="web",zone="us-west-2a"} 1
# HELP karpenter_pods_drained_total Pods that were evicted from nodes being removed, by the reason of the removal.
# TYPE karpenter_pods_drained_total counter
karpenter_pods_drained_total{reason="Underutilized"} 1
# HELP karpenter_voluntary_disruption_decisions_by_nodepool_total Disruption decisions that were carried out, by NodePool.
# TYPE karpenter_voluntary_disruption_decisions_by_nodepool_total counter
karpenter_voluntary_disruption_decisions_by_nodepool_total{consolidation_type="multi",decision="replace",nodepool="web",reason="underutilized"} 1
# HELP karpenter_interruption_received_messages_total Notices of the cloud that were read.
# TYPE karpenter_interruption_received_messages_total counter
karpenter_interruption_received_messages_total{message_type="spot_interrupted"} 1
`), "karpenter_nodeclaims_created_total", "karpenter_nodeclaims_disrupted_total", "karpenter_nodeclaims_terminated_total",
		"karpenter_pods_drained_total", "karpenter_voluntary_disruption_decisions_by_nodepool_total",
		"karpenter_interruption_received_messages_total")
	if err != nil {
		t.Error(err)
	}
}

// Counters without a registry, as in tests of single components, accept all calls.
func TestNobodyCounts(t *testing.T) {
	c := metrics.New(nil)
	c.ClaimCreated(claim(), "provisioned")
	c.ClaimTerminated(claim(), time.Time{})
	c.Commanded(metrics.Delete, "Empty", 1, "web")
	c.NoticeHandled(time.Second)
	c.PodDrained(nil)
}

// Denied calls have an error name of their own, so that alerts can select them.
func TestDeniedCallsAreCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	metrics.New(r).Call("aws", "Launch", time.Second, fmt.Errorf("create fleet: %w", cloud.ErrUnauthorized))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "karpenter_cloudprovider_errors_total" {
			continue
		}
		for _, label := range f.GetMetric()[0].GetLabel() {
			if label.GetName() == "error" && label.GetValue() == "UnauthorizedError" {
				return
			}
		}
	}
	t.Errorf("no error of that name: %v", families)
}

// If an object is deleted and created again while a watch is interrupted, the cache reports an update to an object
// with another UID: one object is gone, and another one is new.
func TestAnObjectThatIsCreatedAgainIsAnotherOne(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	at := clock.NewVirtual(now)
	r, cache := prometheus.NewRegistry(), &informertest.FakeInformers{}
	pods := metrics.NewPodTimes(r, at)
	if err := pods.Watch(t.Context(), cache); err != nil {
		t.Fatal(err)
	}
	if err := metrics.WatchConditions(t.Context(), r, cache, &snapshot{}, at); err != nil {
		t.Fatal(err)
	}
	informer, err := cache.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(uid types.UID, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "web-0", Namespace: "shop", UID: uid, CreationTimestamp: metav1.NewTime(now.Add(-10 * time.Second)),
			},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	informer.Add(pod("first", corev1.PodPending))
	informer.Update(pod("first", corev1.PodPending), pod("second", corev1.PodPending))
	informer.Update(pod("second", corev1.PodPending), pod("second", corev1.PodSucceeded))

	if informer, err = cache.FakeInformerFor(t.Context(), &corev1.Node{}); err != nil {
		t.Fatal(err)
	}
	node := func(uid types.UID, deleted *metav1.Time) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: uid, DeletionTimestamp: deleted},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			}}},
		}
	}
	deleted := metav1.NewTime(now.Add(-4 * time.Second))
	informer.Add(node("first", &deleted))
	informer.Update(node("first", &deleted), node("second", nil))

	if n := testutil.CollectAndCount(pods); n != 0 {
		t.Errorf("%d series of pods that wait, want none: one is gone and the other has ended", n)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ended, ready := uint64(0), 0.0
	for _, f := range families {
		switch f.GetName() {
		case "operator_node_termination_duration_seconds":
			ended = f.Metric[0].GetHistogram().GetSampleCount()
		case "operator_node_status_condition_transitions_total":
			ready = f.Metric[0].GetCounter().GetValue()
		}
	}
	if ended != 1 || ready != 2 {
		t.Errorf("%d Nodes ended and %v became Ready, want 1 and 2", ended, ready)
	}
}
