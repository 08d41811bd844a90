package lifecycle

import "github.com/prometheus/client_golang/prometheus"

// metrics carry Karpenter's names where Karpenter has one (karpenter.md §7.2).
type metrics struct {
	created, terminated, exhausted   *prometheus.CounterVec
	disrupted, evictions, interrupts *prometheus.CounterVec
	launch                           prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		created:    counter("karpenter_nodeclaims_created_total", "NodeClaims whose machine was launched.", "nodepool"),
		terminated: counter("karpenter_nodeclaims_terminated_total", "NodeClaims that are gone for good.", "nodepool"),
		disrupted:  counter("karpenter_nodeclaims_disrupted_total", "NodeClaims whose deletion was asked for by their lifecycle.", "reason", "nodepool"),
		evictions:  counter("karpenter_pods_eviction_requests_total", "Evictions asked for, by HTTP status.", "code"),
		interrupts: counter("karpenter_interruption_received_messages_total", "Notices of the cloud.", "message_type"),
		exhausted:  counter("nodeless_offerings_exhausted_total", "Offerings the cloud had no capacity for.", "capacity_type"),
		launch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nodeless_launch_duration_seconds", Help: "Time of one launch call to the cloud.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
	}
	if r != nil {
		r.MustRegister(m.created, m.terminated, m.disrupted, m.evictions, m.interrupts, m.exhausted, m.launch)
	}
	return m
}
