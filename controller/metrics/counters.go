// Package metrics provides metrics with the names, labels and types that dashboards for Karpenter expect; metrics
// that Karpenter lacks are under nodeless_*. Counters count events; a Cluster collects the current state at each
// scrape.
//
// Names, labels, help and buckets: sigs.k8s.io/karpenter v1.14.1 and karpenter-provider-aws v1.14.1
// (karpenter.sh/docs/reference/metrics).
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// Counters count events as they happen. All methods are safe for concurrent use.
type Counters struct {
	claims      claimCounters
	nodes       nodeCounters
	commands    commandCounters
	interrupted interruptionCounters
	cloud       cloudCounters
	records     recordCounters
	exhausted   *prometheus.CounterVec
	launch      prometheus.Observer
}

type claimCounters struct {
	created, terminated, disrupted, unhealthy *prometheus.CounterVec
	ended, instanceEnded                      *prometheus.HistogramVec
}

type nodeCounters struct {
	created, terminated, drained *prometheus.CounterVec
	evictions, pods              *prometheus.CounterVec
	ended                        *prometheus.SummaryVec
	lifetime                     *prometheus.HistogramVec
}

// New returns the counters of one process, registered with r; nil = they are not registered.
func New(r prometheus.Registerer) *Counters {
	m := maker{r}
	return &Counters{
		claims: newClaimCounters(m), nodes: newNodeCounters(m), commands: newCommandCounters(m),
		interrupted: newInterruptionCounters(m),
		cloud:       newCloudCounters(m),
		records:     newRecordCounters(m),
		exhausted: m.counter("nodeless_offerings_exhausted_total", "Offerings the cloud had no capacity for.",
			"capacity_type"),
		launch: m.histogram("nodeless_launch_duration_seconds", "Time of one launch call to the cloud.",
			prometheus.ExponentialBuckets(0.005, 2, 14)).WithLabelValues(),
	}
}

func newClaimCounters(m maker) claimCounters {
	return claimCounters{
		created: m.counter("karpenter_nodeclaims_created_total",
			"NodeClaims that were made for pods, for static pools or to replace others.", "reason", "nodepool",
			"min_values_relaxed"),
		terminated: m.counter("karpenter_nodeclaims_terminated_total", "NodeClaims that are gone for good.",
			"nodepool", "capacity_type", "zone"),
		disrupted: m.counter("karpenter_nodeclaims_disrupted_total",
			"NodeClaims whose deletion Nodeless asked for, by reason.", "reason", "nodepool", "capacity_type"),
		unhealthy: m.counter("karpenter_nodeclaims_unhealthy_disrupted_total",
			"NodeClaims given up because a condition of their Node was bad for too long.", "condition", "nodepool",
			"capacity_type", "image_id"),
		ended: m.histogram("karpenter_nodeclaims_termination_duration_seconds",
			"From the deletion of a NodeClaim until it is gone.", prometheus.ExponentialBuckets(1, 2, 12), "nodepool"),
		instanceEnded: m.histogram("karpenter_nodeclaims_instance_termination_duration_seconds",
			"From the request to terminate an instance until it is gone.", prometheus.ExponentialBuckets(1, 2, 11), "nodepool"),
	}
}

func newNodeCounters(m maker) nodeCounters {
	return nodeCounters{
		created:    m.counter("karpenter_nodes_created_total", "Nodes that were registered.", "nodepool", "zone"),
		terminated: m.counter("karpenter_nodes_terminated_total", "Nodes that are gone for good.", "nodepool", "zone"),
		drained:    m.counter("karpenter_nodes_drained_total", "Nodes that were drained.", "nodepool"),
		evictions:  m.counter("karpenter_pods_eviction_requests_total", "Evictions asked for, by HTTP status.", "code"),
		pods: m.counter("karpenter_pods_drained_total",
			"Pods that were evicted from nodes being removed, by the reason of the removal.", "reason"),
		ended: m.summary("karpenter_nodes_termination_duration_seconds",
			"From the deletion of a Node until it is gone.", "nodepool"),
		lifetime: m.histogram("karpenter_nodes_lifetime_duration_seconds", "How old Nodes became.", lifetimes(),
			"nodepool"),
	}
}

// ClaimCreated counts a NodeClaim that was created. Karpenter's reasons are provisioned and the disruption methods in
// lower case.
func (c *Counters) ClaimCreated(claim *karpv1.NodeClaim, reason string) {
	relaxed := claim.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey]
	if relaxed != "true" {
		relaxed = "false"
	}
	c.claims.created.WithLabelValues(reason, claim.Labels[karpv1.NodePoolLabelKey], relaxed).Inc()
}

