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
	"k8s.io/utils/ptr"
)

// The Service of the cluster's DNS has the name that every cluster has it under, whatever runs behind it.
const (
	dnsNamespace, dnsName = metav1.NamespaceSystem, "kube-dns"
	dnsPort               = 53
	apiPort               = 443
	apiNamespace, apiName = metav1.NamespaceDefault, "kubernetes"
)

// manager is who writes our slices.
const manager = "nodeless.sh"

// dnsService is the Service of the cluster's DNS. It has no selector: its endpoints are in a slice of ours until
// somebody gives it one.
func dnsService(address netip.Addr) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: dnsNamespace, Name: dnsName,
		Labels: map[string]string{
			"k8s-app": dnsName, "kubernetes.io/cluster-service": "true",
			"kubernetes.io/name": "CoreDNS",
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

// dnsAddress is where clusters have their DNS by custom: the tenth address of Services.
func dnsAddress(services netip.Prefix) netip.Addr {
	a := services.Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	return a
}

// slice has one endpoint of ours.
func slice(namespace, service string, at netip.AddrPort, ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	for i := range ports {
		ports[i].Port = ptr.To(int32(at.Port()))
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: service + "-nodeless",
			Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: manager},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: ports,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{at.Addr().String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}},
	}
}

// ours says whether a slice is that of a process such as this one.
func ours(s *discoveryv1.EndpointSlice) bool { return s.Labels[discoveryv1.LabelManagedBy] == manager }

// dnsSlice says that this process is the cluster's DNS.
func (n *Net) dnsSlice() *discoveryv1.EndpointSlice {
	return slice(dnsNamespace, dnsName, n.dns.At(),
		discoveryv1.EndpointPort{Name: ptr.To("dns"), Protocol: ptr.To(corev1.ProtocolUDP)},
		discoveryv1.EndpointPort{Name: ptr.To("dns-tcp"), Protocol: ptr.To(corev1.ProtocolTCP)})
}

// apiSlice says that this process is the way to the API server.
func (n *Net) apiSlice() *discoveryv1.EndpointSlice {
	return slice(apiNamespace, apiName, n.api.At(),
		discoveryv1.EndpointPort{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP)})
}

// publish makes the Service of the DNS and our slices what they should be.
func (n *Net) publish(ctx context.Context) error {
	if n.o.Joined {
		return nil
	}
	var failed []error
	if _, err := n.watch.Services.Services(dnsNamespace).Get(dnsName); apierrors.IsNotFound(err) {
		failed = append(failed, n.createDNSService(ctx))
	}
	failed = append(failed, n.put(ctx, n.apiSlice()))
	own := n.dnsSlice()
	if others, err := n.watch.Slices.EndpointSlices(dnsNamespace).List(labels.SelectorFromSet(
		labels.Set{discoveryv1.LabelServiceName: dnsName})); err == nil && anyReady(others, n.reaches) {
		failed = append(failed, n.remove(ctx, own))
	} else {
		failed = append(failed, n.put(ctx, own))
	}
	return errors.Join(failed...)
}

// anyReady says whether slices of somebody else's have an endpoint that answers. A pod that is not reached does not:
// coredns on simulated nodes is Ready and is no DNS.
func anyReady(all []*discoveryv1.EndpointSlice, reached func(netip.Addr) bool) bool {
	for _, s := range all {
		if ours(s) {
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

// createDNSService creates it at the customary address or, if that has been given to another Service, at any.
func (n *Net) createDNSService(ctx context.Context) error {
	create := func(s *corev1.Service) error {
		_, err := n.o.Kube.CoreV1().Services(dnsNamespace).Create(ctx, s, metav1.CreateOptions{})
		return err
	}
	err := create(dnsService(dnsAddress(n.o.Services)))
	if apierrors.IsInvalid(err) {
		err = create(dnsService(netip.Addr{}))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Service %s/%s: %w", dnsNamespace, dnsName, err)
	}
	return nil
}

// put makes a slice what it should be.
func (n *Net) put(ctx context.Context, want *discoveryv1.EndpointSlice) error {
	client := n.o.Kube.DiscoveryV1().EndpointSlices(want.Namespace)
	have, err := n.watch.Slices.EndpointSlices(want.Namespace).Get(want.Name)
	if apierrors.IsNotFound(err) {
		if _, err := client.Create(ctx, want, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create EndpointSlice %s/%s: %w", want.Namespace, want.Name, err)
		}
		return nil
	}
	if err != nil || equality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) &&
		equality.Semantic.DeepEqual(have.Ports, want.Ports) &&
		equality.Semantic.DeepEqual(have.Labels, want.Labels) {
		return err
	}
	next := have.DeepCopy()
	next.Endpoints, next.Ports, next.Labels = want.Endpoints, want.Ports, want.Labels
	// then it is seen anew
	if _, err := client.Update(ctx, next, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("update EndpointSlice %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

// remove removes a slice that is there.
func (n *Net) remove(ctx context.Context, s *discoveryv1.EndpointSlice) error {
	if _, err := n.watch.Slices.EndpointSlices(s.Namespace).Get(s.Name); err != nil {
		return nil //nolint:nilerr // a cache says nothing but that there is none
	}
	if err := n.o.Kube.DiscoveryV1().EndpointSlices(s.Namespace).Delete(ctx, s.Name,
		metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete EndpointSlice %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

// withdraw removes our slices: who goes on without this process must not be sent to it.
func (n *Net) withdraw(ctx context.Context) {
	if n.o.Joined {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := errors.Join(n.remove(ctx, n.dnsSlice()), n.remove(ctx, n.apiSlice())); err != nil {
		n.o.Log.Warn("the cluster's DNS and the way to the API server are still announced", "error", err)
	}
}
