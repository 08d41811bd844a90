package podnet

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/internal/podnet/ruleset"
	"github.com/nodeless/nodeless/internal/podnet/services"
)

// destinations are the addresses that stand for endpoints: Services', and this machine's own as a name server.
func (n *Net) destinations(s *services.Snapshot) []ruleset.Destination {
	all := serviceDestinations(s, n.o.Services, n.pods)
	if n.dns.At().Port() != dnsPort { // another program has that port: only pods must not notice
		for _, p := range []ruleset.Protocol{ruleset.UDP, ruleset.TCP} {
			all = append(all, ruleset.Destination{
				Name: "names/" + p.String(), At: netip.AddrPortFrom(n.machine, dnsPort), Protocol: p, To: []netip.AddrPort{n.dns.At()},
			})
		}
	}
	return all
}

var protocols = map[corev1.Protocol]ruleset.Protocol{
	corev1.ProtocolTCP: ruleset.TCP, corev1.ProtocolUDP: ruleset.UDP, corev1.ProtocolSCTP: ruleset.SCTP,
}

// serviceDestinations are those of Services with addresses of a range. Pods elsewhere than in microVMs of this machine are no endpoints: those of simulated
// machines have addresses that lead nowhere.
func serviceDestinations(s *services.Snapshot, addresses, pods netip.Prefix) []ruleset.Destination {
	here := func(e services.Endpoint) bool { return e.Address.Is4() && (!e.Pod || pods.Contains(e.Address)) }
	var all []ruleset.Destination
	for _, service := range s.All {
		for _, ip := range service.IPs {
			if !addresses.Contains(ip) {
				continue
			}
			for _, port := range service.Ports {
				protocol := protocols[port.Protocol]
				all = append(all, ruleset.Destination{
					Name: fmt.Sprintf("service/%s/%s/%s/%d", service.Namespace, service.Name.Name, strings.ToLower(string(port.Protocol)), port.Number),
					At:   netip.AddrPortFrom(ip, port.Number), Protocol: protocol, Sticky: service.Sticky, To: service.Targets(port, here),
				})
			}
		}
	}
	return all
}
