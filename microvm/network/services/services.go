// Package services says what Services are and who stands behind them: an immutable picture made of Services and
// EndpointSlices, from which rules for packets (package ruleset) and answers of the cluster's DNS (package
// clusterdns) follow.
package services

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Name of a Service.
type Name struct{ Namespace, Name string }

// String is namespace/name.
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Port of a Service or an endpoint.
type Port struct {
	Name     string // "" where there is one alone
	Protocol corev1.Protocol
	Number   uint16
	NodePort uint16 // of a Service; 0 if it has none
}

// Endpoint is one of those that answer for a Service.
type Endpoint struct {
	Address  netip.Addr
	Hostname string // within a headless Service; "" if it has none
	// Pod: a pod, and not something that was written into a slice by hand.
	Pod bool
	// Ready takes new connections. Leaving is on its way out and still serves.
	Ready, Leaving bool
	Ports          []Port
}

// Service and its endpoints.
type Service struct {
	Name
	// IPs are its addresses; none: headless, or ExternalName.
	IPs          []netip.Addr
	ExternalName string // without a dot at its end
	// Sticky: a client stays with an endpoint (sessionAffinity ClientIP).
	Sticky bool
	// InternalLocal and ExternalLocal: clients within the cluster, and those of node ports, go to endpoints on their own
	// node alone.
	InternalLocal, ExternalLocal bool

	Ports     []Port
	Endpoints []Endpoint // by address
}

// Headless: its name stands for its endpoints.
func (s *Service) Headless() bool { return len(s.IPs) == 0 && s.ExternalName == "" }

// Snapshot is all Services at a moment. It is not changed.
type Snapshot struct {
	All        []*Service // by namespace and name
	byName     map[Name]*Service
	byIP       map[netip.Addr]*Service
	behind     map[netip.Addr][]*Service
	namespaces map[string]bool
}

// Find gives the Service of a name; nil if there is none.
func (s *Snapshot) Find(n Name) *Service { return s.byName[n] }

// At gives the Service that has an address; nil if none has.
func (s *Snapshot) At(a netip.Addr) *Service { return s.byIP[a] }

// Behind gives the headless Services that an address is an endpoint of.
func (s *Snapshot) Behind(a netip.Addr) []*Service { return s.behind[a] }

// Namespace says whether there is a Service in a namespace.
func (s *Snapshot) Namespace(name string) bool { return s.namespaces[name] }

// New makes a Snapshot. The objects must not be changed afterwards.
func New(all []*corev1.Service, endpoints []*discoveryv1.EndpointSlice) *Snapshot {
	s := &Snapshot{
		byName: map[Name]*Service{}, byIP: map[netip.Addr]*Service{}, behind: map[netip.Addr][]*Service{},
		namespaces: map[string]bool{},
	}
	for _, from := range all {
		service := fromService(from)
		s.All = append(s.All, service)
		s.byName[service.Name], s.namespaces[service.Namespace] = service, true
		for _, ip := range service.IPs {
			s.byIP[ip] = service
		}
	}
	for _, slice := range endpoints {
		if service := s.byName[Name{slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}]; service != nil {
			service.Endpoints = append(service.Endpoints, fromSlice(slice)...)
		}
	}
	slices.SortFunc(s.All, func(a, b *Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name.Name, b.Name.Name))
	})
	for _, service := range s.All {
		slices.SortStableFunc(service.Endpoints, func(a, b Endpoint) int { return a.Address.Compare(b.Address) })
		for i, e := range service.Endpoints {
			if service.Headless() && (i == 0 || service.Endpoints[i-1].Address != e.Address) {
				s.behind[e.Address] = append(s.behind[e.Address], service)
			}
		}
	}
	return s
}

func fromService(from *corev1.Service) *Service {
	s := &Service{
		Name:   Name{from.Namespace, from.Name},
		Sticky: from.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
	}
	s.InternalLocal = from.Spec.InternalTrafficPolicy != nil &&
		*from.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	s.ExternalLocal = from.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if from.Spec.Type == corev1.ServiceTypeExternalName {
		s.ExternalName = trimDot(from.Spec.ExternalName)
		return s
	}
	for _, text := range from.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil { // "None" is not
			s.IPs = append(s.IPs, ip)
		}
	}
	for _, p := range from.Spec.Ports {
		s.Ports = append(s.Ports,
			Port{
				Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), Number: uint16(p.Port),
				NodePort: uint16(p.NodePort),
			})
	}
	return s
}

func trimDot(name string) string {
	if n := len(name); n > 0 && name[n-1] == '.' {
		return name[:n-1]
	}
	return name
}

func fromSlice(slice *discoveryv1.EndpointSlice) []Endpoint {
	var ports []Port
	for _, p := range slice.Ports {
		if p.Port == nil {
			continue // any port: that is of no use to a Service
		}
		port := Port{Protocol: corev1.ProtocolTCP, Number: uint16(*p.Port)}
		if p.Name != nil {
			port.Name = *p.Name
		}
		if p.Protocol != nil {
			port.Protocol = *p.Protocol
		}
		ports = append(ports, port)
	}
	var all []Endpoint
	for i := range slice.Endpoints {
		from := &slice.Endpoints[i]
		e := Endpoint{
			Ready: isTrue(from.Conditions.Ready, true), Ports: ports, Pod: from.TargetRef != nil && from.TargetRef.Kind == "Pod",
			Leaving: isTrue(from.Conditions.Terminating, false) && isTrue(from.Conditions.Serving, false),
		}
		if from.Hostname != nil {
			e.Hostname = *from.Hostname
		}
		for _, text := range from.Addresses {
			if ip, err := netip.ParseAddr(text); err == nil { // a slice of names is not for us
				e.Address = ip
				all = append(all, e)
			}
		}
	}
	return all
}

func isTrue(b *bool, unsaid bool) bool {
	if b == nil {
		return unsaid
	}
	return *b
}

// Targets are where packets to a port of the Service go, in order and each once: the endpoints that are ready, or, if
// there is none, those that leave and still serve. Those that reach denies are left out.
func (s *Service) Targets(port Port, reach func(Endpoint) bool) []netip.AddrPort {
	var ready, leaving []netip.AddrPort
	for _, e := range s.Endpoints {
		if !reach(e) {
			continue
		}
		for _, p := range e.Ports {
			if p.Name != port.Name || p.Protocol != port.Protocol {
				continue
			}
			switch at := netip.AddrPortFrom(e.Address, p.Number); {
			case e.Ready:
				ready = append(ready, at)
			case e.Leaving:
				leaving = append(leaving, at)
			}
		}
	}
	if len(ready) == 0 {
		ready = leaving
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
}
