package metrics

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// Decision is what a disruption decision does: Karpenter's words for the label decision.
type Decision string

// Decisions.
const (
	Delete  Decision = "delete"  // the machines go and nothing comes
	Replace Decision = "replace" // others come first
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
			"Machines that were to go and no longer may when it came to it.", "consolidation_type"),
		timeouts: m.counter(disruption+"consolidation_timeouts_total",
			"Searches for consolidation that ran out of time.", "consolidation_type"),
		evaluation: m.histogram(disruption+"decision_evaluation_duration_seconds", "Time of one disruption decision.",
			durations(), "reason", "consolidation_type"),
		undone: m.counter("nodeless_commands_undone_total", "Disruption decisions that were undone, by why.",
			"reason", "why"),
	}
	// Searches here end by their number of steps, never by the clock: this stays 0.
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
			"Machines of which the cloud's status checks say that they are bad.", "category"),
		waited: m.histogram(interruption+"message_queue_duration_seconds",
			"How long notices waited before they were handled.", durations()),
	}
}

// Launched measures one launch call to the cloud.
func (c *Counters) Launched(took time.Duration) {
	if c != nil {
		c.launch.Observe(took.Seconds())
	}
}

// Exhausted counts an offering that the cloud had no capacity for.
func (c *Counters) Exhausted(capacityType string) {
	if c != nil {
		c.exhausted.WithLabelValues(capacityType).Inc()
	}
}

// Eviction counts an eviction by the HTTP status it was answered with.
func (c *Counters) Eviction(code int) {
	if c != nil {
		c.nodes.evictions.WithLabelValues(strconv.Itoa(code)).Inc()
	}
}

// PodDrained counts a pod that was evicted. claim says why its machine goes; it may be nil.
func (c *Counters) PodDrained(claim *karpv1.NodeClaim) {
	if c == nil {
		return
	}
	reason := "Forceful Termination"
	if claim != nil {
		for _, condition := range claim.Status.Conditions {
			if condition.Type == karpv1.ConditionTypeDisruptionReason && condition.Status == "True" {
				reason = condition.Reason
			}
		}
	}
	c.nodes.pods.WithLabelValues(reason).Inc()
}

// Commanded counts a disruption decision that is carried out, on machines of these pools. method is the disruption
// method's name, such as Underutilized; nodes is how many machines go.
func (c *Counters) Commanded(d Decision, method string, nodes int, pools ...string) {
	if c == nil {
		return
	}
	reason, kind := strings.ToLower(method), consolidationType(method, nodes)
	c.commands.decisions.WithLabelValues(string(d), reason, kind).Inc()
	for _, pool := range slices.Compact(slices.Sorted(slices.Values(pools))) {
		c.commands.byPool.WithLabelValues(pool, string(d), reason, kind).Inc()
	}
}

// Undone counts a disruption decision that was undone. why is a word or two, such as replacement_failed.
func (c *Counters) Undone(d Decision, method, why string) {
	if c == nil {
		return
	}
	reason := Snake(method)
	c.commands.failures.WithLabelValues(string(d), reason, string(d)).Inc()
	c.commands.undone.WithLabelValues(reason, why).Inc()
}

// NoLongerTrue counts machines that were to go and may not when it comes to it.
func (c *Counters) NoLongerTrue(method string, nodes int) {
	if c != nil {
		c.commands.invalid.WithLabelValues(consolidationType(method, nodes)).Add(float64(nodes))
	}
}

// consolidationType is Karpenter's label of a method: empty, single, multi, or nothing.
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

// NoticeReceived counts a notice of the cloud.
func (c *Counters) NoticeReceived(kind cloud.InterruptionKind) {
	if c != nil {
		c.interrupted.received.WithLabelValues(string(kind)).Inc()
	}
}

// NoticeHandled counts a notice that was acted on and removed, waited after it was given.
func (c *Counters) NoticeHandled(waited time.Duration) {
	if c == nil {
		return
	}
	c.interrupted.deleted.WithLabelValues().Inc()
	c.interrupted.waited.WithLabelValues().Observe(waited.Seconds())
}

// Evaluated measures a disruption decision.
func (c *Counters) Evaluated(took time.Duration) {
	if c != nil {
		c.commands.evaluation.WithLabelValues("", "").Observe(took.Seconds())
	}
}

// MachineUnhealthy counts a machine of which the cloud's status checks say that it is bad, by category of the check.
func (c *Counters) MachineUnhealthy(category string) {
	if c != nil {
		c.interrupted.unhealthy.WithLabelValues(category).Inc()
	}
}
