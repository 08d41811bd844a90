package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/nodeless/nodeless/microvm/network/overlay"
	"github.com/nodeless/nodeless/microvm/network/ruleset"
)

// Peer is another microVM host.
type Peer = overlay.Peer

// Peers knows the other hosts whose microVMs have a network.
type Peers interface {
	// Synced waits until all are known. It returns false if ctx is done first.
	Synced(ctx context.Context) bool
	List() []Peer
	// Changed delivers a value after the list has changed.
	Changed() <-chan struct{}
}

// peers are the other hosts as this one sees them.
type peers struct {
	near []Peer // on this instance: the kernel routes to each of their microVMs
	far  []Peer // reached by the tunnel
	// identifiers are those of all peers' networks in the tunnel.
	identifiers []uint32
}

func prefixes(peers []Peer) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range peers {
		all = append(all, p.Pods)
	}
	return all
}

// reaches reports whether packets to an address reach a pod: on this host, on a peer, or in Options.Reached.
func (n *Net) reaches(a netip.Addr) bool {
	return n.pods.Contains(a) ||
		slices.ContainsFunc(slices.Concat(prefixes(n.peers.near), prefixes(n.peers.far), n.o.Reached),
			func(p netip.Prefix) bool { return p.Contains(a) })
}

// classify divides peers by how an instance with these own addresses reaches them, and leaves out those that claim
// addresses of our pods. A near peer has its bridge here: a loopback address alone may mean that the peer reaches the
// API server there, on whatever instance.
func classify(all []Peer, pods netip.Prefix, at netip.AddrPort, own []netip.Addr) (s peers) {
	slices.SortFunc(all, func(a, b Peer) int { return a.Pods.Addr().Compare(b.Pods.Addr()) })
	for _, p := range all {
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
		s.identifiers = append(s.identifiers, overlay.Identifier(p.Pods))
	}
	return s
}

// connectPeers sets up the tunnel to the other hosts' pods. Everything else works without it.
func (n *Net) connectPeers() error {
	if n.o.Peers == nil {
		return nil
	}
	own, err := ownAddresses()
	if err != nil {
		return err
	}
	n.peers = classify(n.o.Peers.List(), n.pods, n.o.At, own)
	if len(n.peers.far) == 0 && n.state.Tunnel == "" {
		return nil
	}
	tunnel, err := n.tunnel(own)
	if err == nil {
		err = tunnel.Sync(n.peers.far)
	}
	if err != nil {
		n.peers.far = nil // so that no Service leads there
		return fmt.Errorf("pods on other hosts are not reached: %w", err)
	}
	return nil
}

// tunnel takes over the tunnel to other instances, or creates it if there is none with this configuration.
func (n *Net) tunnel(own []netip.Addr) (*overlay.Tunnel, error) {
	c := overlay.Config{
		Name: tunnelName(n.name), Pods: n.pods, Local: n.o.At.Addr(), Port: n.o.At.Port(),
		MTU: mtuAt(n.o.At.Addr()) - overlay.Overhead,
	}
	if !slices.Contains(own, c.Local) {
		c.Local = netip.Addr{} // somebody translates the address by which others know this instance
	}
	config := fmt.Sprintf("%+v", c)
	if n.state.Tunnel == config {
		if t, err := overlay.Find(c); err == nil {
			return t, nil
		}
	}
	n.state.Tunnel = config
	if err := n.state.save(n.o.Dir); err != nil {
		return nil, fmt.Errorf("record the tunnel: %w", err)
	}
	return overlay.Open(c)
}

// tunnelName begins like the pods' interfaces, so that rules for these apply to the tunnel too.
func tunnelName(bridge string) string { return bridge + "-x" }

// tunnelRules says who may send through the tunnel.
func (n *Net) tunnelRules() (t ruleset.Tunnel) {
	if n.state.Tunnel == "" {
		return t
	}
	t.Name, t.Port, t.Identifier = tunnelName(n.name), n.o.At.Port(), overlay.Identifier(n.pods)
	for _, p := range n.peers.far {
		t.Peers = append(t.Peers, p.At.Addr())
	}
	return t
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

// mtuAt returns the MTU of the interface with an address, Ethernet's if there is none.
func mtuAt(a netip.Addr) int {
	all, _ := netlink.AddrList(nil, netlink.FAMILY_V4)
	for _, own := range all {
		if own.IP.Equal(a.AsSlice()) {
			if link, err := netlink.LinkByIndex(own.LinkIndex); err == nil {
				return link.Attrs().MTU
			}
		}
	}
	return 1500
}
