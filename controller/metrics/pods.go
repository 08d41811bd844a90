package metrics

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/informer"
)

// PodTimes measures how long pods wait: for a decision, for a node, and until they are ready. It tracks a pod from
// when it is first seen Pending until it is ready, terminal or gone.
type PodTimes struct {
	clock clock.Clock

	startup                  *prometheus.SummaryVec
	bound, decision          *prometheus.HistogramVec
	plannedBound, plannedRun *prometheus.HistogramVec

	mu    sync.Mutex // guards all below
	known map[types.UID]*podTimes
}

// podTimes are the times of one pod; zero = not yet.
type podTimes struct {
	name, namespace          string
	created                  time.Time
	waits, decided, schedule time.Time // first seen waiting, first decided about, first placed
	bound                    bool
}

var (
	unstarted = newGauge("karpenter_pods_unstarted_time_seconds", "How long a pod that is not ready exists.",
		"name", "namespace")
	unbound = newGauge("karpenter_pods_unbound_time_seconds", "How long a pod that has no node exists.",
		"name", "namespace")
	plannedUnstarted = newGauge("karpenter_pods_provisioning_unstarted_time_seconds",
		"How long ago a plan first gave a node to a pod that is not ready.", "name", "namespace")
	plannedUnbound = newGauge("karpenter_pods_provisioning_unbound_time_seconds",
		"How long ago a plan first gave a node to a pod that is not bound.", "name", "namespace")
	undecided = newGauge("karpenter_pods_provisioning_scheduling_undecided_time_seconds",
		"How long a pod has waited for its first decision.", "name", "namespace")
)

// NewPodTimes returns PodTimes whose metrics are registered with r.
func NewPodTimes(r prometheus.Registerer, c clock.Clock) *PodTimes {
	m := maker{r}
	return made(m, &PodTimes{
		clock: c, known: map[types.UID]*podTimes{},
		startup: m.summary("karpenter_pods_startup_duration_seconds", "From a pod's creation until it is ready."),
		bound: m.histogram("karpenter_pods_bound_duration_seconds", "From a pod's creation until it is bound.",
			durations()),
		decision: m.histogram("karpenter_pods_scheduling_decision_duration_seconds",
			"From when a pod is first seen to be pending until the first decision about it.", durations()),
		plannedBound: m.histogram("karpenter_pods_provisioning_bound_duration_seconds",
			"From when a plan first gives a pod a node until the pod is bound.", durations()),
		plannedRun: m.histogram("karpenter_pods_provisioning_startup_duration_seconds",
			"From when a plan first gives a pod a node until the pod is ready.", durations()),
	})
}

// Watch measures the pods of a cache from now on.
func (p *PodTimes) Watch(ctx context.Context, from cache.Cache) error {
	return informer.Watch(ctx, from, &corev1.Pod{}, func(old, now client.Object) {
		if now == nil || replaced(old, now) {
			p.Gone(old.(*corev1.Pod))
		}
		if now != nil {
			p.Saw(now.(*corev1.Pod))
		}
	})
}

// Saw records the state of a pod.
func (p *PodTimes) Saw(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.known[pod.UID]
	if t == nil {
		if pod.Status.Phase != corev1.PodPending {
			return
		}
		t = &podTimes{name: pod.Name, namespace: pod.Namespace, created: pod.CreationTimestamp.Time}
		p.known[pod.UID] = t
	}
	read := translate.ReadPod(pod)
	if read.Waiting && t.waits.IsZero() {
		t.waits = p.clock.Now()
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && !t.bound {
		t.bound = true
		p.observe(p.bound, c, t.created)
		p.observe(p.plannedBound, c, t.schedule)
	}
	if c := condition(pod, corev1.PodReady); c != nil && pod.Status.Phase != corev1.PodPending {
		p.startup.WithLabelValues().Observe(c.LastTransitionTime.Sub(t.created).Seconds())
		p.observe(p.plannedRun, c, t.schedule)
		delete(p.known, pod.UID)
	}
	if read.Terminal {
		delete(p.known, pod.UID)
	}
}

// observe measures the time until a condition became true. Conditions have whole seconds, so the difference may be
// negative.
func (p *PodTimes) observe(into *prometheus.HistogramVec, c *corev1.PodCondition, since time.Time) {
	if !since.IsZero() {
		into.WithLabelValues().Observe(max(c.LastTransitionTime.Sub(since), 0).Seconds())
	}
}

// Gone records that a pod is gone.
func (p *PodTimes) Gone(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, pod.UID)
}

// Decided records a plan for the pending pods.
func (p *PodTimes) Decided(plan *model.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for i := range plan.Placements {
		p.decided(plan.Placements[i].Pod, now, true)
	}
	for i := range plan.Launches {
		for _, pod := range plan.Launches[i].Pods {
			p.decided(pod, now, true)
		}
	}
	for i := range plan.Unplaced {
		p.decided(plan.Unplaced[i].Pod, now, false)
	}
}

func (p *PodTimes) decided(pod model.PodKey, now time.Time, placed bool) {
	t := p.known[types.UID(pod.UID)]
	if t == nil {
		return
	}
	if t.decided.IsZero() {
		t.decided = now
		if !t.waits.IsZero() {
			p.decision.WithLabelValues().Observe(now.Sub(t.waits).Seconds())
		}
	}
	if placed && t.schedule.IsZero() {
		t.schedule = now
	}
}

// Describe sends nothing: the series depend on the pods.
func (p *PodTimes) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of pods that are not ready yet.
func (p *PodTimes) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for _, t := range p.known {
		put := func(g gauge, since time.Time) {
			if !since.IsZero() {
				g.put(ch, now.Sub(since).Seconds(), t.name, t.namespace)
			}
		}
		put(unstarted, t.created)
		put(plannedUnstarted, t.schedule)
		if !t.bound {
			put(unbound, t.created)
			put(plannedUnbound, t.schedule)
			if t.decided.IsZero() {
				put(undecided, t.waits)
			}
		}
	}
}

var podState = newGauge("karpenter_pods_state", "1 for each pod, with what it is and where it runs.",
	"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type",
	"phase", "ready", "managed")

func (v *view) pods(ch chan<- prometheus.Metric) {
	for i := range v.podList.Items {
		pod := &v.podList.Items[i]
		on, managed := map[string]string{}, false
		if node := v.nodes[pod.Spec.NodeName]; node != nil {
			on, managed = node.Labels, v.managesNode(node)
		}
		podState.put(ch, 1,
			pod.Name, pod.Namespace, ownerOf(pod), pod.Spec.NodeName, strconv.FormatBool(pod.Spec.NodeName != ""),
			on[karpv1.NodePoolLabelKey],
			on[corev1.LabelTopologyZone], on[corev1.LabelArchStable], on[karpv1.CapacityTypeLabelKey],
			on[corev1.LabelInstanceTypeStable],
			string(pod.Status.Phase), strconv.FormatBool(condition(pod, corev1.PodReady) != nil), strconv.FormatBool(managed))
	}
}

// ownerOf returns the path of a pod's first owner, as Karpenter writes it.
func ownerOf(pod *corev1.Pod) string {
	if len(pod.OwnerReferences) == 0 {
		return ""
	}
	o := &pod.OwnerReferences[0]
	return fmt.Sprintf("/apis/%s/namespaces/%s/%ss/%s", o.APIVersion, pod.Namespace, strings.ToLower(o.Kind), o.Name)
}

// condition returns a condition of a pod if it is True, else nil.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	if c := conditions.OfPod(pod, kind); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}
