package elb

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

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
		d.do(w, req, actions[0], r.listener.Port)
	})
}

func (d *DataPath) do(w http.ResponseWriter, req *http.Request, a region.ListenerAction, port int) {
	switch {
	case a.FixedResponseConfig != nil:
		code, _ := strconv.Atoi(a.FixedResponseConfig.StatusCode) // validated by the region
		w.Header().Set("Server", "awselb/2.0")
		w.Header().Set("Content-Type", cmp.Or(a.FixedResponseConfig.ContentType, "text/plain"))
		w.WriteHeader(code)
		_, _ = w.Write([]byte(a.FixedResponseConfig.MessageBody))
	case a.RedirectConfig != nil:
		code, _ := strconv.Atoi(strings.TrimPrefix(a.RedirectConfig.StatusCode, "HTTP_"))
		http.Redirect(w, req, location(*a.RedirectConfig, req, port), code) //nolint:gosec // where the rule's author says
	default:
		d.forward(w, req, a, port)
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
func (d *DataPath) forward(w http.ResponseWriter, req *http.Request, a region.ListenerAction, port int) {
	p := d.pool(choose(a.Forwards()))
	if p == nil {
		refuse(w, http.StatusServiceUnavailable, "the target group is gone")
		return
	}
	t, none := p.take()
	if t == nil {
		refuse(w, http.StatusServiceUnavailable, none)
		return
	}
	defer p.done(t)
	if reason := t.simulated(); reason != "" {
		refuse(w, http.StatusServiceUnavailable, reason)
		return
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)() // its deregistration delay is over
	proxy := &httputil.ReverseProxy{
		Transport: t.transport, FlushInterval: -1, ErrorLog: d.discard(),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: t.address})
			r.Out.Host = r.In.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
			r.Out.Header.Del("X-Forwarded-Host") // ALB does not send it
			r.Out.Header.Set("X-Forwarded-Port", strconv.Itoa(port))
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { refuseFor(w, t.address, err) },
	}
	proxy.ServeHTTP(w, req.WithContext(ctx))
}

// refuseFor responds in place of a target that failed to: 504 if it timed out, 413 if the request was too large, 502
// otherwise, as ALB does.
func refuseFor(w http.ResponseWriter, address string, err error) {
	var timeout net.Error
	var tooLarge *http.MaxBytesError
	switch {
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
