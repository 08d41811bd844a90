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
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
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
