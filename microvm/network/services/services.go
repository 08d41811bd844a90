// Package services is an immutable snapshot of Services and their endpoints, from which the rules of the firewall
// (package ruleset) and the answers of the cluster's DNS (package clusterdns) are derived.
package services

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// Name of a Service.
type Name struct{ Namespace, Name string }

// Port of a Service or an endpoint.
type Port struct {
	Name     string // may be "" for a single port
	Protocol corev1.Protocol
	Number   uint16
	NodePort uint16 // of a Service; 0 if it has none
}

// Endpoint is an endpoint of a Service.
type Endpoint struct {
	Address  netip.Addr
	Hostname string // within a headless Service; "" if it has none
	// Pod is false for an address that was written into a slice by hand.
	Pod bool
	// Ready endpoints accept new connections. Terminating ones are about to end but still serve.
	Ready, Terminating bool
	Ports              []Port
}

// Service and its endpoints.
type Service struct {
	Name
	// IPs are its VIPs; none if it is headless or of type ExternalName.
	IPs          []netip.Addr
	ExternalName string // without a trailing dot
	// Sticky keeps a client at one endpoint (sessionAffinity: ClientIP).
	Sticky bool
	// InternalLocal and ExternalLocal restrict clients within the cluster, and clients of node ports, to endpoints on
	// the node through which they connect.
	InternalLocal, ExternalLocal bool

	Ports     []Port
	Endpoints []Endpoint // by address
}

// Headless reports whether the Service's name resolves to its endpoints.
func (s *Service) Headless() bool { return len(s.IPs) == 0 && s.ExternalName == "" }

// Snapshot holds all Services at one time. It never changes.
type Snapshot struct {
	All        []*Service // by namespace and name
	byName     map[Name]*Service
	byIP       map[netip.Addr]*Service
	behind     map[netip.Addr][]*Service
	namespaces map[string]bool
}

// Find returns a Service by name, nil if there is none.
func (s *Snapshot) Find(n Name) *Service { return s.byName[n] }

// At returns the Service with a VIP, nil if there is none.
func (s *Snapshot) At(a netip.Addr) *Service { return s.byIP[a] }

// Behind returns the headless Services of which an address is an endpoint.
func (s *Snapshot) Behind(a netip.Addr) []*Service { return s.behind[a] }

// Namespace reports whether a namespace has a Service.
func (s *Snapshot) Namespace(name string) bool { return s.namespaces[name] }

// New returns the Snapshot of these objects, which must not change afterwards.
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
		s.ExternalName = strings.TrimSuffix(from.Spec.ExternalName, ".")
		return s
	}
	for _, text := range from.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil { // not "None"
			s.IPs = append(s.IPs, ip)
		}
	}
	for _, p := range from.Spec.Ports {
		s.Ports = append(s.Ports, Port{
			Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), Number: uint16(p.Port),
			NodePort: uint16(p.NodePort),
		})
	}
	return s
}

func fromSlice(slice *discoveryv1.EndpointSlice) []Endpoint {
	var ports []Port
	for _, p := range slice.Ports {
		if p.Port != nil { // nil means all ports, which a Service cannot use
			ports = append(ports, Port{
				Name: ptr.Deref(p.Name, ""), Protocol: ptr.Deref(p.Protocol, corev1.ProtocolTCP), Number: uint16(*p.Port),
			})
		}
	}
	var all []Endpoint
	for i := range slice.Endpoints {
		from := &slice.Endpoints[i]
		e := Endpoint{
			Hostname: ptr.Deref(from.Hostname, ""), Pod: from.TargetRef != nil && from.TargetRef.Kind == "Pod",
			Ready:       ptr.Deref(from.Conditions.Ready, true),
			Terminating: ptr.Deref(from.Conditions.Terminating, false) && ptr.Deref(from.Conditions.Serving, false),
			Ports:       ports,
		}
		for _, text := range from.Addresses {
			if ip, err := netip.ParseAddr(text); err == nil { // not the name of a slice of type FQDN
				e.Address = ip
				all = append(all, e)
			}
		}
	}
	return all
}

// Targets returns the destinations of packets to a port of the Service, sorted and distinct: the ready endpoints that
// want accepts or, if there are none, the terminating ones.
func (s *Service) Targets(port Port, want func(Endpoint) bool) []netip.AddrPort {
	var ready, terminating []netip.AddrPort
	for _, e := range s.Endpoints {
		if !want(e) {
			continue
		}
		for _, p := range e.Ports {
			if p.Name != port.Name || p.Protocol != port.Protocol {
				continue
			}
			switch at := netip.AddrPortFrom(e.Address, p.Number); {
			case e.Ready:
				ready = append(ready, at)
			case e.Terminating:
				terminating = append(terminating, at)
			}
		}
	}
	if len(ready) == 0 {
		ready = terminating
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
}
