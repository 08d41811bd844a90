// Package ruleset makes the firewall's rules for pods in microVMs and puts them into the kernel: the way out for pods
// (NAT), the way to Services, and what is not to be reached. All is in one nftables table of our own, which is
// replaced as a whole and at once; other tables are never touched.
//
// The rules are values, which are printed in nft's language, before they are the kernel's: what they say is tested
// without a kernel.
package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
)

// Config is what the rules are made from.
type Config struct {
	Table string // of our own
	// Links is what the names of interfaces begin with behind which the pods are.
	Links string
	// Pods are the pods' addresses; Host is the machine's among them.
	Pods netip.Prefix
	Host netip.Addr
	// Services are the addresses of Services: packets to them go to an endpoint or are refused.
	Services netip.Prefix
	// Opened are interfaces that forward packets for the pods' sake alone: nothing but the pods' passes them.
	Opened []string
	// Near are the addresses of pods of other hosts on this very machine: they come by interfaces of theirs.
	Near []netip.Prefix
	// Tunnel is how pods of hosts on other machines come; its Name, which begins with Links, is "" if there is none.
	Tunnel Tunnel
	// Overlay are the identifiers of other hosts' networks (VNI): these hosts believe what comes from this machine's
	// addresses.
	Overlay []uint32
	// Destinations are in order and different.
	Destinations []Destination
	// NodePorts are destinations at all of this machine's addresses but loopback's: At has a port alone. They are for
	// pods and the machine itself, and for everybody if it is Public.
	NodePorts []Destination
	Public    bool
}

// Tunnel is an interface whose packets arrive at a UDP port of this machine.
type Tunnel struct {
	Name       string
	Port       uint16
	Identifier uint32       // of its network (VNI): the port may be others' too
	Peers      []netip.Addr // who may send there, and nobody else
}

// Destination is an address that stands for endpoints.
type Destination struct {
	Name     string // of the chain: a letter, then letters, digits and /-_.
	At       netip.AddrPort
	Protocol Protocol
	Sticky   bool // the same client to the same endpoint, as long as the endpoints stay the same
	To       []netip.AddrPort
}

// Protocol above IP.
type Protocol byte

// Protocols of Services.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return fmt.Sprint(byte(p))
}

// Ruleset is a table.
type Ruleset struct {
	table  string
	sets   []set
	chains []chain
}

// set is a named set of concatenated keys; a map of verdicts if chains are given.
type set struct {
	name, types string
	keys        nftables.SetDatatype
	elements    []element
	isMap       bool
}

type element struct {
	text  string
	key   []byte
	chain string // "" in a plain set
}

type chain struct {
	name  string
	hook  *hook // nil: it is jumped to
	rules []rule
}

type hook struct {
	text     string // type, hook, priority
	kind     nftables.ChainType
	number   *nftables.ChainHook
	priority *nftables.ChainPriority
}

var (
	before = &hook{
		"type filter hook prerouting priority -300", nftables.ChainTypeFilter,
		nftables.ChainHookPrerouting, nftables.ChainPriorityRaw,
	}
	after = &hook{
		"type filter hook postrouting priority 300", nftables.ChainTypeFilter,
		nftables.ChainHookPostrouting, nftables.ChainPriorityRef(300),
	}
	dstnat = &hook{
		"type nat hook prerouting priority -100", nftables.ChainTypeNAT, nftables.ChainHookPrerouting,
		nftables.ChainPriorityNATDest,
	}
	localDstnat = &hook{
		"type nat hook output priority -100", nftables.ChainTypeNAT, nftables.ChainHookOutput,
		nftables.ChainPriorityNATDest,
	}
	srcnat = &hook{
		"type nat hook postrouting priority 100", nftables.ChainTypeNAT, nftables.ChainHookPostrouting,
		nftables.ChainPriorityNATSource,
	}
	forward = &hook{
		"type filter hook forward priority 0", nftables.ChainTypeFilter, nftables.ChainHookForward,
		nftables.ChainPriorityFilter,
	}
	input = &hook{
		"type filter hook input priority 0", nftables.ChainTypeFilter, nftables.ChainHookInput,
		nftables.ChainPriorityFilter,
	}
	output = &hook{
		"type filter hook output priority 0", nftables.ChainTypeFilter, nftables.ChainHookOutput,
		nftables.ChainPriorityFilter,
	}
)

// Names of sets.
const (
	destinations = "destinations" // address, protocol and port of what stands for endpoints → its chain
	nodePorts    = "node-ports"   // protocol and port of this machine → its chain
	loops        = "loops"        // an endpoint twice: it came to itself by a Service
)

