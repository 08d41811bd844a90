// Package network is the network of pods in microVMs on this machine: addresses that pods and the machine reach each
// other by, the way out, Services and names. It needs root: a bridge for the microVMs (microvm/sandbox), rules of the
// kernel's firewall (package ruleset), and, in this process, the cluster's DNS (package clusterdns) and a gateway to
// the API server, which listens on loopback.
//
// All follows from Services and EndpointSlices. The cluster's DNS and the API server are themselves endpoints in
// slices that this package writes: everybody finds them as they find anything else, and a DNS that is deployed into
// the cluster takes their place by having endpoints of its own.
//
// What is made outside of this process (firewall table, forwarding) has its name in the state directory, and is taken
// up again, or removed, by whoever comes after a process that was killed.
package network

import (
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

// Options of a Net.
type Options struct {
	Dir  string // required; the state directory, kept over restarts, of one process at a time
	Kube kubernetes.Interface
	// Bridge holds the microVMs' addresses. They are connected by host.Routed.
	Bridge *sandbox.Bridge
	// Wanted returns when there may be microVMs; until then nothing is made. Default: at once.
	Wanted func(context.Context) error
	// Services is the range of Services' addresses.
	Services netip.Prefix
	// APIServer is how this machine reaches it, as host:port.
	APIServer string
	// Joined: this machine is one of several, of a cluster that is not its own. It writes nothing there; the cluster's
	// DNS and the API server are behind their Services what the cluster says or, where this machine reaches none of
	// that, this process.
	Joined bool
	// Peers are the other hosts; nil: there are none. At is where they send what is for pods here.
	Peers Peers
	At    netip.AddrPort
	// Reached are addresses of pods that are on no host of microVMs, and are reached from this machine nevertheless.
	Reached []netip.Prefix
	// Domain of the cluster; default cluster.local.
	Domain string
	// ResolvConf is the file that names the machine's own name servers; default /etc/resolv.conf.
	ResolvConf string
	// Every is how often it is looked whether the machine's interfaces and firewall are as they were; default 10 s.
	Every time.Duration
	Log   *slog.Logger // default slog.Default
}

// Net is the network. Nothing of it is made before Run.
type Net struct {
	o       Options
	name    string       // of the bridge and of the firewall's table
	pods    netip.Prefix // their addresses
	machine netip.Addr   // this machine's among them
	state   state
	dns     *clusterdns.Server
	api     *gateway
	kernel  kernel
	watch   *watch.Watch
	ready   chan struct{} // closed when Services are carried out
	once    sync.Once     // of closing it

	snapshot atomic.Pointer[services.Snapshot]

	seen    neighbours
	warned  string // of the firewall, last time
	apart   string // why other hosts' pods are not reached, last time
	written string // rules that the kernel has; "" if that is not known
}

// New is a network that Run makes.
func New(o Options) *Net {
	if o.Domain == "" {
		o.Domain = "cluster.local"
	}
	if o.ResolvConf == "" {
		o.ResolvConf = "/etc/resolv.conf"
	}
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	n := &Net{
		o: o, name: o.Bridge.Name(), pods: o.Bridge.Prefix(), machine: o.Bridge.Address(),
		kernel: kernel{"/proc"}, ready: make(chan struct{}),
	}
	if n.watch = watch.New(o.Kube, nil); o.Joined {
		n.watch = watch.New(o.Kube, ours) // what another host's process is, this one is here
	}
	n.snapshot.Store(services.New(nil, nil))
	return n
}

// Run makes the network, or takes it up where an earlier process left it, and serves it until ctx is done. It stays:
// microVMs go on, and reach what they reached but the API server and names. CleanUp takes it away. Run may be called
// once.
func (n *Net) Run(ctx context.Context) error {
	defer n.isReady() // nobody is to wait for what has failed
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

// Ready is closed once the Services there are have been carried out, or Run has returned.
func (n *Net) Ready() <-chan struct{} { return n.ready }

func (n *Net) isReady() { n.once.Do(func() { close(n.ready) }) }

// open makes what is outside of this process, and listens. If it fails it leaves what was there, for pods that go on
// by it, and nothing of its own.
func (n *Net) open(ctx context.Context) (err error) {
	if err := ruleset.Available(); err != nil {
		return err
	}
	if n.state, err = loadState(n.o.Dir); err != nil {
		return err
	}
	n.state.Table = n.name
	if err := n.state.save(n.o.Dir); err != nil { // before anything is made: who comes later must know
		return err
	}
	inUse := ruleset.Exists(n.name)
	defer func() {
		if err == nil {
			return
		}
		if n.stopListening(); !inUse {
			err = errors.Join(err, n.close())
		}
	}()
	// Packets to Services are on their way to the pods: a machine without a default route would not know where else they
	// go.
	if err := n.o.Bridge.AddRoute(n.o.Services); err != nil {
		return err
	}
	zone := clusterdns.Zone{Domain: n.o.Domain + ".", Ranges: []netip.Prefix{n.o.Services, n.pods}}
	if n.dns, err = clusterdns.Listen(ctx, n.machine, zone, n.snapshot.Load,
		clusterdns.NewResolvers(n.o.ResolvConf, n.machine)); err != nil {
		return err
	}
	if n.api, err = openGateway(ctx, n.machine, 6443, n.o.APIServer); err != nil {
		return err
	}
	if inUse {
		return nil // the rules stay until it is known what Services there are
	}
	return n.look()
}

// serve answers, and follows Services, until ctx is done.
func (n *Net) serve(ctx context.Context) error {
	defer func() { _ = n.dns.Close() }() // its Run does so, if it is come to
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.api.run(ctx) })
	group.Go(func() error { return n.watch.Run(ctx) })
	group.Go(func() error {
		// What an earlier process has made stays until all is known that it was made from.
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

// stopListening ends what open began in this process; serve has done so, if it was called.
func (n *Net) stopListening() {
	if n.dns != nil {
		_ = n.dns.Close()
	}
	if n.api != nil {
		_ = n.api.Close()
	}
}

// close takes away what open made.
func (n *Net) close() error {
	n.stopListening()
	return errors.Join(n.o.Bridge.DeleteRoute(n.o.Services), cleanUp(n.o.Dir, n.state, n.kernel))
}

// CleanUp takes away what a process that was killed has left of the network with this state directory. That there is
// nothing is no error.
func CleanUp(dir string) error {
	s, err := loadState(dir)
	if err != nil || s.Table == "" {
		return err
	}
	return cleanUp(dir, s, kernel{"/proc"})
}

func cleanUp(dir string, s state, k kernel) error {
	if err := errors.Join(ruleset.Remove(s.Table), overlay.Delete(tunnelOf(s.Table)),
		k.stopForwarding(s.Opened)); err != nil {
		return err
	}
	return forgetState(dir)
}
