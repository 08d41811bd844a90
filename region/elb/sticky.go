package elb

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nodeless/nodeless/region"
)

// Stickiness binds a client to a target of a group while that is healthy: by a cookie of an application load balancer
// (Elastic Load Balancing user guides, "Sticky sessions for your Application Load Balancer", lb_cookie), or by the
// client's address (Network Load Balancers, "Edit target group attributes", source_ip).

// cookieNames are ALB's: the second is a copy for requests of other sites.
var cookieNames = []string{"AWSALB", "AWSALBCORS"}

// binding is what a client shows of its target: an application load balancer's cookie, or its address to a network
// load balancer.
type binding struct{ cookie, source string }

// bindingOf returns the binding in a request's cookies.
func bindingOf(req *http.Request) binding {
	for _, name := range cookieNames {
		if c, err := req.Cookie(name); err == nil {
			return binding{cookie: c.Value}
		}
	}
	return binding{}
}

// cookie returns the value that binds a client to a target.
func (t *target) cookie() string { return fmt.Sprintf("%08x", spread(t.pool.arn+"/"+t.address)) }

// bound returns the healthy target to which a client is bound; nil if there is none. The caller holds p.mu.
func (p *pool) bound(client binding) (best *target) {
	if p.group.Attributes["stickiness.enabled"] != "true" {
		return nil
	}
	for _, t := range p.targets {
		switch {
		case t.draining || t.health.State != region.TargetHealthy:
		case client.source == "":
			if t.cookie() == client.cookie {
				return t
			}
		// Rendezvous hashing: only the clients of a target that is gone get another one.
		case best == nil || spread(client.source+t.address) > spread(client.source+best.address):
			best = t
		}
	}
	return best
}

// bind sets the cookies that bind the client of a response to its target, from now for the group's duration.
func (p *pool) bind(h http.Header, t *target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group.Attributes["stickiness.enabled"] != "true" {
		return
	}
	seconds, _ := strconv.Atoi(p.group.Attributes["stickiness.lb_cookie.duration_seconds"]) // validated by the region
	for _, name := range cookieNames {
		c := &http.Cookie{ //nolint:gosec // as ALB sets it over HTTP; it is no secret
			Name: name, Value: t.cookie(), Path: "/",
			Expires: p.data.Clock.Now().Add(time.Duration(seconds) * time.Second),
		}
		if name != cookieNames[0] {
			c.SameSite = http.SameSiteNoneMode
		}
		h.Add("Set-Cookie", c.String())
	}
}
