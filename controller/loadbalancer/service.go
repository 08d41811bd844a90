package loadbalancer

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Classes of Services that are served. A Service without a class is served, too: on EKS it would get a load balancer
// of the previous generation.
var serviceClasses = []string{"", "service.k8s.aws/nlb", "eks.amazonaws.com/nlb"}

// serviceStacks returns a stack for each Service of the type LoadBalancer.
func (c *objects) serviceStacks() []*stack {
	var out []*stack
	for _, id := range slices.Sorted(maps.Keys(c.services)) {
		s := c.services[id]
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil &&
			slices.Contains(serviceClasses, ptr.Deref(s.Spec.LoadBalancerClass, "")) {
			out = append(out, c.serviceStack(s))
		}
	}
	return out
}

// serviceStack builds the network load balancer of a Service: a listener and a target group for each of its TCP ports.
func (c *objects) serviceStack(svc *corev1.Service) *stack {
	id := svc.Namespace + "/" + svc.Name
	s := &stack{
		id: id, tagKey: tagService, kind: "network", listeners: map[int32]*listener{},
		targetGroups: map[string]*targetGroup{}, attributes: map[string]string{}, tags: map[string]string{},
	}
	s.owners = append(s.owners, svc)
	a := annotationsOf(svc, servicePrefix, &s.problems)
	s.scheme = a.oneOf("scheme", "internal", "internet-facing", "internal")
	if a.text("internal", "") == "false" {
		s.scheme = "internet-facing"
	}
	s.name = cmp.Or(a.text("name", ""), shortName(c.cluster+"/service/"+id+"/"+s.scheme, svc.Namespace, svc.Name))
	s.subnets, s.groups = a.list("subnets"), a.list("security-groups")
	s.attributes, s.tags = a.pairs("attributes"), a.pairs("additional-resource-tags")
	kind := a.oneOf("type", "external", "external", "nlb-ip", "nlb")
	usual := map[bool]string{true: "instance", false: "ip"}[kind == "nlb"]
	targetType := a.oneOf("nlb-target-type", usual, "ip", "instance")
	attributes := a.pairs("target-group-attributes")
	health := a.health("TCP", 10, 3, 3)
	for _, port := range svc.Spec.Ports {
		if port.Protocol != corev1.ProtocolTCP && port.Protocol != "" {
			a.problem("UnsupportedListener", "port %d: protocol %s is not supported, only TCP", port.Port, port.Protocol)
			continue
		}
		g := &targetGroup{
			protocol: "TCP", targetType: targetType, health: health, attributes: maps.Clone(attributes),
		}
		g.name = g.nameFor(c.cluster+"/service", svc, port.Port)
		if err := c.fill(g, svc, port); err != nil {
			a.problem("InvalidService", "%s", err)
			continue
		}
		s.targetGroups[g.name] = g
		s.listeners[port.Port] = &listener{protocol: "TCP", fallback: action{targetGroup: g.name}}
	}
	a.unknown()
	return s
}
