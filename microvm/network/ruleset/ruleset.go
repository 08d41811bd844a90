// Package ruleset is the firewall of pods in microVMs: their way out (NAT), Service VIPs and node ports (DNAT), and
// the destinations that they must not reach. It is one nftables table of our own, which is replaced as a whole and
// atomically; other tables are never touched.
//
// New writes the table in nft's language, so that it can be tested and read without a kernel; Program compiles that
// text and sends it over netlink, without the nft program.
package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Config determines the rules.
type Config struct {
	Table string // our own table
	// Links is the prefix of the names of the pods' interfaces.
	Links string
	// Pods are the addresses of this host's pods; Host is the host's own address among them.
	Pods netip.Prefix
	Host netip.Addr
	// Services is the range of Service VIPs: packets to it go to an endpoint or are rejected.
	Services netip.Prefix
	// Opened are the interfaces on which forwarding is enabled for pods only: other packets from them are dropped.
	Opened []string
	// Near are the pods of other microVM hosts on this instance, whose packets arrive on those hosts' interfaces.
	Near []netip.Prefix
	// Tunnel is the interface to hosts on other instances, "" if there is none. Its name begins with Links. Packets
	// that arrive on it come from those hosts' pods.
	Tunnel string
	// Destinations are sorted and distinct.
	Destinations []Destination
	// NodePorts are destinations at every address of this instance except loopback; At is a port only. They serve pods,
	// the instance itself and, if Public is set, all others.
	NodePorts []Destination
	Public    bool
}

// Destination is an address that represents endpoints.
type Destination struct {
	Name     string // of its chain: a letter, then letters, digits and /-_.
	At       netip.AddrPort
	Protocol Protocol
	Sticky   bool // a client keeps its endpoint as long as the endpoints stay the same
	To       []netip.AddrPort
}

// Protocol is a transport protocol, as nft names it.
type Protocol string

// Protocols of Services.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	SCTP Protocol = "sctp"
)

// Ruleset is a table.
type Ruleset struct {
	table  string
	sets   []set
	chains []chain
}

// set is a named set of concatenated keys or, if its types end with a verdict, a map of them to chains.
type set struct {
	name, types string
	elements    []element
}

type element struct {
	key   string // as "10.96.0.1 . tcp . 443"
	chain string // "" in a set
}

type chain struct {
	name  string
	hook  string // type, hook and priority; "" for a chain that a map goes to
	rules []string
}

// Names of sets.
const (
	destinations = "destinations" // VIP, protocol and port → chain
	nodePorts    = "node-ports"   // protocol and port → chain
	loops        = "loops"        // an endpoint twice: it connects to itself through a Service
)

// anyLinks is the prefix of every Links.
const anyLinks = "nl"

// linkLocal contains the cloud's metadata service, which hands out the instance's credentials.
const linkLocal = "169.254.0.0/16"

// New returns the rules for a configuration.
func New(c Config) Ruleset {
	r := Ruleset{table: c.Table, sets: c.sets(), chains: []chain{
		// The kernel's reverse path filter does not suffice: if it is loose for all interfaces, as on Ubuntu, it accepts
		// any routable source.
		{"anti-spoofing", "type filter hook prerouting priority -300", rules("%s fib saddr . iif oif missing drop", c.in())},
		{"services", "type nat hook prerouting priority -100", c.services()},
		{"services-of-host", "type nat hook output priority -100", []string{
			"ip daddr . meta l4proto . th dport vmap @" + destinations,
			"ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @" + nodePorts,
		}},
		{"masquerade", "type nat hook postrouting priority 100", c.masquerade()},
		{"forward", "type filter hook forward priority 0", c.forward()},
		{"input", "type filter hook input priority 0", c.input()},
		{"output", "type filter hook output priority 0", slices.Concat(
			// A pod that connects to itself through a Service must not learn a shorter route to the VIP: it would keep it.
			rules("%s icmp type redirect drop", c.out()),
			rules("ip daddr %s meta l4proto tcp reject with tcp reset", c.Services),
			rules("ip daddr %s reject", c.Services))},
	}}
	for _, d := range slices.Concat(c.Destinations, c.NodePorts) {
		if len(d.To) > 0 {
			r.chains = append(r.chains, chain{d.Name, "", d.balance()})
		}
	}
	return r
}

// sets returns the destinations and node ports that have endpoints, and the pods among the endpoints.
func (c Config) sets() []set {
	vips := set{name: destinations, types: "ipv4_addr . inet_proto . inet_service : verdict"}
	ports := set{name: nodePorts, types: "inet_proto . inet_service : verdict"}
	own := set{name: loops, types: "ipv4_addr . ipv4_addr"}
	for _, d := range c.Destinations {
		if len(d.To) > 0 { // others are rejected, like every VIP that is not in the map
			key := fmt.Sprintf("%s . %s . %d", d.At.Addr(), d.Protocol, d.At.Port())
			vips.elements = append(vips.elements, element{key, d.Name})
		}
	}
	for _, d := range c.NodePorts {
		if len(d.To) > 0 { // others remain ports of the instance
			ports.elements = append(ports.elements, element{fmt.Sprintf("%s . %d", d.Protocol, d.At.Port()), d.Name})
		}
	}
	seen := map[netip.Addr]bool{}
	for _, d := range slices.Concat(c.Destinations, c.NodePorts) {
		for _, to := range d.To {
			if a := to.Addr(); !seen[a] && c.Pods.Contains(a) {
				seen[a] = true
				own.elements = append(own.elements, element{key: fmt.Sprintf("%s . %s", a, a)})
			}
		}
	}
	return []set{vips, ports, own}
}

// String returns the table as nft prints it.
func (r Ruleset) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %s {\n", r.table)
	for _, s := range r.sets {
		kind := "set"
		if s.isMap() {
			kind = "map"
		}
		fmt.Fprintf(&b, "\t%s %s {\n\t\ttype %s\n", kind, s.name, s.types)
		for _, e := range s.elements {
			b.WriteString("\t\t" + e.key)
			if e.chain != "" {
				b.WriteString(" : goto " + e.chain)
			}
			b.WriteByte('\n')
		}
		b.WriteString("\t}\n")
	}
	for _, c := range r.chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.name)
		if c.hook != "" {
			fmt.Fprintf(&b, "\t\t%s; policy accept;\n", c.hook)
		}
		for _, rule := range c.rules {
			b.WriteString("\t\t" + rule + "\n")
		}
		b.WriteString("\t}\n")
	}
	return b.String() + "}\n"
}
