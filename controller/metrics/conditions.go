package metrics

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/informer"
)

// kind is a kind of objects whose conditions have metrics, operator_<name>_….
type kind struct {
	name   string
	object client.Object
	extra  []string // labels of the object that become labels of its metrics
}

// kinds returns the kinds for which Karpenter and its AWS provider have such metrics.
func kinds() []kind {
	class := ec2v1.LabelNodeClass
	return []kind{
		{"nodeclaim", &karpv1.NodeClaim{}, []string{class, karpv1.NodePoolLabelKey}},
		{"node", &corev1.Node{}, []string{class, karpv1.NodePoolLabelKey, karpv1.NodeInitializedLabelKey}},
		{"nodepool", &karpv1.NodePool{}, nil},
		{"ec2nodeclass", &ec2v1.EC2NodeClass{}, nil},
	}
}

// labels appends the metric names of the extra labels.
func (k kind) labels(others ...string) []string {
	for _, key := range k.extra {
		others = append(others, strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(key))
	}
	return others
}

// values appends an object's values of the extra labels.
func (k kind) values(o client.Object, others ...string) []string {
	for _, key := range k.extra {
		others = append(others, o.GetLabels()[key])
	}
	return others
}

// state is a condition of an object of any kind.
type state struct {
	kind, status, reason string
	since                time.Time
}

func states(o client.Object) []state {
	var out []state
	switch o := o.(type) {
	case *corev1.Node:
		for _, c := range o.Status.Conditions {
			out = append(out, state{string(c.Type), string(c.Status), c.Reason, c.LastTransitionTime.Time})
		}
	case interface{ GetConditions() []status.Condition }:
		for _, c := range o.GetConditions() {
			out = append(out, state{c.Type, string(c.Status), c.Reason, c.LastTransitionTime.Time})
		}
	}
	return out
}

// conditions collects the conditions of all objects.
func (v *view) conditions(ch chan<- prometheus.Metric) {
	for _, k := range kinds() {
		prefix := "operator_" + k.name
		labels := k.labels("namespace", "name", "type", "status", "reason")
		count := newGauge(prefix+"_status_condition_count", "1 for each condition of an object, with its status.", labels...)
		seconds := newGauge(prefix+"_status_condition_current_status_seconds", "How long a condition has had its status.",
			labels...)
		ending := newGauge(prefix+"_termination_current_time_seconds", "How long ago an object's deletion was asked for.",
			k.labels("namespace", "name")...)
		for o := range v.objects(k) {
			for _, s := range states(o) {
				values := k.values(o, o.GetNamespace(), o.GetName(), s.kind, s.status, s.reason)
				count.put(ch, 1, values...)
				seconds.put(ch, v.now.Sub(s.since).Seconds(), values...)
			}
			if at := o.GetDeletionTimestamp(); at != nil {
				ending.put(ch, v.now.Sub(at.Time).Seconds(), k.values(o, o.GetNamespace(), o.GetName())...)
			}
		}
	}
}

// objects iterates over the objects of a kind.
func (v *view) objects(k kind) iter.Seq[client.Object] {
	switch k.object.(type) {
	case *karpv1.NodeClaim:
		return each[*karpv1.NodeClaim](v.claims.Items)
	case *corev1.Node:
		return each[*corev1.Node](v.nodeList.Items)
	case *karpv1.NodePool:
		return each[*karpv1.NodePool](v.poolList.Items)
	default:
		return each[*ec2v1.EC2NodeClass](v.classes.Items)
	}
}

func each[P interface {
	*T
	client.Object
}, T any](items []T) iter.Seq[client.Object] {
	return func(yield func(client.Object) bool) {
		for i := range items {
			if !yield(P(&items[i])) {
				return
			}
		}
	}
}

// transitions measures changes of the conditions of a kind, and the deletion of its objects.
type transitions struct {
	kind
	state  State
	clock  clock.Clock
	total  *prometheus.CounterVec
	lasted *prometheus.HistogramVec
	ended  *prometheus.HistogramVec
}

// WatchConditions counts changes of conditions from now on. Existing conditions count as changed once, as in
// Karpenter. Objects of another controller do not count. The handlers stay on the cache.
func WatchConditions(ctx context.Context, r prometheus.Registerer, from cache.Cache, s State, c clock.Clock) error {
	m := maker{r}
	for _, k := range kinds() {
		buckets := prometheus.ExponentialBuckets(0.5, 2, 15)
		if k.name == "ec2nodeclass" {
			buckets = prometheus.DefBuckets
		}
		prefix := "operator_" + k.name
		t := &transitions{
			kind: k, state: s, clock: c,
			total: m.counter(prefix+"_status_condition_transitions_total", "Changes of conditions' status.",
				k.labels("type", "status", "reason")...),
			lasted: m.histogram(prefix+"_status_condition_transition_seconds",
				"How long a condition had a status before it changed.", buckets, k.labels("type", "status")...),
			ended: m.histogram(prefix+"_termination_duration_seconds", "From the deletion of an object until it is gone.",
				buckets, k.labels()...),
		}
		if err := informer.Watch(ctx, from, k.object, t.changed); err != nil {
			return err
		}
	}
	return nil
}

// replaced reports whether an update is of an object that was deleted and created again under its name while the
// watch was interrupted.
func replaced(old, now client.Object) bool {
	return old != nil && now != nil && old.GetUID() != now.GetUID()
}

func (t *transitions) changed(old, now client.Object) {
	if replaced(old, now) {
		t.changed(old, nil)
		old = nil
	}
	if !manages(t.state, cmp.Or(now, old)) {
		return
	}
	if now == nil {
		if at := old.GetDeletionTimestamp(); at != nil {
			t.ended.WithLabelValues(t.values(old)...).Observe(max(t.clock.Now().Sub(at.Time), 0).Seconds())
		}
		return
	}
	var before []state
	if old != nil {
		before = states(old)
	}
	for _, s := range states(now) {
		i := slices.IndexFunc(before, func(b state) bool { return b.kind == s.kind })
		if i >= 0 && before[i].status == s.status {
			continue
		}
		t.total.WithLabelValues(t.values(now, s.kind, s.status, s.reason)...).Inc()
		if i >= 0 {
			t.lasted.WithLabelValues(t.values(now, s.kind, before[i].status)...).Observe(max(s.since.Sub(before[i].since),
				0).Seconds())
		}
	}
}
