package loadbalancer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/catalog"
)

// objects are the inputs of stacks.
type objects struct {
	cluster   string
	ingresses []*networkingv1.Ingress
	classes   map[string]*networkingv1.IngressClass
	services  map[string]*corev1.Service              // by NAMESPACE/NAME
	slices    map[string][]*discoveryv1.EndpointSlice // by the Service's NAMESPACE/NAME
	nodes     []*corev1.Node
	params    map[string]*unstructured.Unstructured // IngressClassParams by GROUP/NAME
	// pod returns a pod that waits for a readiness gate; nil if it is gone.
	pod func(namespace, name string) (*corev1.Pod, error)
}

// fill gives a target group the targets of a Service port: addresses of ready pods, or nodes at their node port.
// Fargate's nodes are not instances.
func (c *objects) fill(g *targetGroup, s *corev1.Service, port corev1.ServicePort) error {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return fmt.Errorf("service %q has the type ExternalName, which has no pods", s.Name)
	}
	g.service, g.servicePort = s, port.Port
	g.port = 1 // for address targets, which have their own ports (as in the AWS Load Balancer Controller)
	if n := port.TargetPort.IntVal; n > 0 {
		g.port = n
	}
	if g.targetType == "instance" {
		if port.NodePort == 0 {
			return fmt.Errorf("target type instance needs a node port, and Service %q has the type %s; use target type ip, "+
				"or the type NodePort", s.Name, s.Spec.Type)
		}
		g.port = port.NodePort
		for _, n := range c.nodes {
			if id := instanceOf(n); id != "" {
				g.targets = append(g.targets, target{id: id, port: port.NodePort})
			}
		}
		sortTargets(g.targets)
		return nil
	}
	for _, slice := range c.slices[s.Namespace+"/"+s.Name] {
		at := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return ptr.Deref(p.Name, "") == port.Name && p.Port != nil
		})
		if at < 0 || slice.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for _, e := range slice.Endpoints {
			if err := c.addEndpoint(g, e, *slice.Ports[at].Port); err != nil {
				return err
			}
		}
	}
	sortTargets(g.targets)
	return nil
}

func sortTargets(targets []target) {
	slices.SortFunc(targets, func(a, b target) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.port, b.port)) })
}

// addEndpoint registers a pod that is ready, or that has the group's readiness gate and whose containers are ready. A
// terminating pod is deregistered at once: its load balancer lets its requests finish.
func (c *objects) addEndpoint(g *targetGroup, e discoveryv1.Endpoint, port int32) error {
	if len(e.Addresses) == 0 || ptr.Deref(e.Conditions.Terminating, false) {
		return nil
	}
	t := target{id: e.Addresses[0], port: port}
	if ptr.Deref(e.Conditions.Ready, true) {
		g.targets = append(g.targets, t)
		return nil
	}
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" || c.pod == nil {
		return nil
	}
	p, err := c.pod(e.TargetRef.Namespace, e.TargetRef.Name)
	if err != nil || p == nil || p.DeletionTimestamp != nil || !hasCondition(p.Status.Conditions, corev1.ContainersReady) {
		return err
	}
	if hasGate(p, func(gate string) bool { return gate == gatePrefix+g.name }) {
		g.targets = append(g.targets, t)
		if g.gated == nil {
			g.gated = map[target]*corev1.Pod{}
		}
		g.gated[t] = p
	}
	return nil
}

func hasCondition(list []corev1.PodCondition, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(list, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// labelNoTargets excludes a node from load balancers (k8s.io/api/core/v1, LabelNodeExcludeBalancers).
const labelNoTargets = "node.kubernetes.io/exclude-from-external-load-balancers"

// instanceOf returns the instance ID of a node that can be a target: a ready node that is not being removed; "" for
// any other.
func instanceOf(n *corev1.Node) string {
	_, excluded := n.Labels[labelNoTargets]
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	removed := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "karpenter.sh/disrupted" })
	if excluded || !ready || removed || !strings.HasPrefix(n.Spec.ProviderID, "aws:///") {
		return ""
	}
	id := catalog.InstanceID(n.Spec.ProviderID)
	if !strings.HasPrefix(id, "i-") {
		return ""
	}
	return id
}
