// Package clusterdns is the cluster's DNS: it answers for Services, their endpoints and pods as "Kubernetes DNS-Based
// Service Discovery" (specification 1.1.0) says, and passes all other questions on to the machine's own name servers.
package clusterdns

import (
	"net/netip"
	"strings"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// Version of the specification that the answers follow; the name dns-version of the zone has it.
const Version = "1.1.0"

// Zone is what is answered for.
type Zone struct {
	// Domain of the cluster, with a dot at its end: "cluster.local.".
	Domain string
	// Ranges of addresses whose names nobody else knows.
	Ranges []netip.Prefix
}

// found is what there is under a name.
type found struct {
	exists    bool
	addresses []netip.Addr
	ports     []target
	alias     string // the other name that it is short for; "" if it is none
	names     []string
	text      string
	apex      bool
}

// target of an SRV record.
type target struct {
	name      string
	port      uint16
	addresses []netip.Addr
}

// find says what a name in lower case, with a dot at its end, means; ok is false if that is not for this zone to say.
func (z Zone) find(s *services.Snapshot, name string) (f found, ok bool) {
	if address, ok := reverse(name); ok {
		return z.findAddress(s, address)
	}
	if name == z.Domain {
		return found{exists: true, apex: true}, true
	}
	rest, ok := strings.CutSuffix(name, "."+z.Domain)
	if !ok {
		return found{}, false
	}
	labels := strings.Split(rest, ".")
	kind := labels[len(labels)-1]
	labels = labels[:len(labels)-1]
	switch kind {
	case "svc":
		return z.findService(s, labels), true
	case "pod":
		return findPod(labels), true
	case "dns-version":
		return found{exists: len(labels) == 0, text: Version}, true
	}
	return found{}, true
}

// findService finds what is under the labels before "svc": nothing, a namespace, a Service, an endpoint, or a port of
// either.
func (z Zone) findService(s *services.Snapshot, labels []string) found {
	n := len(labels)
	switch {
	case n == 0:
		return found{exists: true}
	case n == 1:
		return found{exists: s.Namespace(labels[0])}
	}
	service := s.Find(services.Name{Namespace: labels[n-1], Name: labels[n-2]})
	if service == nil {
		return found{}
	}
	before := labels[:n-2]
	switch {
	case service.ExternalName != "":
		return found{exists: len(before) == 0, alias: service.ExternalName + "."}
	case len(before) == 0:
		return found{
			exists: true, addresses: addressesOf(service),
			ports: z.ports(service, func(services.Port) bool { return true }),
		}
	case len(before) == 2 && strings.HasPrefix(before[0], "_") && strings.HasPrefix(before[1], "_"):
		ports := z.ports(service, func(p services.Port) bool {
			return p.Name == before[0][1:] && strings.EqualFold(string(p.Protocol), before[1][1:])
		})
		return found{exists: len(ports) > 0, ports: ports}
	case len(before) == 1 && strings.HasPrefix(before[0], "_"): // a name between others
		return found{exists: len(z.ports(service,
			func(p services.Port) bool { return strings.EqualFold(string(p.Protocol), before[0][1:]) })) > 0}
	case len(before) == 1:
		return z.findEndpoint(service, before[0])
	}
	return found{}
}

// addressesOf a Service's name: its own, or those of its endpoints.
func addressesOf(s *services.Service) []netip.Addr {
	if !s.Headless() {
		return s.IPs
	}
	var all []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, e := range s.Endpoints {
		if e.Ready && !seen[e.Address] {
			seen[e.Address] = true
			all = append(all, e.Address)
		}
	}
	return all
}

// ports are those of the Service, or of each endpoint of a headless one, that a condition holds for.
func (z Zone) ports(s *services.Service, wanted func(services.Port) bool) []target {
	var all []target
	if !s.Headless() {
		for _, p := range s.Ports {
			if wanted(p) {
				all = append(all, target{z.nameOf(s), p.Number, s.IPs})
			}
		}
		return all
	}
	for _, e := range s.Endpoints {
		if !e.Ready {
			continue
		}
		for _, p := range e.Ports {
			if wanted(p) {
				all = append(all, target{labelOf(e) + "." + z.nameOf(s), p.Number, []netip.Addr{e.Address}})
			}
		}
	}
	return all
}

// findEndpoint finds the endpoints of a Service that have a label: several addresses may be one pod's.
func (z Zone) findEndpoint(s *services.Service, label string) found {
	var f found
	for _, e := range s.Endpoints {
		if !e.Ready || strings.ToLower(labelOf(e)) != label {
			continue
		}
		f.exists = true
		f.addresses = append(f.addresses, e.Address)
		for _, p := range e.Ports {
			f.ports = append(f.ports, target{label + "." + z.nameOf(s), p.Number, []netip.Addr{e.Address}})
		}
	}
	return f
}

// labelOf an endpoint within its Service: its host name, or its address with hyphens.
func labelOf(e services.Endpoint) string {
	if e.Hostname != "" {
		return e.Hostname
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(e.Address.String())
}

func (z Zone) nameOf(s *services.Service) string {
	return s.Name.Name + "." + s.Namespace + ".svc." + z.Domain
}

// findPod answers a-b-c-d.namespace.pod with a.b.c.d, whether there is such a pod or not: the name says nothing else.
func findPod(labels []string) found {
	if len(labels) < 2 {
		return found{exists: true}
	}
	if len(labels) > 2 {
		return found{}
	}
	separator := ":"
	if strings.Count(labels[0], "-") == 3 && !strings.Contains(labels[0], "--") {
		separator = "."
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(labels[0], "-", separator))
	if err != nil {
		return found{}
	}
	return found{exists: true, addresses: []netip.Addr{a}}
}

// findAddress finds the names of an address.
func (z Zone) findAddress(s *services.Snapshot, a netip.Addr) (f found, ok bool) {
	if service := s.At(a); service != nil {
		return found{exists: true, names: []string{z.nameOf(service)}}, true
	}
	for _, service := range s.Behind(a) {
		for _, e := range service.Endpoints {
			if e.Address == a && e.Ready {
				f.exists = true
				f.names = append(f.names, labelOf(e)+"."+z.nameOf(service))
				break
			}
		}
	}
	for _, r := range z.Ranges {
		ok = ok || r.Contains(a)
	}
	return f, ok || f.exists
}

// reverse reads the address out of a name under in-addr.arpa or ip6.arpa.
func reverse(name string) (netip.Addr, bool) {
	rest, four := strings.CutSuffix(name, ".in-addr.arpa.")
	rest, six := strings.CutSuffix(rest, ".ip6.arpa.")
	labels := strings.Split(rest, ".")
	var text strings.Builder
	for i := len(labels) - 1; i >= 0; i-- {
		text.WriteString(labels[i])
		at := len(labels) - 1 - i
		switch {
		case i == 0:
		case four:
			text.WriteByte('.')
		case at%4 == 3:
			text.WriteByte(':')
		}
	}
	if four && len(labels) != 4 || six && len(labels) != 32 || four == six {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(text.String())
	return a, err == nil
}
