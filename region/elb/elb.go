// Package elb carries the traffic of a simulated region's load balancers: each listener of an active load balancer is
// a real listener on loopback that forwards to healthy targets.
//
// Each load balancer has its own address in 127.80.0.0/16, where it listens on the ports of its listeners. If the
// user may not bind a port, or another process has it, the listener uses another port; Address returns the actual
// ports. Linux answers on all of 127.0.0.0/8; on other systems, load balancers share 127.0.0.1. HTTP listeners are
// also reachable by the load balancer's DNS name: for browsers and curl, names below localhost resolve to 127.0.0.1
// (RFC 6761, section 6.3), where one listener per port serves all load balancers by the request's Host.
//
// Targets at addresses that the region assigned to simulated pods and instances pass their health checks, since those
// pods are Ready, but requests to them get 503 with the reason: nothing answers there. All other targets are dialled.
//
// Of the attributes, deregistration_delay.timeout_seconds, stickiness and idle_timeout.timeout_seconds (how long a
// target may take to answer) have an effect. The others are stored and returned.
//
// The region owns the state: this package follows it (region.LoadBalancingChanged) and reports the health of targets.
package elb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// Options configures a data path.
type Options struct {
	Region *region.Region
	// Dial connects to targets that are not simulated; nil dials from this process.
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	Clock clock.Clock // of health checks; nil means the real clock
	Log   *slog.Logger
}

// Address tells how to reach a load balancer.
type Address struct {
	IP netip.Addr
	// Name is the load balancer's DNS name if that leads to it on this host, else "".
	Name string
	// Ports maps the listeners' ports to the actual ones.
	Ports map[int]int
}

// DataPath serves the load balancers of a region. It is safe for concurrent use.
type DataPath struct {
	Options
	ctx context.Context

	mu     sync.Mutex
	pools  map[string]*pool  // by target group ARN
	fronts map[string]*front // by listener ARN
	names  map[int]*nameFront
	ips    map[string]netip.Addr // by load balancer ARN, once it listens
}

// New returns a data path, which serves while Run is running.
func New(o Options) *DataPath {
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &DataPath{
		Options: o, pools: map[string]*pool{}, fronts: map[string]*front{}, names: map[int]*nameFront{},
		ips: map[string]netip.Addr{},
	}
}

// resync is the interval after which the region's state is read again even without a change: a load balancer becomes
// active, and a deregistration delay ends, without one.
const resync = time.Second

// Run serves the region's load balancers until ctx is done.
func (d *DataPath) Run(ctx context.Context) error {
	d.ctx = ctx
	defer d.stop()
	for ctx.Err() == nil {
		changed := d.Region.LoadBalancingChanged()
		d.follow()
		_ = clock.SleepOr(ctx, d.Clock, resync, changed)
	}
	return ctx.Err()
}

// stop closes every listener and ends the health checks.
func (d *DataPath) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.fronts {
		f.close()
	}
	for _, n := range d.names {
		n.close()
	}
	for _, p := range d.pools {
		p.set(nil)
	}
}

