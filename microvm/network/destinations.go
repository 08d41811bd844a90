package network

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/network/ruleset"
	"github.com/nodeless/nodeless/microvm/network/services"
)

// destinations are the addresses that stand for endpoints: Services', and this machine's own as a name server.
func (n *Net) destinations(s *services.Snapshot) []ruleset.Destination {
	all := serviceDestinations(s, n.o.Services, n.reaches, n.pods.Contains)
	if n.o.Joined {
		n.standIn(all)
	}
	if n.dns.At().Port() != dnsPort { // another program has that port: only pods must not notice
		for _, p := range []ruleset.Protocol{ruleset.UDP, ruleset.TCP} {
			all = append(all, ruleset.Destination{
				Name: "names/" + p.String(), At: netip.AddrPortFrom(n.machine, dnsPort), Protocol: p,
				To: []netip.AddrPort{n.dns.At()},
			})
		}
	}
	return all
}

var protocols = map[corev1.Protocol]ruleset.Protocol{
	corev1.ProtocolTCP: ruleset.TCP, corev1.ProtocolUDP: ruleset.UDP, corev1.ProtocolSCTP: ruleset.SCTP,
}

// standIn leads to this process what is for the cluster's DNS or the API server and finds nobody there.
func (n *Net) standIn(all []ruleset.Destination) {
	for i := range all {
		if d := &all[i]; len(d.To) == 0 {
			switch d.Name {
			case destinationName(services.Name{Namespace: dnsNamespace, Name: dnsName}, corev1.ProtocolUDP, dnsPort),
				destinationName(services.Name{Namespace: dnsNamespace, Name: dnsName}, corev1.ProtocolTCP, dnsPort):
				d.To = []netip.AddrPort{n.dns.At()}
			case destinationName(services.Name{Namespace: apiNamespace, Name: apiName}, corev1.ProtocolTCP, apiPort):
				d.To = []netip.AddrPort{n.api.At()}
			}
		}
	}
}

func destinationName(s services.Name, p corev1.Protocol, port uint16) string {
	return fmt.Sprintf("service/%s/%s/%s/%d", s.Namespace, s.Name, strings.ToLower(string(p)), port)
}

// serviceDestinations are those of Services with addresses of a range. Pods that are not reached are no endpoints:
// those of simulated machines have addresses that lead nowhere.
func serviceDestinations(s *services.Snapshot, addresses netip.Prefix, reached,
	here func(netip.Addr) bool,
) []ruleset.Destination {
	var all []ruleset.Destination
	for _, service := range s.All {
		for _, ip := range service.IPs {
			if !addresses.Contains(ip) {
				continue
			}
			for _, port := range service.Ports {
				all = append(all, ruleset.Destination{
					Name: destinationName(service.Name, port.Protocol, port.Number), At: netip.AddrPortFrom(ip, port.Number),
					Protocol: protocols[port.Protocol], Sticky: service.Sticky,
					To: service.Targets(port, endpoints(service.InternalLocal, reached, here)),
				})
			}
		}
	}
	return all
}

// nodePorts are those of Services.
func nodePorts(s *services.Snapshot, reached, here func(netip.Addr) bool) []ruleset.Destination {
	var all []ruleset.Destination
	for _, service := range s.All {
		for _, port := range service.Ports {
			if port.NodePort > 0 {
				all = append(all, ruleset.Destination{
					Name: fmt.Sprintf("node-port/%s/%d", strings.ToLower(string(port.Protocol)), port.NodePort),
					At:   netip.AddrPortFrom(netip.IPv4Unspecified(), port.NodePort), Protocol: protocols[port.Protocol],
					Sticky: service.Sticky,
					To:     service.Targets(port, endpoints(service.ExternalLocal, reached, here)),
				})
			}
		}
	}
	return all
}

// endpoints are those that count: of this host alone, or all that are reached.
func endpoints(local bool, reached, here func(netip.Addr) bool) func(services.Endpoint) bool {
	return func(e services.Endpoint) bool {
		if local {
			return here(e.Address)
		}
		return e.Address.Is4() && (!e.Pod || reached(e.Address))
	}
}
