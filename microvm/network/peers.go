package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/nodeless/nodeless/microvm/network/overlay"
)

// Peer is another microVM host.
type Peer = overlay.Peer

// Key is the public key of a Peer, or the private one of this host.
type Key = overlay.Key

// Peers lists the other hosts whose microVMs have a network.
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

// classify groups peers by how an instance with these own addresses reaches them, and omits those that claim
// addresses of our pods. A near peer has its bridge on this instance: a loopback address alone may mean that the
// peer, on any instance, reaches the API server there.
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
	if err = n.openTunnel(); err == nil {
		err = n.tunnel.Sync(n.peers.far)
	}
	if err != nil {
		n.peers.far = nil // so that no Service routes there
		return fmt.Errorf("cannot reach pods on other hosts: %w", err)
	}
	return nil
}

// openTunnel ensures that the tunnel to other instances exists and works, whatever others have changed.
func (n *Net) openTunnel() error {
	c := overlay.Config{
		Name: tunnelName(n.name), Pods: n.pods, Port: n.o.At.Port(), MTU: mtuAt(n.o.At.Addr()) - overlay.Overhead,
		Key: n.o.Key,
	}
	if t := n.tunnel; t != nil && t.Config == c && t.Repair() == nil {
		return nil
	}
	err := n.closeTunnel()
	if n.state.Tunnel = c.Name; err == nil {
		err = n.state.save(n.o.Dir)
	}
	if err != nil {
		return fmt.Errorf("record the tunnel: %w", err)
	}
	n.tunnel, err = overlay.Open(c)
	return err
}

// closeTunnel stops what this process does for the tunnel, which remains.
func (n *Net) closeTunnel() error {
	t := n.tunnel
	if n.tunnel = nil; t == nil {
		return nil
	}
	return t.Close()
}

// tunnelName returns a name with the prefix of the pods' interfaces, so that rules for these apply to the tunnel,
// too.
func tunnelName(bridge string) string { return bridge + "-x" }

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
