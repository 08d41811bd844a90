package loadbalancer

import (
	"context"
	"encoding/json"
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
	apitypes "k8s.io/apimachinery/pkg/types"
)

// locate returns where a load balancer is reached; ok is false until it is.
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

// publish writes the address of a load balancer into the status of the objects that it is for, and tells what changes.
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

// sentence says where to go.
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

// openGates sets the readiness gates of pods whose targets are healthy. waiting says that some are not yet.
func (c *controller) openGates(ctx context.Context, have *made, s *stack) (waiting bool, err error) {
	var failed []error
	for name, g := range s.targetGroups {
		if len(g.gated) == 0 {
			continue
		}
		of, ok := have.groups[name]
		if !ok {
			waiting = true // made in this very look
			continue
		}
		health, err := c.aws.health(ctx, *of.TargetGroupArn)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, p := range g.gated {
			h := health[p.target]
			waiting = waiting || h.State != types.TargetHealthStateEnumHealthy
			failed = append(failed, c.setGates(ctx, p, h))
		}
	}
	return waiting, errors.Join(failed...)
}

// setGates writes what is known about a pod's target into the conditions of its gates.
func (c *controller) setGates(ctx context.Context, p gatedPod, h types.TargetHealth) error {
	type condition struct {
		Type               string                 `json:"type"`
		Status             corev1.ConditionStatus `json:"status"`
		Reason             string                 `json:"reason"`
		Message            string                 `json:"message"`
		LastTransitionTime metav1.Time            `json:"lastTransitionTime"`
	}
	status := corev1.ConditionFalse
	if h.State == types.TargetHealthStateEnumHealthy {
		status = corev1.ConditionTrue
	}
	var conditions []condition
	for _, gate := range p.gates {
		if slices.ContainsFunc(p.conditions, func(c corev1.PodCondition) bool {
			return string(c.Type) == gate && c.Status == status && c.Reason == string(h.Reason)
		}) {
			continue
		}
		conditions = append(conditions, condition{
			Type: gate, Status: status, Reason: string(h.Reason), Message: aws.ToString(h.Description),
			LastTransitionTime: metav1.Now(),
		})
	}
	if len(conditions) == 0 {
		return nil
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	_, err = c.kube.CoreV1().Pods(p.namespace).Patch(ctx, p.name, apitypes.StrategicMergePatchType, data,
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("readiness gate of pod %s/%s: %w", p.namespace, p.name, err)
	}
	return nil
}
