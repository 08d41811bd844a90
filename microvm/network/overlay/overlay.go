// Package overlay carries packets between the pods of microVM hosts on several instances, encrypted and authenticated:
// a WireGuard interface (https://www.wireguard.com/papers/wireguard.pdf) with a route for each peer. It needs root.
//
// If the kernel has WireGuard, the interface works on without this process. Otherwise this process encrypts: without
// it the interface and its routes remain, but packets sent there are lost until the next process takes the interface
// over.
//
// A packet from a peer is accepted only with the peer's key and from the addresses of its pods. Each host's own
// address in the tunnel is the first one of its pods' range.
package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// Overhead is the number of bytes that the overlay adds to each packet: the IPv4 and UDP headers, WireGuard's header
// and its authentication tag.
const Overhead = 20 + 8 + 16 + 16

// Port is the default UDP port on which hosts receive each other's packets.
const Port = 8476

// Config of the interface.
type Config struct {
	Name string
	// Pods are this host's; the first address is the host's own.
	Pods netip.Prefix
	Port uint16 // UDP port on which peers' packets arrive
	MTU  int
	Key  Key // private
}

// Peer is another microVM host.
type Peer struct {
	// Pods are the addresses of its microVMs.
	Pods netip.Prefix
	// At is where it receives packets for them.
	At  netip.AddrPort
	Key Key // public
}

// Tunnel is the interface, as used by this process. See Close.
type Tunnel struct {
	Config
	link   netlink.Link
	crypt  crypt
	synced []Peer
}

// Open takes over the interface, which an earlier process may have left half-configured, or creates it.
func Open(c Config) (*Tunnel, error) {
	link, err := netlink.LinkByName(c.Name)
	if err == nil {
		if t, err := c.use(link); err == nil {
			return t, nil
		}
		if err := Delete(c.Name); err != nil { // for instance one that is not WireGuard's
			return nil, err
		}
	}
	if err := createLink(c.Name); err != nil {
		return nil, c.explain(err)
	}
	if link, err = netlink.LinkByName(c.Name); err != nil {
		return nil, c.explain(err)
	}
	t, err := c.use(link)
	if err != nil {
		return nil, errors.Join(c.explain(err), Delete(c.Name))
	}
	return t, nil
}

// use starts encrypting on an interface.
func (c Config) use(link netlink.Link) (*Tunnel, error) {
	t := &Tunnel{Config: c, link: link}
	var err error
	if t.crypt, err = newCrypt(link, c.MTU); err != nil {
		return nil, err
	}
	port := int(c.Port)
	if err = t.crypt.configure(wgtypes.Config{PrivateKey: &c.Key, ListenPort: &port}); err == nil {
		err = t.Repair()
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close stops what this process does for the interface, which remains. See Delete.
func (t *Tunnel) Close() error { return t.crypt.Close() }

// explain adds advice to an error of the kernel.
func (c Config) explain(err error) error {
	advice := ""
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		advice = ": this machine's kernel has neither WireGuard nor TUN devices; install and load one of these modules " +
			"(modprobe wireguard, modprobe tun)"
	case errors.Is(err, unix.EADDRINUSE):
		advice = fmt.Sprintf(": UDP port %d is another program's; choose another one with --overlay-port", c.Port)
	}
	return fmt.Errorf("tunnel %s: %w%s", c.Name, err, advice)
}

// Delete removes an interface and all routes through it. It is no error if there is none.
func Delete(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove tunnel %s: %w", name, err)
	}
	return nil
}

// Repair configures the interface like the pods' taps (sandbox.Bridge) and brings it up, whatever others have
// changed.
func (t *Tunnel) Repair() error {
	for setting, value := range map[string]string{
		"ipv4/conf/%s/forwarding": "1", "ipv4/conf/%s/rp_filter": "1", "ipv6/conf/%s/disable_ipv6": "1",
	} {
		err := os.WriteFile(filepath.Join("/proc/sys/net", fmt.Sprintf(setting, t.Name)), []byte(value), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the kernel may lack IPv6
			return err
		}
	}
	own := netip.PrefixFrom(gateway(t.Pods), 32)
	if err := netlink.AddrReplace(t.link, &netlink.Addr{IPNet: ipNet(own)}); err != nil {
		return fmt.Errorf("give %s the address %s: %w", t.Name, own.Addr(), err)
	}
	return errors.Join(netlink.LinkSetMTU(t.link, t.MTU), netlink.LinkSetUp(t.link))
}

// Sync makes the tunnel's peers and routes match peers, without disturbing those that stay.
func (t *Tunnel) Sync(peers []Peer) error {
	err := t.syncPeers(peers)
	if err == nil {
		t.synced = slices.Clone(peers)
		err = t.syncRoutes(peers)
	}
	if err != nil {
		return fmt.Errorf("tunnel %s: %w", t.Name, err)
	}
	return nil
}

// syncPeers configures how each peer's packets are encrypted and decrypted. A peer that claims another one's key gets
// none of the other's packets, which only the owner of the key can decrypt.
func (t *Tunnel) syncPeers(peers []Peer) error {
	known, err := t.crypt.peers()
	if err != nil {
		return fmt.Errorf("list peers: %w", err)
	}
	var changes []wgtypes.PeerConfig
	for _, p := range peers {
		if i := slices.IndexFunc(changes, func(c wgtypes.PeerConfig) bool { return c.PublicKey == p.Key }); i >= 0 {
			changes[i].AllowedIPs = append(changes[i].AllowedIPs, *ipNet(p.Pods))
			continue
		}
		c := wgtypes.PeerConfig{PublicKey: p.Key, ReplaceAllowedIPs: true, AllowedIPs: []net.IPNet{*ipNet(p.Pods)}}
		// A peer last heard from at another address, such as behind network address translation, keeps that endpoint.
		if !slices.Contains(known, p.Key) || !slices.Contains(t.synced, p) {
			c.Endpoint = net.UDPAddrFromAddrPort(p.At)
		}
		changes = append(changes, c)
	}
	for _, key := range known {
		if !slices.ContainsFunc(peers, func(p Peer) bool { return p.Key == key }) {
			changes = append(changes, wgtypes.PeerConfig{PublicKey: key, Remove: true})
		}
	}
	return t.crypt.configure(wgtypes.Config{Peers: changes})
}

// syncRoutes routes to the peers' pods. Packets from this host itself get its address in the tunnel.
func (t *Tunnel) syncRoutes(peers []Peer) error {
	routes, err := netlink.RouteList(t.link, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	var failed []error
	for _, r := range routes {
		pods, err := netip.ParsePrefix(r.Dst.String())
		if err == nil && !slices.ContainsFunc(peers, func(p Peer) bool { return p.Pods == pods }) {
			if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				failed = append(failed, fmt.Errorf("remove the route to the pods %s: %w", pods, err))
			}
		}
	}
	for _, p := range peers {
		if err := netlink.RouteReplace(&netlink.Route{
			LinkIndex: t.link.Attrs().Index, Dst: ipNet(p.Pods), Src: gateway(t.Pods).AsSlice(), Scope: netlink.SCOPE_LINK,
			Protocol: unix.RTPROT_STATIC,
		}); err != nil {
			failed = append(failed, fmt.Errorf("route to the pods %s at %s: %w", p.Pods, p.At, err))
		}
	}
	return errors.Join(failed...)
}

func ipNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// gateway returns the host's address in the range of its pods.
func gateway(pods netip.Prefix) netip.Addr { return pods.Masked().Addr().Next() }
