package elb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// firstChecks is the interval of the first checks of a new target, which goes into service after the first that
// passes. They fail while its server is starting.
const firstChecks = time.Second

// check checks the health of a target until the target is gone.
func (d *DataPath) check(t *target) {
	var passed, failed int
	registered := d.Clock.Now()
	for t.ctx.Err() == nil {
		h := t.pool.healthCheck()
		interval := time.Duration(h.HealthCheckIntervalSeconds) * time.Second
		pretends := d.pretence(t.address)
		var problem *region.TargetHealth
		if pretends == "" {
			problem = d.probe(t, h)
		}
		early := d.Clock.Now().Sub(registered) < interval
		switch {
		case problem == nil:
			passed, failed = passed+1, 0
		case !early:
			passed, failed = 0, failed+1
		}
		t.judge(h, passed, failed, problem, pretends)
		if early && passed == 0 {
			interval = firstChecks
		}
		_ = clock.Sleep(t.ctx, d.Clock, interval)
	}
}

func (p *pool) healthCheck() region.HealthCheck {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.group.HealthCheck
}

// judge changes a target's state after enough consecutive checks passed or failed; a new target needs only one that
// passes.
func (t *target) judge(h region.HealthCheck, passed, failed int, problem *region.TargetHealth, pretends string) {
	p := t.pool
	p.mu.Lock()
	t.pretends = pretends
	before := t.health
	switch {
	case passed > 0 && (before.State == region.TargetInitial || passed >= h.HealthyThresholdCount):
		t.health = region.TargetHealth{State: region.TargetHealthy}
	case failed >= h.UnhealthyThresholdCount && problem != nil:
		t.health = *problem
	}
	now := t.health
	p.mu.Unlock()
	if now != before {
		p.data.Region.SetTargetHealth(p.arn, t.Target, now)
	}
}

// probe performs one health check; nil means that it passed.
func (d *DataPath) probe(t *target, h region.HealthCheck) *region.TargetHealth {
	ctx, cancel := context.WithTimeout(t.ctx, time.Duration(h.HealthCheckTimeoutSeconds)*time.Second)
	defer cancel()
	address := t.address
	if port, err := strconv.Atoi(h.HealthCheckPort); err == nil {
		host, _, _ := net.SplitHostPort(address)
		address = net.JoinHostPort(host, strconv.Itoa(port))
	}
	unhealthy := func(reason, format string, args ...any) *region.TargetHealth {
		return &region.TargetHealth{
			State: region.TargetUnhealthy, Reason: reason, Description: fmt.Sprintf(format, args...),
		}
	}
	fail := func(err error) *region.TargetHealth {
		if timeout := net.Error(nil); errors.Is(err, context.DeadlineExceeded) ||
			(errors.As(err, &timeout) && timeout.Timeout()) {
			return unhealthy("Target.Timeout", "Request timed out")
		}
		return unhealthy("Target.FailedHealthChecks", "Health checks failed")
	}
	conn, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = conn.Close() }()
	if h.HealthCheckProtocol != "HTTP" {
		return nil
	}
	// Each check uses its own connection, as AWS's do.
	client := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives: true,
	}
	u, err := url.Parse("http://" + address + h.HealthCheckPath)
	if err != nil {
		return fail(err)
	}
	req := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{
		"User-Agent": {"ELB-HealthChecker/2.0"}, "Connection": {"close"},
	}}).WithContext(ctx)
	answer, err := client.RoundTrip(req)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	if !h.Matches(answer.StatusCode) {
		return unhealthy("Target.ResponseCodeMismatch", "Health checks failed with these codes: [%d]", answer.StatusCode)
	}
	return nil
}
