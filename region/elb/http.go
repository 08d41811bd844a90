package elb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/region"
)

// handler serves an application load balancer's listener: the first matching rule determines the action.
func (d *DataPath) handler(f *front) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := f.routes.Load()
		actions := r.listener.DefaultActions
		for _, rule := range r.rules {
			if matches(rule.Conditions, req) {
				actions = rule.Actions
				break
			}
		}
		if len(actions) == 0 {
			refuse(w, http.StatusServiceUnavailable, "the listener has no action")
			return
		}
		req.Body = http.MaxBytesReader(w, req.Body, maxBodyBytes)
		d.do(w, req, actions[0], r)
	})
}

func (d *DataPath) do(w http.ResponseWriter, req *http.Request, a region.ListenerAction, r *routes) {
	switch {
	case a.FixedResponseConfig != nil:
		code, _ := strconv.Atoi(a.FixedResponseConfig.StatusCode) // validated by the region
		w.Header().Set("Server", "awselb/2.0")
		w.Header().Set("Content-Type", cmp.Or(a.FixedResponseConfig.ContentType, "text/plain"))
		w.WriteHeader(code)
		_, _ = w.Write([]byte(a.FixedResponseConfig.MessageBody))
	case a.RedirectConfig != nil:
		code, _ := strconv.Atoi(strings.TrimPrefix(a.RedirectConfig.StatusCode, "HTTP_"))
		to := location(*a.RedirectConfig, req, r.listener.Port)
		http.Redirect(w, req, to, code) //nolint:gosec // where the rule's author says
	default:
		d.forward(w, req, a, r)
	}
}

// location returns the target of a redirect (API reference, RedirectActionConfig).
func location(r region.Redirect, req *http.Request, port int) string {
	fill := strings.NewReplacer("#{protocol}", "http", "#{host}", nameOf(req.Host), "#{port}", strconv.Itoa(port),
		"#{path}", strings.TrimPrefix(req.URL.EscapedPath(), "/"), "#{query}", req.URL.RawQuery).Replace
	scheme := strings.ToLower(fill(cmp.Or(r.Protocol, "#{protocol}")))
	host, to := fill(cmp.Or(r.Host, "#{host}")), fill(cmp.Or(r.Port, "#{port}"))
	if usual := map[string]string{"http": "80", "https": "443"}[scheme]; to != usual {
		host = net.JoinHostPort(host, to)
	}
	out := scheme + "://" + host + fill(cmp.Or(r.Path, "/#{path}"))
	if q := fill(cmp.Or(r.Query, "#{query}")); q != "" {
		out += "?" + q
	}
	return out
}

// matches reports whether a request meets every condition. Host names are case-insensitive.
func matches(conditions []region.RuleCondition, req *http.Request) bool {
	for _, c := range conditions {
		ok := false
		for _, v := range c.Values {
			switch c.Field {
			case "path-pattern":
				ok = ok || like(v, req.URL.Path)
			case "host-header":
				ok = ok || like(strings.ToLower(v), nameOf(req.Host))
			case "http-request-method":
				ok = ok || v == req.Method
			case "source-ip":
				ok = ok || from(v, req.RemoteAddr)
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// like matches a pattern of a rule, in which a backslash is an ordinary character.
func like(pattern, s string) bool { return region.Like(strings.ReplaceAll(pattern, `\`, `\\`), s) }

// from reports whether a client is in a CIDR block.
func from(block, client string) bool {
	p, err := netip.ParsePrefix(block)
	at, err2 := netip.ParseAddrPort(client)
	return err == nil && err2 == nil && p.Contains(at.Addr().Unmap())
}

// forward sends a request to a healthy target of the action's target groups.
func (d *DataPath) forward(w http.ResponseWriter, req *http.Request, a region.ListenerAction, to *routes) {
	p := d.pool(choose(a.Forwards()))
	if p == nil {
		refuse(w, http.StatusServiceUnavailable, "the target group is gone")
		return
	}
	t, none := p.take(bindingOf(req))
	if t == nil {
		refuse(w, http.StatusServiceUnavailable, none)
		return
	}
	defer p.done(t)
	if reason := t.simulated(); reason != "" {
		refuse(w, http.StatusServiceUnavailable, reason)
		return
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(nil) })() // its deregistration delay is over
	ctx, answered := answerWithin(ctx, to.idle, func() { cancel(errIdle) })
	defer answered()
	proxy := &httputil.ReverseProxy{
		Transport: t.transport, FlushInterval: -1, ErrorLog: d.discard(),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: t.address})
			r.Out.Host = r.In.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
			r.Out.Header.Del("X-Forwarded-Host") // ALB does not send it
			r.Out.Header.Set("X-Forwarded-Port", strconv.Itoa(to.listener.Port))
		},
		ModifyResponse: func(answer *http.Response) error {
			answered()
			p.bind(answer.Header, t)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, out *http.Request, err error) {
			refuseFor(w, t.address, cmp.Or(httpguard.Paused(out), idleError(ctx), err))
		},
	}
	proxy.ServeHTTP(w, req.WithContext(ctx))
}

// answerWithin calls late if a target has not answered a request so long after it has been sent completely. The caller
// calls answered at the answer and at the end.
func answerWithin(ctx context.Context, limit time.Duration, late func()) (_ context.Context, answered func()) {
	var done atomic.Bool
	timer := time.AfterFunc(math.MaxInt64, func() {
		if !done.Load() {
			late()
		}
	})
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { timer.Reset(limit) },
	})
	return ctx, func() {
		done.Store(true)
		timer.Stop()
	}
}

// errIdle is the cause of the end of a request that its target has not answered within the idle timeout.
var errIdle = fmt.Errorf("no answer within the load balancer's idle timeout: %w", context.DeadlineExceeded)

// idleError returns errIdle if that ended a request.
func idleError(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errIdle) {
		return errIdle
	}
	return nil
}

// refuseFor responds in place of a target that failed to: 504 if it timed out, 408 if the client did, 413 if the
// request was too large, 502 otherwise, as ALB does.
func refuseFor(w http.ResponseWriter, address string, err error) {
	var timeout net.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, httpguard.ErrPaused):
		refuse(w, http.StatusRequestTimeout, err.Error())
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, err.Error())
	case errors.As(err, &timeout) && timeout.Timeout():
		refuse(w, http.StatusGatewayTimeout, "target "+address+": "+err.Error())
	default:
		refuse(w, http.StatusBadGateway, "target "+address+": "+err.Error())
	}
}

// choose draws a target group by weight; a nil weight means 1.
func choose(groups []region.WeightedTargetGroup) string {
	weight := func(g region.WeightedTargetGroup) int {
		if g.Weight == nil {
			return 1
		}
		return *g.Weight
	}
	sum := 0
	for _, g := range groups {
		sum += weight(g)
	}
	if sum == 0 {
		return ""
	}
	n := rand.IntN(sum) //nolint:gosec // a share of traffic, no secret
	for _, g := range groups {
		if n -= weight(g); n < 0 {
			return g.TargetGroupARN
		}
	}
	return ""
}
