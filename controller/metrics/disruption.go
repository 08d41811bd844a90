package metrics

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// Decision is the value of Karpenter's label decision.
type Decision string

// Decisions.
const (
	Delete  Decision = "delete"  // nodes are removed without replacements
	Replace Decision = "replace" // nodes are replaced before they are removed
)

type commandCounters struct {
	decisions, byPool, failures, invalid, timeouts *prometheus.CounterVec
	evaluation                                     *prometheus.HistogramVec
	undone                                         *prometheus.CounterVec
}

type interruptionCounters struct {
	received, deleted, unhealthy *prometheus.CounterVec
	waited                       *prometheus.HistogramVec
}

func newCommandCounters(m maker) commandCounters {
	const disruption = "karpenter_voluntary_disruption_"
	c := commandCounters{
		decisions: m.counter(disruption+"decisions_total", "Disruption decisions that were carried out.", "decision",
			"reason", "consolidation_type"),
		byPool: m.counter(disruption+"decisions_by_nodepool_total",
			"Disruption decisions that were carried out, by NodePool.", "nodepool", "decision", "reason", "consolidation_type"),
		failures: m.counter(disruption+"queue_failures_total", "Disruption decisions that were undone.", "decision",
			"reason", "consolidation_type"),
		invalid: m.counter(disruption+"failed_validations_total",
			"Nodes that were chosen for disruption but failed validation.", "consolidation_type"),
		timeouts: m.counter(disruption+"consolidation_timeouts_total",
			"Searches for consolidation that ran out of time.", "consolidation_type"),
		evaluation: m.histogram(disruption+"decision_evaluation_duration_seconds", "Time of one disruption decision.",
			durations(), "reason", "consolidation_type"),
		undone: m.counter("nodeless_commands_undone_total", "Disruption decisions that were undone, by why.",
			"reason", "why"),
	}
	// Searches are limited in steps, not in time: these stay 0.
	c.timeouts.WithLabelValues("single")
	c.timeouts.WithLabelValues("multi")
	return c
}

func newInterruptionCounters(m maker) interruptionCounters {
	const interruption = "karpenter_interruption_"
	return interruptionCounters{
		received: m.counter(interruption+"received_messages_total", "Notices of the cloud that were read.", "message_type"),
		deleted:  m.counter(interruption+"deleted_messages_total", "Notices of the cloud that were handled and removed."),
		unhealthy: m.counter(interruption+"instance_status_unhealthy_total",
			"Instances that fail the cloud's status checks.", "category"),
		waited: m.histogram(interruption+"message_queue_duration_seconds",
			"How long notices waited before they were handled.", durations()),
	}
}

// Launched measures one launch call to the cloud.
func (c *Counters) Launched(took time.Duration) {
	c.launch.Observe(took.Seconds())
}

// Exhausted counts an offering that the cloud had no capacity for.
func (c *Counters) Exhausted(capacityType string) {
	c.exhausted.WithLabelValues(capacityType).Inc()
}

// Eviction counts an eviction by the HTTP status of its response.
func (c *Counters) Eviction(code int) {
	c.nodes.evictions.WithLabelValues(strconv.Itoa(code)).Inc()
}

// PodDrained counts an evicted pod. The claim says why its node is removed; it may be nil.
func (c *Counters) PodDrained(claim *karpv1.NodeClaim) {
	reason := "Forceful Termination"
	if claim != nil {
		if why := conditions.Of(claim, karpv1.ConditionTypeDisruptionReason); why != nil && why.IsTrue() {
			reason = why.Reason
		}
	}
	c.nodes.pods.WithLabelValues(reason).Inc()
}

// Commanded counts a disruption decision that is carried out on nodes of these pools. method is the disruption
// method's name, such as Underutilized; nodes is the number of nodes removed.
func (c *Counters) Commanded(d Decision, method string, nodes int, pools ...string) {
	reason, kind := strings.ToLower(method), consolidationType(method, nodes)
	c.commands.decisions.WithLabelValues(string(d), reason, kind).Inc()
	for _, pool := range slices.Compact(slices.Sorted(slices.Values(pools))) {
		c.commands.byPool.WithLabelValues(pool, string(d), reason, kind).Inc()
	}
}

// Undone counts a disruption decision that was undone. why is a word or two, such as replacement_failed.
func (c *Counters) Undone(d Decision, method, why string) {
	reason := Snake(method)
	c.commands.failures.WithLabelValues(string(d), reason, string(d)).Inc()
	c.commands.undone.WithLabelValues(reason, why).Inc()
}

// NoLongerTrue counts nodes that a command was to remove and whose validation failed.
func (c *Counters) NoLongerTrue(method string, nodes int) {
	c.commands.invalid.WithLabelValues(consolidationType(method, nodes)).Add(float64(nodes))
}

// consolidationType returns the value of Karpenter's label for a method: empty, single, multi, or nothing.
func consolidationType(method string, nodes int) string {
	switch {
	case method == "Empty":
		return "empty"
	case method == "Underutilized" && nodes > 1:
		return "multi"
	case method == "Underutilized":
		return "single"
	}
	return ""
}

// NoticeReceived counts a notice from the cloud.
func (c *Counters) NoticeReceived(kind cloud.InterruptionKind) {
	c.interrupted.received.WithLabelValues(string(kind)).Inc()
}

// NoticeHandled counts a notice that was handled and removed, and measures the time since it was sent.
func (c *Counters) NoticeHandled(waited time.Duration) {
	c.interrupted.deleted.WithLabelValues().Inc()
	c.interrupted.waited.WithLabelValues().Observe(waited.Seconds())
}

// Evaluated measures a disruption decision.
func (c *Counters) Evaluated(took time.Duration) {
	c.commands.evaluation.WithLabelValues("", "").Observe(took.Seconds())
}

// InstanceUnhealthy counts an instance that fails the cloud's status checks, by category of the check.
func (c *Counters) InstanceUnhealthy(category string) {
	c.interrupted.unhealthy.WithLabelValues(category).Inc()
}