// anyLinks is what all names begin with that Links can be.
const anyLinks = "nl"

// linkLocal addresses are the cloud's, with the machine's credentials among other things, and nobody else's.
var linkLocal = netip.MustParsePrefix("169.254.0.0/16")

// New makes the rules.
func New(c Config) Ruleset {
	r := Ruleset{table: c.Table, sets: []set{destinationMap(c), nodePortMap(c), loopSet(c)}}
	r.chains = []chain{
		// The kernel's own reverse path filter is a loose one wherever somebody has set it so for all interfaces, as Ubuntu
		// does.
		{"whose", before, []rule{{inLinks(c.Links), noWayBack(), verdict(drop)}}},
		{"to-services", dstnat, []rule{{inLinks(c.Links), lookUp(destinations)}, toNodePorts(c)}},
		{
			"to-services-from-here", localDstnat,
			[]rule{{lookUp(destinations)}, {notLoopback(), local(), lookUpPort(nodePorts)}},
		},
		{"from-pods", srcnat, fromPods(c)},
		{"in-this-name", after, inThisName(c)},
		{"through", forward, through(c)},
		{"in", input, arriving(c)},
		{"out", output, []rule{
			// A pod that comes to itself by a Service is not to be told a shorter way: to the Service, and for good.
			{outLinks(c.Links), icmpRedirect(), verdict(drop)},
			{destination(c.Services.Addr(), c.Services.Bits()), tcp(), reset()},
			{destination(c.Services.Addr(), c.Services.Bits()), reject()},
		}},
	}
	for _, d := range slices.Concat(c.Destinations, c.NodePorts) {
		if len(d.To) > 0 {
			r.chains = append(r.chains, chain{d.Name, nil, choices(d)})
		}
	}
	return r
}

func destinationMap(c Config) set {
	s := set{
		name: destinations, types: "ipv4_addr . inet_proto . inet_service : verdict", keys: destinationKey,
		isMap: true,
	}
	for _, d := range c.Destinations {
		if len(d.To) == 0 {
			continue // refused, as all that is in no set
		}
		ip := d.At.Addr().As4()
		s.elements = append(s.elements, element{
			text:  fmt.Sprintf("%s . %s . %d", d.At.Addr(), d.Protocol, d.At.Port()),
			key:   append(ip[:], byte(d.Protocol), 0, 0, 0, byte(d.At.Port()>>8), byte(d.At.Port()), 0, 0),
			chain: d.Name,
		})
	}
	return s
}

func nodePortMap(c Config) set {
	s := set{name: nodePorts, types: "inet_proto . inet_service : verdict", keys: nodePortKey, isMap: true}
	for _, d := range c.NodePorts {
		if len(d.To) > 0 { // else it is this machine's own port
			s.elements = append(s.elements, element{
				text:  fmt.Sprintf("%s . %d", d.Protocol, d.At.Port()),
				key:   []byte{byte(d.Protocol), 0, 0, 0, byte(d.At.Port() >> 8), byte(d.At.Port()), 0, 0},
				chain: d.Name,
			})
		}
	}
	return s
}

func loopSet(c Config) set {
	s := set{name: loops, types: "ipv4_addr . ipv4_addr", keys: loopKey}
	seen := map[netip.Addr]bool{}
	for _, d := range slices.Concat(c.Destinations, c.NodePorts) {
		for _, to := range d.To {
			if a := to.Addr(); !seen[a] && c.Pods.Contains(a) {
				seen[a] = true
				ip := a.As4()
				s.elements = append(s.elements, element{text: fmt.Sprintf("%s . %s", a, a), key: append(ip[:], ip[:]...)})
			}
		}
	}
	return s
}

var (
	destinationKey = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
	nodePortKey    = nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
	loopKey        = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr)
)

// String is the table as nft writes it.
func (r Ruleset) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %s {\n", r.table)
	for _, s := range r.sets {
		kind := "set"
		if s.isMap {
			kind = "map"
		}
		fmt.Fprintf(&b, "\t%s %s {\n\t\ttype %s\n", kind, s.name, s.types)
		for _, e := range s.elements {
			b.WriteString("\t\t" + e.text)
			if e.chain != "" {
				b.WriteString(" : goto " + e.chain)
			}
			b.WriteByte('\n')
		}
		b.WriteString("\t}\n")
	}
	for _, c := range r.chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.name)
		if c.hook != nil {
			fmt.Fprintf(&b, "\t\t%s; policy accept;\n", c.hook.text)
		}
		for _, rule := range c.rules {
			b.WriteString("\t\t" + rule.String() + "\n")
		}
		b.WriteString("\t}\n")
	}
	return b.String() + "}\n"
}
