package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// locate returns where a load balancer is reached; ok is false as long as it is not.
func (c *controller) locate(b *types.LoadBalancer, s *stack) (at Location, ok bool) {
	if c.Locate == nil {
		at = Location{Hostname: aws.ToString(b.DNSName), Ports: map[int32]int32{}}
		for port := range s.listeners {
			at.Ports[port] = port
		}
		return at, b.State != nil && b.State.Code == types.LoadBalancerStateEnumActive
	}
	at, ok = c.Locate(aws.ToString(b.DNSName))
	return at, ok && len(at.Ports) == len(s.listeners)
}

// publish writes the address of a load balancer into the status of its stack's objects, and records an event if it
// changed.
func (c *controller) publish(ctx context.Context, s *stack, at Location) error {
	ports := slices.Sorted(maps.Values(at.Ports))
	ip := ""
	if at.IP.IsValid() {
		ip = at.IP.String()
	}
	var failed []error
	for _, o := range s.owners {
		changed := false
		var err error
		switch o := o.(type) {
		case *networkingv1.Ingress:
			one := networkingv1.IngressLoadBalancerIngress{IP: ip, Hostname: at.Hostname}
			for _, p := range ports {
				one.Ports = append(one.Ports, networkingv1.IngressPortStatus{Port: p, Protocol: corev1.ProtocolTCP})
			}
			want := networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{one}}
			if changed = !reflect.DeepEqual(o.Status.LoadBalancer, want); changed {
				o = o.DeepCopy()
				o.Status.LoadBalancer = want
				_, err = c.kube.NetworkingV1().Ingresses(o.Namespace).UpdateStatus(ctx, o, metav1.UpdateOptions{})
			}
		case *corev1.Service:
			one := corev1.LoadBalancerIngress{IP: ip, Hostname: at.Hostname}
			if ip != "" {
				one.IPMode = new(corev1.LoadBalancerIPModeProxy)
			}
			for _, p := range ports {
				one.Ports = append(one.Ports, corev1.PortStatus{Port: p, Protocol: corev1.ProtocolTCP})
			}
			want := corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{one}}
			if changed = !reflect.DeepEqual(o.Status.LoadBalancer, want); changed {
				o = o.DeepCopy()
				o.Status.LoadBalancer = want
				_, err = c.kube.CoreV1().Services(o.Namespace).UpdateStatus(ctx, o, metav1.UpdateOptions{})
			}
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			failed = append(failed, fmt.Errorf("write the address of %s %s: %w", kindOf(o), s.id, err))
		case changed:
			c.recorder.Event(o, corev1.EventTypeNormal, "SuccessfullyReconciled", at.sentence(s))
		}
	}
	return errors.Join(failed...)
}

// sentence says where the load balancer listens.
func (l Location) sentence(s *stack) string {
	var at []string
	for _, port := range slices.Sorted(maps.Keys(l.Ports)) {
		host := l.Hostname
		if l.IP.IsValid() {
			host = l.IP.String()
		}
		to := fmt.Sprintf("%s:%d", host, l.Ports[port])
		if s.kind == "application" {
			to = "http://" + strings.TrimSuffix(to, ":80") + "/"
		}
		if port != l.Ports[port] {
			to += fmt.Sprintf(" (port %d cannot be had on this machine)", port)
		}
		at = append(at, to)
	}
	return "Load balancer " + s.name + " listens at " + strings.Join(at, ", ")
}
