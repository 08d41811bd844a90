// Package network is the network of the pods in this instance's microVMs: the addresses at which pods and the
// instance reach each other, the way out, Services and DNS. It needs root, for the bridge of the microVMs (package
// sandbox) and the kernel's firewall (package ruleset). This process also runs the cluster's DNS (package clusterdns)
// and a gateway to the API server, which listens on loopback.
//
// The rules and the DNS answers are derived from Services and EndpointSlices. The DNS and the gateway are themselves
// endpoints, in slices that this package writes: pods find them like any other Service, and a DNS that is deployed
// into the cluster takes over once it has endpoints of its own.
//
// What outlives the process (firewall table, forwarding, tunnel) is recorded in the state directory before it is
// created, so that after a kill the next process can take it over or remove it.
package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/microvm/network/clusterdns"
	"github.com/nodeless/nodeless/microvm/network/overlay"
	"github.com/nodeless/nodeless/microvm/network/ruleset"
	"github.com/nodeless/nodeless/microvm/network/services"
	"github.com/nodeless/nodeless/microvm/network/watch"
	"github.com/nodeless/nodeless/microvm/sandbox"
)

// Options configure a Net.
type Options struct {
	Dir  string               // required; the state directory, which one process at a time uses
	Kube kubernetes.Interface // required
	// Bridge connects the microVMs.
	Bridge *sandbox.Bridge
	// Wanted returns once microVMs may be needed. Nothing is created until then. Default: at once.
	Wanted func(context.Context) error
	// Services is the range of Service VIPs.
	Services netip.Prefix
	// APIServer is the address at which this instance reaches the API server, as host:port.
	APIServer string
	// Joined is set on one of several hosts that have joined a cluster. Such a host writes nothing into the cluster; if
	// it cannot reach any endpoint of the cluster's DNS or API server, this process stands in for them.
	Joined bool
	// Peers are the other hosts; nil if there are none. At is the address to which they send packets for pods of this
	// host, and Key is this host's private key.
	Peers Peers
	At    netip.AddrPort
	Key   Key
	// Reached are the addresses of pods outside of microVMs that this instance can reach.
	Reached []netip.Prefix
	// ResolvConf is the file with the instance's own name servers; default /etc/resolv.conf.
	ResolvConf string
	// Every is the interval at which the instance's interfaces and firewall are checked; default 10 s.
	Every time.Duration
	Log   *slog.Logger // default: slog.Default
}

// domain is the cluster's domain, the default of kubelets and the API server.
const domain = "cluster.local"

// Net is the network. Run creates it.
type Net struct {
	o      Options
	name   string       // of the bridge and the firewall's table
	pods   netip.Prefix // the addresses of this host's pods
	host   netip.Addr   // this instance's address among them
	state  state
	dns    *clusterdns.Server
	api    *gateway
	kernel kernel
	watch  *watch.Watch
	ready  chan struct{} // closed once the Services are programmed, or Run has returned
	once   sync.Once     // of closing it

	snapshot atomic.Pointer[services.Snapshot]

	// Used by the goroutine of reconcile only.
	peers      peers
	tunnel     *overlay.Tunnel // nil until there is a peer on another instance
	peerError  string          // the last error returned
	otherDrops string          // chains of other firewalls in the last warning
	programmed string          // the rules in the kernel; "" if unknown
	published  bool            // the Endpoints of the API server are written
}

// New returns a network.
func New(o Options) *Net {
	o.ResolvConf = cmp.Or(o.ResolvConf, "/etc/resolv.conf")
	o.Every, o.Log = cmp.Or(o.Every, 10*time.Second), cmp.Or(o.Log, slog.Default())
	n := &Net{
		o: o, name: o.Bridge.Name(), pods: o.Bridge.Prefix(), host: o.Bridge.Address(), kernel: kernel{"/proc"},
		ready: make(chan struct{}), watch: watch.New(o.Kube, nil),
	}
	if o.Joined {
		n.watch = watch.New(o.Kube, isOurs) // another host's slices name addresses that only its own pods reach
	}
	n.snapshot.Store(services.New(nil, nil))
	return n
}

