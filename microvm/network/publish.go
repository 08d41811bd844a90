package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// Names of the Services that this process can stand in for. Every cluster's DNS has this name, whatever its
// implementation.
var (
	kubeDNS   = services.Name{Namespace: metav1.NamespaceSystem, Name: "kube-dns"}
	apiServer = services.Name{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}
)

const (
	dnsPort = 53
	apiPort = 443
)

// manager is the label value of the slices that this program writes.
const manager = "nodeless.sh"

// managedBy is the label that Kubernetes recommends for it.
const managedBy = "app.kubernetes.io/managed-by"

// dnsService returns the Service of the cluster's DNS. It has no selector: until it is given one, its endpoints are
// in our slice.
func dnsService(address netip.Addr) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: kubeDNS.Namespace, Name: kubeDNS.Name,
		Labels: map[string]string{
			"k8s-app": kubeDNS.Name, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS",
		},
	}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "dns", Port: dnsPort, Protocol: corev1.ProtocolUDP},
		{Name: "dns-tcp", Port: dnsPort, Protocol: corev1.ProtocolTCP},
	}}}
	if address.IsValid() {
		s.Spec.ClusterIP = address.String()
	}
	return s
}

// dnsAddress returns the customary address of a cluster's DNS: the tenth of the Services' range.
func dnsAddress(services netip.Prefix) netip.Addr {
	a := services.Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	return a
}

// endpointSlice returns a slice with this process as the only endpoint of a Service.
func endpointSlice(of services.Name, at netip.AddrPort, ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	for i := range ports {
		ports[i].Port = ptr.To(int32(at.Port()))
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: of.Name + "-nodeless",
			Labels: map[string]string{discoveryv1.LabelServiceName: of.Name, discoveryv1.LabelManagedBy: manager},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: ports,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{at.Addr().String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}},
	}
}

// isOurs reports whether this program, in any process, wrote a slice.
func isOurs(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == manager
}

// dnsSlice returns the slice that makes this process an endpoint of the cluster's DNS.
func (n *Net) dnsSlice() *discoveryv1.EndpointSlice {
	return endpointSlice(kubeDNS, n.dns.At(),
		discoveryv1.EndpointPort{Name: ptr.To("dns"), Protocol: ptr.To(corev1.ProtocolUDP)},
		discoveryv1.EndpointPort{Name: ptr.To("dns-tcp"), Protocol: ptr.To(corev1.ProtocolTCP)})
}

// apiSlice returns the slice that makes the gateway an endpoint of the API server.
func (n *Net) apiSlice() *discoveryv1.EndpointSlice {
	return endpointSlice(apiServer, n.api.At(),
		discoveryv1.EndpointPort{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP)})
}

// publish creates the Service of the DNS if it is missing, and updates our slices.
func (n *Net) publish(ctx context.Context) error {
	if n.o.Joined {
		return nil
	}
	var failed []error
	if _, err := n.watch.Services.Services(kubeDNS.Namespace).Get(kubeDNS.Name); apierrors.IsNotFound(err) {
		failed = append(failed, n.createDNSService(ctx))
	}
	failed = append(failed, n.putSlice(ctx, n.apiSlice()), n.putEndpoints(ctx))
	all, err := n.watch.Slices.EndpointSlices(kubeDNS.Namespace).List(labels.SelectorFromSet(
		labels.Set{discoveryv1.LabelServiceName: kubeDNS.Name}))
	if err == nil && othersReady(all, n.reaches) {
		failed = append(failed, n.deleteSlice(ctx, n.dnsSlice()))
	} else {
		failed = append(failed, n.putSlice(ctx, n.dnsSlice()))
	}
	return errors.Join(failed...)
}

// othersReady reports whether slices that others wrote have an endpoint that answers. An unreachable pod does not:
// coredns on a simulated node is Ready, but serves no DNS.
func othersReady(all []*discoveryv1.EndpointSlice, reached func(netip.Addr) bool) bool {
	for _, s := range all {
		if isOurs(s) {
			continue
		}
		for _, e := range s.Endpoints {
			pod := e.TargetRef != nil && e.TargetRef.Kind == "Pod"
			answers := func(address string) bool {
				a, err := netip.ParseAddr(address)
				return err == nil && (!pod || reached(a))
			}
			if ptr.Deref(e.Conditions.Ready, true) && slices.ContainsFunc(e.Addresses, answers) {
				return true
			}
		}
	}
	return false
}

