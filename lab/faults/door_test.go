package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nodeless/nodeless/lab/apisim"
)

var (
	errDead = errors.New("the process is dead")
	errNet  = errors.New("connection reset by peer")
)

// door is the transport for the calls of one life, which may fail in it.
type door struct {
	in   *injector
	life *life
	kind callKind
	next http.RoundTripper
}

// RoundTrip forwards a call, or makes it fail.
func (d *door) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := read(req)
	if err != nil {
		return nil, err
	}
	if d.kind == kubernetesCall && strings.Contains(req.URL.Path, "/events") {
		return d.pass(req, body)
	}
	what := string(d.kind) + " " + name(d.kind, req, body)
	write := req.Method != http.MethodGet
	n, crash, f, dead := d.in.verdict(d.life, d.kind, what, write)
	switch {
	case dead:
		return nil, errDead
	case crash:
		how := "before"
		if d.in.chance("crash", n)%2 == 0 {
			how = "after"
			_, _ = d.pass(req, body)
		}
		d.in.kill(d.life, n, what, how)
		return nil, errDead
	}
	switch f.kind {
	case "error":
		return d.refuse(req, http.StatusInternalServerError), nil
	case "throttled":
		return d.refuse(req, http.StatusTooManyRequests), nil
	case "conflict":
		d.in.touch(req.URL.Path)
	case "slow":
		if err := wait(req.Context(), f.delay); err != nil {
			if d.in.chance("late", n)%2 == 0 { // the request was already sent, and arrives after its sender has given up
				_, _ = d.pass(req.WithContext(context.WithoutCancel(req.Context())), body)
			}
			return nil, err
		}
	case "lost":
		_, err := d.pass(req, body)
		return nil, errors.Join(errNet, err)
	case "unreachable":
		return nil, errors.Join(errNet, wait(req.Context(), f.delay))
	}
	resp, err := d.pass(req, body)
	if err != nil {
		return nil, err
	}
	if req.URL.Query().Get("watch") != "" && resp.StatusCode == http.StatusOK {
		resp.Body = d.listen(resp.Body, req.Context(), what)
	}
	return resp, nil
}

func (d *door) pass(req *http.Request, body []byte) (*http.Response, error) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	if d.kind == kubernetesCall && req.URL.Query().Get("resourceVersion") == "0" {
		req.Header.Set(apisim.HeaderStale, fmt.Sprint(d.in.chance("stale", req.URL.Path)%20))
	}
	return d.next.RoundTrip(req)
}

func read(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer func() { _ = req.Body.Close() }()
	return io.ReadAll(req.Body)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
