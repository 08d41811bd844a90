package elb

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/region"
)

// pool holds the targets of a target group. The life cycle of a target:
//
//	registered → initial → healthy ⇄ unhealthy → (deregistered) draining → gone
//
// A draining target gets no new requests, and no health checks once its last request has ended. It is gone when the
// deregistration delay has passed, which aborts the remaining requests. If it is registered again before, it returns to
// the state of its health while it has requests; otherwise it begins anew.
type pool struct {
	data *DataPath
	arn  string

	mu      sync.Mutex
	group   region.TargetGroup
	targets []*target
	next    int // where the next search for a target starts: round robin
}

// target is a registered target. Its pool's lock guards its mutable fields.
type target struct {
	region.Target
	address   string
	transport *http.Transport
	ctx       context.Context // done when the target is gone
	cancel    context.CancelFunc

	health   region.TargetHealth
	pretends string // why nothing answers here, for simulated pods and instances
	inFlight int
	draining bool
	pool     *pool
}

// set updates the pool to the region's state of the group; nil means that the group is gone.
func (p *pool) set(g *region.TargetGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g == nil {
		g = &region.TargetGroup{}
	}
	p.group = *g
	kept := p.targets[:0]
	for _, t := range p.targets {
		i := slices.IndexFunc(g.Targets, func(o region.Target) bool { return o.ID == t.ID && o.Port == t.Port })
		if i < 0 {
			t.end()
			continue
		}
		registered := g.Targets[i].DeregisteredAt.IsZero()
		if registered && t.draining && t.ctx.Err() != nil {
			continue // its requests had ended: a new target takes its place below
		}
		if registered { // perhaps again: then its requests and health checks go on
			t.draining = false
			p.data.Region.SetTargetHealth(p.arn, t.Target, t.health)
		}
		kept = append(kept, t)
	}
	clear(p.targets[len(kept):])
	p.targets = kept
	for _, want := range g.Targets {
		i := slices.IndexFunc(p.targets, func(t *target) bool { return want.ID == t.ID && want.Port == t.Port })
		if i < 0 {
			p.targets = append(p.targets, p.add(want))
			i = len(p.targets) - 1
		}
		t := p.targets[i]
		if !want.DeregisteredAt.IsZero() && !t.draining {
			t.draining = true
			p.finish(t)
		}
	}
}

// add creates a target and starts its health checks.
func (p *pool) add(want region.Target) *target {
	t := &target{Target: want, pool: p, address: p.address(want)}
	t.ctx, t.cancel = context.WithCancel(p.data.ctx)
	t.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return p.data.Dial(ctx, network, t.address)
		},
		MaxIdleConnsPerHost: 64, IdleConnTimeout: clientIdle, DisableCompression: true,
	}
	t.health = region.TargetHealth{
		State: region.TargetInitial, Reason: "Elb.InitialHealthChecking", Description: "Initial health checks in progress",
	}
	p.data.Region.SetTargetHealth(p.arn, t.Target, t.health)
	go p.data.check(t)
	return t
}

// address returns where a target listens; for an instance, at its private address.
func (p *pool) address(t region.Target) string {
	host := t.ID
	if strings.HasPrefix(host, "i-") {
		if i, ok := p.data.Region.Instance(t.ID); ok {
			host = i.PrivateIP.String()
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(t.Port))
}

// end stops a target's checks and requests.
func (t *target) end() {
	t.cancel()
	t.transport.CloseIdleConnections()
}

// finish ends a draining target without requests. The caller holds p.mu.
func (p *pool) finish(t *target) {
	if t.draining && t.inFlight == 0 && t.ctx.Err() == nil {
		t.end()
		p.data.Log.Info("target has drained", "target", t.address)
	}
}

// take returns the next healthy target for one request, which ends with done, or the one to which the client is bound.
// If all targets are unhealthy, it returns any of them (ALB's documentation, "Health checks for your target groups").
// If there is none, it returns the reason.
func (p *pool) take(client binding) (t *target, none string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.bound(client); t != nil {
		t.inFlight++
		return t, ""
	}
	for _, state := range []string{region.TargetHealthy, region.TargetUnhealthy} {
		for i := range p.targets {
			at := (p.next + i) % len(p.targets)
			if t := p.targets[at]; t.health.State == state && !t.draining {
				p.next, t.inFlight = at+1, t.inFlight+1
				return t, ""
			}
		}
	}
	if len(p.targets) == 0 {
		return nil, fmt.Sprintf("target group %s has no registered targets", p.group.TargetGroupName)
	}
	var states []string
	for _, t := range p.targets {
		state := t.health.State
		if t.draining {
			state = region.TargetDraining
		}
		states = append(states, t.address+" is "+state)
	}
	return nil, fmt.Sprintf("target group %s has no healthy target: %s", p.group.TargetGroupName,
		strings.Join(states[:min(len(states), 10)], ", "))
}

// done ends a request that take started.
func (p *pool) done(t *target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.inFlight--
	p.finish(t)
}

// simulated returns why nothing answers at a target, or "".
func (t *target) simulated() string {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return t.pretends
}

// pretence returns why nothing answers at an address, or "" if something may.
func (d *DataPath) pretence(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return ""
	}
	instance, isPod := d.Region.HolderOf(at.Addr())
	switch {
	case isPod:
		return fmt.Sprintf("%s is a simulated pod on instance %s: it pretends to run, so nothing answers. "+
			"Pods of a FargateProfile really run, each in a microVM.", at, instance)
	case instance != "":
		return fmt.Sprintf("%s is the simulated instance %s: nothing answers at its node ports. "+
			"Pods of a FargateProfile really run, each in a microVM; they are targets of the type ip.", at, instance)
	}
	return ""
}