// createDNSService creates the Service at the customary address or, if another Service has that, at any address.
func (n *Net) createDNSService(ctx context.Context) error {
	create := func(s *corev1.Service) error {
		_, err := n.o.Kube.CoreV1().Services(kubeDNS.Namespace).Create(ctx, s, metav1.CreateOptions{})
		return err
	}
	err := create(dnsService(dnsAddress(n.o.Services)))
	if apierrors.IsInvalid(err) {
		err = create(dnsService(netip.Addr{}))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Service %s/%s: %w", kubeDNS.Namespace, kubeDNS.Name, err)
	}
	return nil
}

// putSlice creates or updates a slice. A write that conflicts is repeated when the watch delivers the change.
func (n *Net) putSlice(ctx context.Context, want *discoveryv1.EndpointSlice) error {
	client := n.o.Kube.DiscoveryV1().EndpointSlices(want.Namespace)
	have, err := n.watch.Slices.EndpointSlices(want.Namespace).Get(want.Name)
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && !(equality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) &&
		equality.Semantic.DeepEqual(have.Ports, want.Ports) && equality.Semantic.DeepEqual(have.Labels, want.Labels)):
		next := have.DeepCopy()
		next.Endpoints, next.Ports, next.Labels = want.Endpoints, want.Ports, want.Labels
		_, err = client.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write EndpointSlice %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

// endpoints returns the client for the API server's own Endpoints. Endpoints are deprecated but still read.
func (n *Net) endpoints() typedcorev1.EndpointsInterface {
	return n.o.Kube.CoreV1().Endpoints(apiServer.Namespace) //nolint:staticcheck // see above
}

// putEndpoints writes the Endpoints of the API server, once, for clients that do not read EndpointSlices.
func (n *Net) putEndpoints(ctx context.Context) error {
	if n.published {
		return nil
	}
	at, client := n.api.At(), n.endpoints()
	want := &corev1.Endpoints{ //nolint:staticcheck // see endpoints
		ObjectMeta: metav1.ObjectMeta{
			Name: apiServer.Name, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true", managedBy: manager},
		},
		Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // see endpoints
			Addresses: []corev1.EndpointAddress{{IP: at.Addr().String()}},
			Ports:     []corev1.EndpointPort{{Name: "https", Port: int32(at.Port()), Protocol: corev1.ProtocolTCP}},
		}},
	}
	_, err := client.Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Endpoints %s/%s: %w", apiServer.Namespace, apiServer.Name, err)
	}
	n.published = true
	return nil
}

// deleteEndpoints deletes the Endpoints of the API server, if this process wrote them.
func (n *Net) deleteEndpoints(ctx context.Context) error {
	if !n.published {
		return nil
	}
	err := n.endpoints().Delete(ctx, apiServer.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Endpoints %s/%s: %w", apiServer.Namespace, apiServer.Name, err)
	}
	return nil
}

// deleteSlice deletes a slice if it exists.
func (n *Net) deleteSlice(ctx context.Context, s *discoveryv1.EndpointSlice) error {
	if _, err := n.watch.Slices.EndpointSlices(s.Namespace).Get(s.Name); err != nil {
		return nil //nolint:nilerr // there is none: a cache has no other errors
	}
	err := n.o.Kube.DiscoveryV1().EndpointSlices(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete EndpointSlice %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

// withdraw deletes our slices, so that clients that outlive this process are not sent to it.
func (n *Net) withdraw(ctx context.Context) {
	if n.o.Joined {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := errors.Join(n.deleteSlice(ctx, n.dnsSlice()), n.deleteSlice(ctx, n.apiSlice()),
		n.deleteEndpoints(ctx)); err != nil {
		n.o.Log.Warn("cannot withdraw this process as an endpoint of the cluster's DNS and the API server", "error", err)
	}
}
