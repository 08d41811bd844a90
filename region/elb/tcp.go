package elb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// discard returns a logger for ReverseProxy's messages, which are about copies that a client aborted.
func (d *DataPath) discard() *log.Logger { return slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug) }

// serveTCP serves a network load balancer's listener until ctx is done.
func (d *DataPath) serveTCP(ctx context.Context, l net.Listener, f *front) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = client.Close() }()
			d.pass(ctx, client, f)
		}()
	}
}

// pass connects a client to a healthy target. If there is none, it closes the connection, as NLB does.
func (d *DataPath) pass(ctx context.Context, client net.Conn, f *front) {
	r := f.routes.Load()
	if len(r.listener.DefaultActions) == 0 {
		return
	}
	p := d.pool(choose(r.listener.DefaultActions[0].Forwards()))
	if p == nil {
		return
	}
	from, _, _ := net.SplitHostPort(client.RemoteAddr().String())
	t, _ := p.take(binding{source: from})
	if t == nil {
		return
	}
	defer p.done(t)
	if reason := t.simulated(); reason != "" {
		explain(client, reason)
		return
	}
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	server, err := d.Dial(dialCtx, "tcp", t.address)
	cancel()
	if err != nil {
		return
	}
	closeBoth := func() { _ = client.Close(); _ = server.Close() }
	defer closeBoth()
	defer context.AfterFunc(ctx, closeBoth)()
	defer context.AfterFunc(t.ctx, closeBoth)() // its deregistration delay is over
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			if c, ok := way[0].(interface{ CloseWrite() error }); ok {
				_ = c.CloseWrite()
			} else {
				_ = way[0].Close()
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}

// explain tells a client that speaks HTTP why nothing answers.
func explain(client net.Conn, reason string) {
	_ = client.SetDeadline(time.Now().Add(2 * time.Second))
	first := make([]byte, 4096)
	n, err := client.Read(first)
	line, _, _ := bytes.Cut(first[:n], []byte("\r\n"))
	if err != nil || !bytes.Contains(line, []byte(" HTTP/1.")) {
		return
	}
	body := fmt.Sprintf("%d %s\n%s\n", http.StatusServiceUnavailable,
		http.StatusText(http.StatusServiceUnavailable), reason)
	_, _ = fmt.Fprintf(client, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}