// Run creates the network, or takes it over from an earlier process, and serves it until ctx is done. The network
// stays: microVMs still reach all they could reach before, except for the API server and DNS. CleanUp removes the
// network. Run may be called once.
func (n *Net) Run(ctx context.Context) error {
	defer n.setReady() // do not keep callers waiting for a failed network
	if n.o.Wanted != nil && n.o.Wanted(ctx) != nil {
		return nil // ctx is done
	}
	err := n.open(ctx)
	if err == nil {
		err = n.serve(ctx)
	}
	if err != nil {
		return fmt.Errorf("network of microVMs: %w", err)
	}
	return nil
}

func (n *Net) setReady() { n.once.Do(func() { close(n.ready) }) }

// open creates what outlives this process, and listens. If it fails, it removes what it created, but keeps what an
// earlier process created, which pods still use.
func (n *Net) open(ctx context.Context) (err error) {
	if err := ruleset.Available(); err != nil {
		return err
	}
	if n.state, err = loadState(n.o.Dir); err != nil {
		return err
	}
	n.state.Table = n.name
	if err := n.state.save(n.o.Dir); err != nil {
		return err
	}
	inUse := ruleset.Exists(n.name)
	defer func() {
		if err == nil {
			return
		}
		if n.stopServing(); !inUse {
			err = errors.Join(err, n.close())
		}
	}()
	// Without a default route, an instance could not route packets to VIPs, which are translated only later.
	if err := n.o.Bridge.AddRoute(n.o.Services); err != nil {
		return err
	}
	zone := clusterdns.Zone{Domain: domain + ".", Ranges: []netip.Prefix{n.o.Services, n.pods}}
	if n.dns, err = clusterdns.Listen(ctx, n.host, zone, n.snapshot.Load,
		clusterdns.NewResolvers(n.o.ResolvConf, n.host)); err != nil {
		return err
	}
	if n.api, err = openGateway(ctx, n.host, 6443, n.o.APIServer); err != nil {
		return err
	}
	if inUse {
		return nil // the rules stay until the Services are known
	}
	return n.reconcile()
}

// serve runs the DNS and the gateway, and follows the Services, until ctx is done.
func (n *Net) serve(ctx context.Context) error {
	defer n.stopServing() // in case the DNS's Run is not called
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.api.run(ctx) })
	group.Go(func() error { return n.watch.Run(ctx) })
	group.Go(func() error {
		// What an earlier process created stays until all that it was derived from is known.
		if !n.watch.Synced(ctx) || n.o.Peers != nil && !n.o.Peers.Synced(ctx) {
			return nil
		}
		n.snapshot.Store(n.watch.Snapshot()) // before the first question is answered
		group.Go(func() error { return n.dns.Run(ctx) })
		n.follow(ctx)
		return nil
	})
	return group.Wait()
}

// stopServing stops what this process runs for the network.
func (n *Net) stopServing() {
	if n.dns != nil {
		_ = n.dns.Close()
	}
	if n.api != nil {
		_ = n.api.Close()
	}
	if err := n.closeTunnel(); err != nil {
		n.o.Log.Warn("cannot close the tunnel to other hosts", "error", err)
	}
}

// close removes what open created.
func (n *Net) close() error {
	n.stopServing()
	return errors.Join(n.o.Bridge.DeleteRoute(n.o.Services), cleanUp(n.o.Dir, n.state, n.kernel))
}

// CleanUp removes what a killed process left of the network with this state directory. It is no error if there is
// nothing to remove.
func CleanUp(dir string) error {
	s, err := loadState(dir)
	if err != nil || s.Table == "" {
		return err
	}
	return cleanUp(dir, s, kernel{"/proc"})
}

func cleanUp(dir string, s state, k kernel) error {
	if err := errors.Join(ruleset.Remove(s.Table), overlay.Delete(tunnelName(s.Table)),
		k.stopForwarding(s.Opened)); err != nil {
		return err
	}
	return forgetState(dir)
}
