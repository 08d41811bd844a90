package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/nodeless/nodeless/microvm/network/overlay"
	"github.com/nodeless/nodeless/microvm/network/ruleset"
)

// Peer is another host of microVMs.
type Peer struct {
	// Pods are the addresses of its microVMs.
	Pods netip.Prefix
	// At is where it takes packets for them.
	At netip.AddrPort
}

// Peers know the other hosts that have a network for their microVMs.
type Peers interface {
	// Synced waits until all are known; false if ctx is done before.
	Synced(ctx context.Context) bool
	List() []Peer
	// Changed holds one if the list has changed since it was taken.
	Changed() <-chan struct{}
}

// neighbours are the peers as this machine sees them.
type neighbours struct {
	near []Peer // on this machine: the kernel knows the way to each of their microVMs
	far  []Peer // by the tunnel
	// networks are all peers' identifiers in the tunnel.
	networks []uint32
}

// prefixes of pods.
func prefixes(peers []Peer) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range peers {
		all = append(all, p.Pods)
	}
	return all
}

// reaches says whether packets to an address find their way to a pod: on this host, on others, or where else the
// options say.
func (n *Net) reaches(a netip.Addr) bool {
	return n.pods.Contains(a) ||
		slices.ContainsFunc(slices.Concat(prefixes(n.seen.near), prefixes(n.seen.far), n.o.Reached),
			func(p netip.Prefix) bool { return p.Contains(a) })
}

// divide sorts the peers by how they are reached from a machine with these addresses. Those that claim our own pods'
// addresses are none. Near are those whose bridge is here: that a host says it is on loopback may mean that it
// reaches the API server there, on whatever machine.
func divide(peers []Peer, pods netip.Prefix, at netip.AddrPort, own []netip.Addr) (s neighbours) {
	slices.SortFunc(peers, func(a, b Peer) int { return a.Pods.Addr().Compare(b.Pods.Addr()) })
	for _, p := range peers {
		a := p.At.Addr()
		switch {
		case !p.Pods.IsValid() || !p.Pods.Addr().Is4() || p.Pods.Overlaps(pods) || p.At.Port() == 0:
		case a.IsLoopback() || slices.Contains(own, a):
			if slices.Contains(own, p.Pods.Masked().Addr().Next()) {
				s.near = append(s.near, p)
			}
		case a.Is4() && at.Addr().Is4() && !at.Addr().IsLoopback():
			s.far = append(s.far, p)
		}
	}
	for _, p := range slices.Concat(s.near, s.far) {
		s.networks = append(s.networks, overlay.Identifier(p.Pods))
	}
	return s
}

// connect makes the ways to the other hosts' pods. Without them all else works.
func (n *Net) connect() error {
	if n.o.Peers == nil {
		return nil
	}
	own, err := ownAddresses()
	if err != nil {
		return err
	}
	n.seen = divide(n.o.Peers.List(), n.pods, n.o.At, own)
	if len(n.seen.far) == 0 && n.state.Tunnel == "" {
		return nil
	}
	tunnel, err := n.tunnel()
	if err == nil {
		var to []overlay.Peer
		for _, p := range n.seen.far {
			to = append(to, overlay.Peer{Pods: p.Pods, At: p.At})
		}
		err = tunnel.Sync(to)
	}
	if err != nil {
		n.seen.far = nil // Services are not to lead there
		return fmt.Errorf("pods on other hosts are not reached: %w", err)
	}
	return nil
}

// tunnel makes the way out to other machines, or takes up what is there.
func (n *Net) tunnel() (*overlay.Tunnel, error) {
	c := overlay.Config{
		Name: n.tunnelName(), Pods: n.pods, Local: n.o.At.Addr(), Port: n.o.At.Port(),
		MTU: mtuAt(n.o.At.Addr()) - overlay.Overhead,
	}
	if own, err := ownAddresses(); err == nil && !slices.Contains(own, c.Local) {
		c.Local = netip.Addr{} // others know this machine by an address that somebody translates
	}
	made := fmt.Sprintf("%+v", c)
	if n.state.Tunnel == made {
		if t, err := overlay.Find(c); err == nil {
			return t, nil
		}
	}
	n.state.Tunnel = made
	if err := n.state.save(n.o.Dir); err != nil { // before it is done: who comes later must know
		return nil, fmt.Errorf("note the tunnel: %w", err)
	}
	return overlay.Open(c)
}

// tunnelName begins as the pods' interfaces do: the same rules are for it.
func (n *Net) tunnelName() string { return tunnelOf(n.name) }

func tunnelOf(bridge string) string { return bridge + "-x" }

// tunnelRules say who may send by the tunnel.
func (n *Net) tunnelRules() (t ruleset.Tunnel) {
	if n.state.Tunnel == "" {
		return t
	}
	t.Name, t.Port, t.Identifier = n.tunnelName(), n.o.At.Port(), overlay.Identifier(n.pods)
	for _, p := range n.seen.far {
		t.Peers = append(t.Peers, p.At.Addr())
	}
	return t
}

func (n *Net) peersChanged() <-chan struct{} {
	if n.o.Peers == nil {
		return nil
	}
	return n.o.Peers.Changed()
}

func ownAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine: %w", err)
	}
	var own []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr())
		}
	}
	return own, nil
}

// usualMTU is Ethernet's.
const usualMTU = 1500

// mtuAt is how long packets of the interface with an address may be.
func mtuAt(a netip.Addr) int {
	all, _ := net.Interfaces() // one that cannot be seen is not asked for
	for _, i := range all {
		addresses, _ := i.Addrs()
		for _, has := range addresses {
			if p, err := netip.ParsePrefix(has.String()); err == nil && p.Addr() == a {
				return i.MTU
			}
		}
	}
	return usualMTU
}
