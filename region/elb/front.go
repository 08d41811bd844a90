package elb

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/region"
)

// Limits of a listener. ALB's quotas: 64 KiB of headers (Troubleshoot your Application Load Balancers).
const (
	maxConnections = 4096
	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 1 << 30
	clientIdle     = 60 * time.Second
	dialTimeout    = 10 * time.Second // ALB's connection timeout
)

// front is an open listener of a load balancer.
type front struct {
	name     string // DNS name of its load balancer
	port     int    // of the listener in the region; the actual port may differ
	listener net.Listener
	handler  http.Handler // nil for TCP
	routes   atomic.Pointer[routes]
	close    func()
}

// routes defines where requests go.
type routes struct {
	listener region.Listener
	rules    []region.ListenerRule // by priority
	idle     time.Duration         // how long a target may take to answer
}

// at returns the address that a front listens on.
func (f *front) at() netip.AddrPort {
	return netip.MustParseAddrPort(f.listener.Addr().String())
}

// open opens a listener. The caller holds d.mu.
func (d *DataPath) open(b region.LoadBalancer, l region.Listener) (*front, error) {
	listener, err := d.listen(b, l.Port)
	if err != nil {
		return nil, err
	}
	f := &front{name: strings.ToLower(b.DNSName), port: l.Port, listener: listener}
	f.routes.Store(&routes{listener: l})
	limited := netutil.LimitListener(listener, maxConnections)
	if b.Type == region.Network {
		ctx, cancel := context.WithCancel(d.ctx)
		f.close = func() { cancel(); _ = listener.Close() }
		go d.serveTCP(ctx, limited, f)
		return f, nil
	}
	f.handler = d.handler(f)
	f.close = serveHTTP(limited, f.handler, d.Log)
	d.openNames(int(f.at().Port()))
	return f, nil
}

// serveHTTP serves a listener until the returned function is called.
func serveHTTP(l net.Listener, h http.Handler, log *slog.Logger) (stop func()) {
	s := httpguard.NewServer(clientIdle, httpguard.ReadSteadily(clientIdle, h))
	s.IdleTimeout, s.MaxHeaderBytes = clientIdle, maxHeaderBytes
	s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	go func() { _ = s.Serve(l) }()
	return func() { _ = s.Close() }
}

// nameFront serves the HTTP listeners of all load balancers on one port of 127.0.0.1, by the name in the Host header.
type nameFront struct{ close func() }

// openNames makes DNS names lead to the listeners on a port. If another process has the port on 127.0.0.1, names do
// not work and Address omits them. The caller holds d.mu.
func (d *DataPath) openNames(port int) {
	if d.names[port] != nil {
		return
	}
	listener, err := (&net.ListenConfig{}).Listen(d.ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		d.Log.Info("cannot serve the DNS names of load balancers", "port", port, "error", err)
		return
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if f := d.frontNamed(nameOf(req.Host), port); f != nil {
			f.handler.ServeHTTP(w, req)
			return
		}
		refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("no load balancer is called %q; on this port there are: %s",
			nameOf(req.Host), strings.Join(d.namesOn(port), ", ")))
	})
	d.names[port] = &nameFront{close: serveHTTP(netutil.LimitListener(listener, maxConnections), h, d.Log)}
}

// refuse responds as the load balancer itself, with the reason as text.
func refuse(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Server", "awselb/2.0")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%d %s\n%s\n", status, http.StatusText(status), reason)
}
