package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
)

// hung is how long the decision cycle may make no progress before the process counts as hung and its kubelet restarts
// it. A cycle begins at least every ten seconds; the longest ones measured take three minutes.
const hung = 5 * time.Minute

// health is the state that the servers report.
type health struct {
	clock    clock.Clock
	synced   atomic.Bool
	registry atomic.Pointer[prometheus.Registry]
	progress atomic.Pointer[time.Time] // when the decision cycle last began or ended; nil = this process does not lead
}

func (h *health) progressed() {
	now := h.clock.Now()
	h.progress.Store(&now)
}

// live returns why the process should be restarted, nil if it need not be.
func (h *health) live() error {
	if last := h.progress.Load(); last != nil {
		if since := h.clock.Now().Sub(*last); since > hung {
			return fmt.Errorf("the decision cycle has made no progress for %s", since.Round(time.Second))
		}
	}
	return nil
}

func (h *health) handle(mux *http.ServeMux, metrics, probes, profiling bool) {
	if metrics && profiling {
		mux.HandleFunc("/debug/pprof/", local(pprof.Index))
		mux.HandleFunc("/debug/pprof/profile", local(pprof.Profile))
		mux.HandleFunc("/debug/pprof/symbol", local(pprof.Symbol))
		mux.HandleFunc("/debug/pprof/trace", local(pprof.Trace))
	}
	if metrics {
		mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
			registry := h.registry.Load()
			if registry == nil {
				http.Error(w, "starting", http.StatusServiceUnavailable)
				return
			}
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
		})
	}
	if probes {
		mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
			if err := h.live(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok"))
		})
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
			if !h.synced.Load() {
				http.Error(w, "the cluster is not known yet", http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok"))
		})
	}
}

// local rejects callers outside this host or pod. A profile exposes memory and occupies a core, so unlike metrics it
// is not for everyone who can reach the port, but only for those who may forward it.
func local(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !from.Addr().Unmap().IsLoopback() {
			http.Error(w, "profiles are for callers on this machine: use kubectl port-forward", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// bodyWithin is how long the body of a request may take to arrive.
const bodyWithin = 10 * time.Second

// serve starts the metrics and health servers, a single server if they share an address.
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
		s := httpguard.NewServer(bodyWithin, mux)
		servers = append(servers, s)
		go func() { _ = s.Serve(listener) }()
	}
	return stop, nil
}