// ClaimDisrupted counts a NodeClaim whose deletion was requested; reason is in snake case.
func (c *Counters) ClaimDisrupted(claim *karpv1.NodeClaim, reason string) {
	c.claims.disrupted.WithLabelValues(reason, claim.Labels[karpv1.NodePoolLabelKey],
		claim.Labels[karpv1.CapacityTypeLabelKey]).Inc()
}

// ClaimUnhealthy counts a NodeClaim that node repair gives up for a Node condition, in addition to ClaimDisrupted.
func (c *Counters) ClaimUnhealthy(claim *karpv1.NodeClaim, condition string) {
	c.claims.unhealthy.WithLabelValues(Snake(condition), claim.Labels[karpv1.NodePoolLabelKey],
		claim.Labels[karpv1.CapacityTypeLabelKey], claim.Status.ImageID).Inc()
}

// ClaimTerminated counts a NodeClaim that is gone. Its conditions say when the termination of its instance began.
func (c *Counters) ClaimTerminated(claim *karpv1.NodeClaim, now time.Time) {
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	c.claims.terminated.WithLabelValues(pool, claim.Labels[karpv1.CapacityTypeLabelKey],
		claim.Labels[corev1.LabelTopologyZone]).Inc()
	if claim.DeletionTimestamp != nil {
		c.claims.ended.WithLabelValues(pool).Observe(now.Sub(claim.DeletionTimestamp.Time).Seconds())
	}
	if at := conditions.Of(claim, karpv1.ConditionTypeInstanceTerminating); at != nil && at.IsTrue() {
		c.claims.instanceEnded.WithLabelValues(pool).Observe(now.Sub(at.LastTransitionTime.Time).Seconds())
	}
}

// NodeCreated counts a Node that was registered.
func (c *Counters) NodeCreated(node *corev1.Node) {
	c.nodes.created.WithLabelValues(node.Labels[karpv1.NodePoolLabelKey], node.Labels[corev1.LabelTopologyZone]).Inc()
}

// NodeDrained counts a Node that has been drained, once for each Node.
func (c *Counters) NodeDrained(node *corev1.Node) {
	c.nodes.drained.WithLabelValues(node.Labels[karpv1.NodePoolLabelKey]).Inc()
}

// NodeTerminated counts a Node that is gone.
func (c *Counters) NodeTerminated(node *corev1.Node, now time.Time) {
	pool := node.Labels[karpv1.NodePoolLabelKey]
	c.nodes.terminated.WithLabelValues(pool, node.Labels[corev1.LabelTopologyZone]).Inc()
	c.nodes.lifetime.WithLabelValues(pool).Observe(now.Sub(node.CreationTimestamp.Time).Seconds())
	if node.DeletionTimestamp != nil {
		c.nodes.ended.WithLabelValues(pool).Observe(now.Sub(node.DeletionTimestamp.Time).Seconds())
	}
}

type recordCounters struct{ written, dropped, damaged, writes *prometheus.CounterVec }

func newRecordCounters(m maker) recordCounters {
	return recordCounters{
		written: m.counter("nodeless_decision_entries_written_total",
			"Decisions and outcomes of decisions that were written into the cluster."),
		dropped: m.counter("nodeless_decision_entries_dropped_total",
			"Cycles, decisions and outcomes that were dropped because they came faster than they could be written."),
		damaged: m.counter("nodeless_decision_pieces_damaged_total",
			"Pieces of the decision log that could not be read and were skipped."),
		writes: m.counter("nodeless_decision_writes_total",
			"Calls that write the decision log: done, moved (somebody else had written) or failed.", "result"),
	}
}

// RecordsWritten counts entries written to the log of decisions.
func (c *Counters) RecordsWritten(entries int) {
	c.records.written.WithLabelValues().Add(float64(entries))
}

// RecordsDropped counts cycles and entries that were dropped.
func (c *Counters) RecordsDropped(n int) {
	c.records.dropped.WithLabelValues().Add(float64(n))
}

// RecordDamaged counts a piece of the log that could not be read.
func (c *Counters) RecordDamaged() {
	c.records.damaged.WithLabelValues().Inc()
}

// RecordWrite counts a call that writes the log, by its result: done, moved or failed.
func (c *Counters) RecordWrite(result string) {
	c.records.writes.WithLabelValues(result).Inc()
}
