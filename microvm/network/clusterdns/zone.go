// Package clusterdns is the cluster's DNS: it answers for Services, their endpoints and pods according to the
// specification "Kubernetes DNS-Based Service Discovery", and forwards all other queries to the instance's own name
// servers.
package clusterdns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// Version is the version of the specification, which the zone's name dns-version returns.
const Version = "1.1.0"

// Zone is the zone of a cluster.
type Zone struct {
	// Domain ends with a dot: "cluster.local.".
	Domain string
	// Ranges are addresses for whose reverse names no other server is authoritative.
	Ranges []netip.Prefix
}

// found is what a lookup of a name finds.
type found struct {
	exists    bool
	addresses []netip.Addr
	ports     []target
	alias     string // the canonical name, if the name is an alias
	names     []string
	text      string
	apex      bool
}

// target is the target of an SRV record.
type target struct {
	name      string
	port      uint16
	addresses []netip.Addr
}

// find looks up a lower-case name that ends with a dot. ok is false if the name does not belong to the zone.
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

// findService looks up the labels before "svc": none, or those of a namespace, a Service, an endpoint, or a port of a
// Service or its endpoints.
func (z Zone) findService(s *services.Snapshot, labels []string) found {
	n := len(labels)
	switch n {
	case 0:
		return found{exists: true}
	case 1:
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
	case len(before) == 1 && strings.HasPrefix(before[0], "_"): // exists, since names below it do
		return found{exists: len(z.ports(service,
			func(p services.Port) bool { return strings.EqualFold(string(p.Protocol), before[0][1:]) })) > 0}
	case len(before) == 1:
		return z.findEndpoint(service, before[0])
	}
	return found{}
}

// addressesOf returns a Service's own addresses or, for a headless one, those of its ready endpoints.
func addressesOf(s *services.Service) []netip.Addr {
	if !s.Headless() {
		return s.IPs
	}
	var all []netip.Addr
	for _, e := range s.Endpoints {
		if e.Ready {
			all = append(all, e.Address)
		}
	}
	return slices.Compact(all) // endpoints are sorted by address
}

// ports returns the wanted ports of a Service or, for a headless one, of each ready endpoint.
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

// findEndpoint looks up the ready endpoints of a Service with a label: a pod may have several addresses.
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

// labelOf returns the label of an endpoint within its Service: its host name, or its address with hyphens.
func labelOf(e services.Endpoint) string {
	if e.Hostname != "" {
		return e.Hostname
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(e.Address.String())
}

func (z Zone) nameOf(s *services.Service) string {
	return s.Name.Name + "." + s.Namespace + ".svc." + z.Domain
}

// findPod maps a-b-c-d.namespace.pod to a.b.c.d, whether or not such a pod exists.
func findPod(labels []string) found {
	if len(labels) != 2 {
		return found{exists: len(labels) < 2}
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

// findAddress looks up the names of an address.
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
	return f, f.exists || slices.ContainsFunc(z.Ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// reverse parses a name below in-addr.arpa or ip6.arpa.
func reverse(name string) (netip.Addr, bool) {
	rest, four := strings.CutSuffix(name, ".in-addr.arpa.")
	rest, six := strings.CutSuffix(rest, ".ip6.arpa.")
	labels := strings.Split(rest, ".")
	if four && len(labels) != 4 || six && len(labels) != 32 || four == six {
		return netip.Addr{}, false
	}
	slices.Reverse(labels)
	text := strings.Join(labels, ".")
	if six { // four digits between colons
		var groups []string
		for group := range slices.Chunk(labels, 4) {
			groups = append(groups, strings.Join(group, ""))
		}
		text = strings.Join(groups, ":")
	}
	a, err := netip.ParseAddr(text)
	return a, err == nil
}