// follow brings the data path in line with the region's state.
func (d *DataPath) follow() {
	balancers := map[string]region.LoadBalancer{}
	for _, b := range d.Region.LoadBalancers() {
		if b.Active {
			balancers[b.ARN] = b
		}
	}
	rules := map[string][]region.ListenerRule{}
	for _, r := range d.Region.Rules() {
		rules[r.ListenerARN] = append(rules[r.ListenerARN], r)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followGroups(d.Region.TargetGroups())
	wanted := map[string]bool{}
	for _, l := range d.Region.Listeners() {
		if b, ok := balancers[l.LoadBalancerARN]; ok {
			wanted[l.ListenerARN] = true
			d.followListener(b, l, rules[l.ListenerARN])
		}
	}
	for arn, f := range d.fronts {
		if !wanted[arn] {
			f.close()
			delete(d.fronts, arn)
		}
	}
	d.closeNames()
	for arn := range d.ips {
		if _, ok := balancers[arn]; !ok {
			delete(d.ips, arn)
		}
	}
}

// closeNames closes the listeners for names on ports that no load balancer uses any more.
func (d *DataPath) closeNames() {
	used := map[int]bool{}
	for _, f := range d.fronts {
		if f.handler != nil {
			used[int(f.at().Port())] = true
		}
	}
	for port, n := range d.names {
		if !used[port] {
			n.close()
			delete(d.names, port)
		}
	}
}

func (d *DataPath) followGroups(groups []region.TargetGroup) {
	wanted := map[string]bool{}
	for _, g := range groups {
		wanted[g.TargetGroupARN] = true
		p := d.pools[g.TargetGroupARN]
		if p == nil {
			p = &pool{data: d, arn: g.TargetGroupARN}
			d.pools[g.TargetGroupARN] = p
		}
		p.set(&g)
	}
	for arn, p := range d.pools {
		if !wanted[arn] {
			p.set(nil)
			delete(d.pools, arn)
		}
	}
}

// followListener opens a listener if necessary and sets its rules. If its port has changed, it reopens it.
func (d *DataPath) followListener(b region.LoadBalancer, l region.Listener, rules []region.ListenerRule) {
	f := d.fronts[l.ListenerARN]
	if f != nil && f.port != l.Port {
		f.close()
		delete(d.fronts, l.ListenerARN)
		f = nil
	}
	if f == nil {
		var err error
		if f, err = d.open(b, l); err != nil {
			d.Log.Error("load balancer cannot listen", "loadBalancer", b.Name, "port", l.Port, "error", err)
			return
		}
		d.fronts[l.ListenerARN] = f
		d.Log.Info("load balancer listens", "loadBalancer", b.Name, "port", l.Port, "address", f.listener.Addr())
	}
	idle, _ := strconv.Atoi(b.Attributes["idle_timeout.timeout_seconds"]) // validated; network load balancers have none
	f.routes.Store(&routes{listener: l, rules: rules, idle: time.Duration(idle) * time.Second})
}

// pool returns the pool of a target group, or nil.
func (d *DataPath) pool(arn string) *pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pools[arn]
}

// Address returns how to reach the load balancer with a DNS name; ok is false until it listens.
func (d *DataPath) Address(dnsName string) (a Address, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.fronts {
		if f.name != dnsName {
			continue
		}
		if !ok {
			a = Address{IP: f.at().Addr(), Name: dnsName, Ports: map[int]int{}}
			ok = true
		}
		a.Ports[f.port] = int(f.at().Port())
		if n := d.names[int(f.at().Port())]; n == nil {
			a.Name = ""
		}
	}
	return a, ok
}

// spread returns a hash of a text.
func spread(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return h.Sum32()
}

// ipTries is the number of addresses to try for a load balancer.
const ipTries = 8

// listen opens a port on the load balancer's address. The load balancer's first listener chooses the address: the
// same after a restart, unless it is taken.
func (d *DataPath) listen(b region.LoadBalancer, port int) (net.Listener, error) {
	candidates := []netip.Addr{d.ips[b.ARN]}
	if !candidates[0].IsValid() {
		candidates = candidates[:0]
		for n := range uint32(ipTries) {
			x := spread(fmt.Sprint(b.ARN, n))
			candidates = append(candidates, netip.AddrFrom4([4]byte{127, 80, byte(x >> 8), byte(x)}))
		}
		candidates = append(candidates, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	var failed error
	for _, p := range []int{port, 20000 + int(spread(b.ARN)%10000), 0} { // a fixed port, then any
		for _, ip := range candidates {
			l, err := (&net.ListenConfig{}).Listen(d.ctx, "tcp4", netip.AddrPortFrom(ip, uint16(p)).String())
			if err == nil {
				d.ips[b.ARN] = ip
				return l, nil
			}
			failed = errors.Join(failed, err)
		}
	}
	return nil, fmt.Errorf("listen for load balancer %s: %w", b.Name, failed)
}

// nameOf returns the host in a Host header, in lower case and without the port.
func nameOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// frontNamed returns the front on a port of the load balancer with a DNS name.
func (d *DataPath) frontNamed(name string, port int) *front {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.fronts {
		if f.name == name && int(f.at().Port()) == port {
			return f
		}
	}
	return nil
}

// namesOn returns the names of the load balancers that listen on a port.
func (d *DataPath) namesOn(port int) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, f := range d.fronts {
		if f.handler != nil && int(f.at().Port()) == port {
			out = append(out, f.name)
		}
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}
