package network

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/nodeless/nodeless/microvm/network/ruleset"
	"github.com/nodeless/nodeless/microvm/network/services"
)

// destinations returns the VIPs and node ports of Services and, if needed, this host's address as a name server.
func (n *Net) destinations(s *services.Snapshot) (vips, nodePorts []ruleset.Destination) {
	vips, nodePorts = serviceDestinations(s, n.o.Services, n.reaches, n.pods.Contains)
	if n.o.Joined {
		n.standIn(vips)
	}
	if n.dns.At().Port() != dnsPort { // another program has the port; only pods are redirected
		for _, p := range []ruleset.Protocol{ruleset.UDP, ruleset.TCP} {
			vips = append(vips, ruleset.Destination{
				Name: "names/" + string(p), At: netip.AddrPortFrom(n.host, dnsPort), Protocol: p,
				To: []netip.AddrPort{n.dns.At()},
			})
		}
	}
	return vips, nodePorts
}

// standIn makes this process the endpoint of the cluster's DNS and of the API server if these have none.
func (n *Net) standIn(all []ruleset.Destination) {
	for i := range all {
		if d := &all[i]; len(d.To) == 0 {
			switch d.Name {
			case destinationName(kubeDNS, ruleset.UDP, dnsPort), destinationName(kubeDNS, ruleset.TCP, dnsPort):
				d.To = []netip.AddrPort{n.dns.At()}
			case destinationName(apiServer, ruleset.TCP, apiPort):
				d.To = []netip.AddrPort{n.api.At()}
			}
		}
	}
}

func destinationName(s services.Name, p ruleset.Protocol, port uint16) string {
	return fmt.Sprintf("service/%s/%s/%s/%d", s.Namespace, s.Name, p, port)
}

// serviceDestinations returns the VIPs in addresses and the node ports of Services. Unreachable pods are not
// endpoints: the addresses of pods on simulated nodes lead nowhere. reached reports whether pods can reach an
// address, and here whether it belongs to a pod of this host.
func serviceDestinations(s *services.Snapshot, addresses netip.Prefix, reached, here func(netip.Addr) bool,
) (vips, nodePorts []ruleset.Destination) {
	all := func(e services.Endpoint) bool { return e.Address.Is4() && (!e.Pod || reached(e.Address)) }
	local := func(e services.Endpoint) bool { return here(e.Address) }
	for _, service := range s.All {
		for _, port := range service.Ports {
			to := func(onlyLocal bool) []netip.AddrPort {
				if onlyLocal {
					return service.Targets(port, local)
				}
				return service.Targets(port, all)
			}
			protocol := ruleset.Protocol(strings.ToLower(string(port.Protocol)))
			for _, ip := range service.IPs {
				if addresses.Contains(ip) {
					vips = append(vips, ruleset.Destination{
						Name: destinationName(service.Name, protocol, port.Number), At: netip.AddrPortFrom(ip, port.Number),
						Protocol: protocol, Sticky: service.Sticky, To: to(service.InternalLocal),
					})
				}
			}
			if port.NodePort > 0 {
				nodePorts = append(nodePorts, ruleset.Destination{
					Name: fmt.Sprintf("node-port/%s/%d", protocol, port.NodePort), Protocol: protocol, Sticky: service.Sticky,
					At: netip.AddrPortFrom(netip.IPv4Unspecified(), port.NodePort), To: to(service.ExternalLocal),
				})
			}
		}
	}
	return vips, nodePorts
}
