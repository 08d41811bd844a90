package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nodeless/nodeless/internal/loop"
)

// health is what the servers tell.
type health struct {
	synced   atomic.Bool
	registry atomic.Pointer[prometheus.Registry]
}

func (h *health) handle(mux *http.ServeMux, metrics, probes, profiling bool) {
	if metrics && profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	if metrics {
		mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
			registry := h.registry.Load()
			if registry == nil {
				http.Error(w, "starting", http.StatusServiceUnavailable)
				return
			}
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
		})
	}
	if probes {
		mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
			if !h.synced.Load() {
				http.Error(w, "the cluster is not known yet", http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok"))
		})
	}
}

// serve opens the metrics and health servers, one if they share an address.
func serve(o Options, h *health) (stop func(), err error) {
	var servers []*http.Server
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, s := range servers {
			_ = s.Shutdown(ctx)
		}
	}
	addresses := map[string][2]bool{}
	if o.MetricsAddress != "" {
		addresses[o.MetricsAddress] = [2]bool{true, o.MetricsAddress == o.HealthAddress}
	}
	if o.HealthAddress != "" && o.HealthAddress != o.MetricsAddress {
		addresses[o.HealthAddress] = [2]bool{false, true}
	}
	for address, what := range addresses {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		if err != nil {
			stop()
			return nil, fmt.Errorf("controller: serve metrics and health on %s: %w; choose another address", address, err)
		}
		mux := http.NewServeMux()
		h.handle(mux, what[0], what[1], o.Profiling)
		s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		servers = append(servers, s)
		go func() { _ = s.Serve(listener) }()
	}
	return stop, nil
}

// loopMetrics are the loop's.
type loopMetrics struct {
	duration prometheus.Histogram
	pending  prometheus.Gauge
	nodes    prometheus.Gauge
	bad      prometheus.Counter
	unproven prometheus.Counter
	launches prometheus.Counter
	removals prometheus.Counter
}

func newLoopMetrics(r prometheus.Registerer) *loopMetrics {
	m := &loopMetrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_scheduler_scheduling_duration_seconds", Help: "Time from a snapshot to its plan.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}),
		pending:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "karpenter_scheduler_queue_depth", Help: "Pods that wait for a place."}),
		nodes:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "karpenter_cluster_state_node_count", Help: "Machines, those on their way included."}),
		bad:      prometheus.NewCounter(prometheus.CounterOpts{Name: "nodeless_plans_refused_total", Help: "Plans that failed the check and were not carried out."}),
		unproven: prometheus.NewCounter(prometheus.CounterOpts{Name: "nodeless_plans_unproven_total", Help: "Plans that were carried out although the check found no order in which their pods can be bound: there were too many to try all."}),
		launches: prometheus.NewCounter(prometheus.CounterOpts{Name: "nodeless_planned_launches_total", Help: "NodeClaims created by plans."}),
		removals: prometheus.NewCounter(prometheus.CounterOpts{Name: "nodeless_planned_removals_total", Help: "NodeClaims deleted by plans."}),
	}
	r.MustRegister(m.duration, m.pending, m.nodes, m.bad, m.unproven, m.launches, m.removals)
	return m
}

func (m *loopMetrics) observe(d loop.Decision) {
	m.duration.Observe(d.Took.Seconds())
	m.pending.Set(float64(d.Pending))
	m.nodes.Set(float64(d.Nodes))
	if len(d.Bad) > 0 {
		m.bad.Inc()
	}
	if len(d.Unproven) > 0 {
		m.unproven.Inc()
	}
	m.launches.Add(float64(len(d.Result.Created)))
	m.removals.Add(float64(len(d.Result.Removed)))
}
