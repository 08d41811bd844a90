package ruleset

import (
	"fmt"
	"strings"
)

// rules returns the lines of a formatted text.
func rules(format string, args ...any) []string {
	return strings.Split(fmt.Sprintf(format, args...), "\n")
}

// in, notIn, out and notOut match the pods' interfaces.
func (c Config) in() string     { return fmt.Sprintf(`iifname "%s*"`, c.Links) }
func (c Config) notIn() string  { return fmt.Sprintf(`iifname != "%s*"`, c.Links) }
func (c Config) out() string    { return fmt.Sprintf(`oifname "%s*"`, c.Links) }
func (c Config) notOut() string { return fmt.Sprintf(`oifname != "%s*"`, c.Links) }

// services looks up the VIPs of pods' packets, and the node ports of all packets or, unless Public, of pods' packets.
func (c Config) services() []string {
	ports := "fib daddr type local meta l4proto . th dport vmap @" + nodePorts
	if !c.Public {
		ports = c.in() + " " + ports
	}
	return []string{c.in() + " ip daddr . meta l4proto . th dport vmap @" + destinations, ports}
}

// masquerade replaces the source of packets from pods to other destinations with the host's address.
func (c Config) masquerade() []string {
	// An endpoint would drop packets from its own address.
	list := []string{"ip saddr . ip daddr @" + loops + " masquerade"}
	for _, p := range c.Near { // these pods see the client's address
		list = append(list, fmt.Sprintf("ip saddr %s ip daddr %s accept", c.Pods, p))
	}
	list = append(list, fmt.Sprintf("ip saddr %s %s masquerade", c.Pods, c.notOut()))
	if c.Tunnel != "" { // replies must return through the tunnel
		list = append(list, fmt.Sprintf("oifname %q ip saddr != %s masquerade", c.Tunnel, c.Pods))
	}
	return list
}

// input filters packets to the instance itself.
func (c Config) input() []string {
	var list []string
	if t := c.Tunnel; t != "" {
		// Packets from the tunnel may reach pods and the host's address in their range, but none of the instance's other
		// addresses, which its own firewall may guard on other interfaces.
		list = rules(`iifname %q ct state established,related accept
iifname %q ip daddr != %s reject`, t, t, c.Host)
	}
	// The cluster DNS and the gateway to the API server listen there, for pods and this instance.
	return append(list, fmt.Sprintf(`ip daddr %s %s iifname != "lo" reject`, c.Host, c.notIn()))
}

// forward filters the packets that this instance forwards.
func (c Config) forward() []string {
	list := []string{"ct state established,related accept"}
	if t := c.Tunnel; t != "" { // packets from other hosts go to pods only
		list = append(list, rules("iifname %q %s reject\niifname %q oifname %q drop", t, c.notOut(), t, t)...)
	}
	list = append(list, rules(`%[1]s ip daddr %[2]s meta l4proto tcp reject with tcp reset
%[1]s ip daddr %[2]s reject
%[1]s ip daddr %[3]s reject
%[1]s accept`, c.in(), c.Services, linkLocal)...)
	for _, p := range c.Near {
		list = append(list, fmt.Sprintf(`iifname "%s*" ip saddr %s %s accept`, anyLinks, p, c.out()))
	}
	if c.Public {
		list = append(list, c.out()+" ct status dnat accept")
	}
	list = append(list, c.out()+" reject")
	for _, name := range c.Opened {
		list = append(list, fmt.Sprintf("iifname %q drop", name))
	}
	return list
}

// balance chooses one of the endpoints: by a hash of the client's address if the destination is sticky, else at
// random.
func (d Destination) balance() []string {
	var list []string
	for i, to := range d.To {
		match := ""
		switch left := len(d.To) - i; {
		case len(d.To) == 1:
		case d.Sticky:
			match = fmt.Sprintf("jhash ip saddr mod %d seed 0x1 %d ", len(d.To), i)
		case left > 1: // all remaining endpoints are equally likely
			match = fmt.Sprintf("numgen random mod %d 0 ", left)
		}
		list = append(list, match+"dnat to "+to.String())
	}
	return list
}
