package ruleset

import "net/netip"

// fromPods are the rules for whom packets are from.
func fromPods(c Config) []rule {
	rules := []rule{
		// Else the endpoint would see a packet from itself, and throw it away.
		{inSet(loops), masquerade()},
	}
	for _, p := range c.Near { // they see who asks
		rules = append(rules, rule{source(c.Pods), destination(p.Addr(), p.Bits()), verdict(accept)})
	}
	rules = append(rules, rule{source(c.Pods), notOutLinks(c.Links), masquerade()})
	if c.Tunnel.Name != "" { // the answer has to come back by the tunnel
		rules = append(rules, rule{out(c.Tunnel.Name), notSource(c.Pods), masquerade()})
	}
	return rules
}

// inThisName are the rules for what leaves in the name of this machine and is somebody else's, such as a pod's: other
// hosts would take it for what this one says of its pods. They are known by their content: the port is what each host
// says.
func inThisName(c Config) []rule {
	var rules []rule
	for _, id := range c.Overlay {
		rules = append(rules, rule{notOutLinks(c.Links), masqueraded(), vxlan(id), verdict(drop)})
	}
	return rules
}

// arriving are the rules for what is for this machine itself.
func arriving(c Config) []rule {
	var rules []rule
	if c.Tunnel.Name != "" { // whoever sends there speaks for pods
		for _, a := range c.Tunnel.Peers {
			rules = append(rules, rule{source(netip.PrefixFrom(a, 32)), udpTo(c.Tunnel.Port), verdict(accept)})
		}
		rules = append(rules, rule{udpTo(c.Tunnel.Port), identifier(c.Tunnel.Identifier), verdict(drop)},
			// What comes by the tunnel is for pods, or for this machine as one of them: none of its other addresses, which its
			// firewall may guard elsewhere.
			rule{in(c.Tunnel.Name), established(), verdict(accept)}, rule{in(c.Tunnel.Name), notDestination(c.Host), reject()})
	}
	// The gateways to the API server and to the names are the pods' and this machine's.
	return append(rules, rule{destination(c.Host, 32), notInLinks(c.Links), notIn("lo"), reject()})
}

// through are the rules for what is forwarded.
func through(c Config) []rule {
	rules := []rule{{established(), verdict(accept)}}
	if c.Tunnel.Name != "" { // other hosts' pods come for pods, and nothing else
		rules = append(rules, rule{in(c.Tunnel.Name), notOutLinks(c.Links), reject()},
			rule{in(c.Tunnel.Name), out(c.Tunnel.Name), verdict(drop)})
	}
	rules = append(rules, []rule{
		{inLinks(c.Links), destination(c.Services.Addr(), c.Services.Bits()), tcp(), reset()},
		{inLinks(c.Links), destination(c.Services.Addr(), c.Services.Bits()), reject()},
		{inLinks(c.Links), destination(linkLocal.Addr(), linkLocal.Bits()), reject()},
		{inLinks(c.Links), verdict(accept)},
	}...)
	for _, p := range c.Near {
		rules = append(rules, rule{inLinks(anyLinks), source(p), outLinks(c.Links), verdict(accept)})
	}
	if c.Public {
		rules = append(rules, rule{outLinks(c.Links), translated(), verdict(accept)})
	}
	rules = append(rules, rule{outLinks(c.Links), reject()})
	for _, name := range c.Opened {
		rules = append(rules, rule{in(name), verdict(drop)})
	}
	return rules
}

// toNodePorts leads to them who may ask there.
func toNodePorts(c Config) rule {
	if c.Public {
		return rule{local(), lookUpPort(nodePorts)}
	}
	return rule{inLinks(c.Links), local(), lookUpPort(nodePorts)}
}

// choices are the rules of a destination's chain: one of its endpoints each.
func choices(d Destination) []rule {
	var rules []rule
	n := len(d.To)
	for i, to := range d.To {
		switch {
		case n == 1:
			rules = append(rules, rule{dnat(to)})
		case d.Sticky:
			rules = append(rules, rule{hashOfSource(n, i), dnat(to)})
		case i == n-1:
			rules = append(rules, rule{dnat(to)})
		default: // of those that are left, each with the same chance
			rules = append(rules, rule{oneIn(n - i), dnat(to)})
		}
	}
	return rules
}
