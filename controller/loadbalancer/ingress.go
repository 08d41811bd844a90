package loadbalancer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
)

// Controllers of the IngressClasses that are served: the AWS Load Balancer Controller's and Auto Mode's.
const (
	albController      = "ingress.k8s.aws/alb"
	autoModeController = "eks.amazonaws.com/alb"
)

// className is the usual class. Without an IngressClass of that name it is the AWS Load Balancer Controller's, whose
// chart would create one.
const className = "alb"

// controllerOf returns the controller of an Ingress's class, "" if it is not served.
func (c *objects) controllerOf(i *networkingv1.Ingress) string {
	name := ptr.Deref(i.Spec.IngressClassName, i.Annotations["kubernetes.io/ingress.class"])
	class, ok := c.classes[name]
	switch {
	case !ok && name == className:
		return albController
	case ok && (class.Spec.Controller == albController || class.Spec.Controller == autoModeController):
		return class.Spec.Controller
	}
	return ""
}

// groupName is the form of names of groups, that of the AWS Load Balancer Controller. It excludes the IDs of Ingresses
// without a group.
var groupName = regexp.MustCompile(`^([a-z0-9][-a-z0-9.]*)?[a-z0-9]$`)

func isGroupName(name string) bool { return len(name) <= 63 && groupName.MatchString(name) }

// ingressStacks returns a stack for each Ingress of our classes, or for each group of them.
func (c *objects) ingressStacks() []*stack {
	members := map[string][]*networkingv1.Ingress{}
	for _, i := range c.ingresses {
		if c.controllerOf(i) == "" || i.DeletionTimestamp != nil {
			continue
		}
		id := i.Namespace + "/" + i.Name
		if a := annotationsOf(i, ingressPrefix, new([]problem), c.paramsOf(i)); isGroupName(a.text("group.name", "")) {
			id = a.text("group.name", "")
		}
		members[id] = append(members[id], i)
	}
	var out []*stack
	for _, id := range slices.Sorted(maps.Keys(members)) {
		out = append(out, c.ingressStack(id, members[id]))
	}
	return out
}

// ingressStack builds the load balancer of a group of Ingresses. Rules are ordered by the Ingresses' group.order,
// then by their names; settings of the load balancer itself come from the first Ingress.
func (c *objects) ingressStack(id string, members []*networkingv1.Ingress) *stack {
	s := &stack{
		id: id, tagKey: tagIngress, kind: "application", listeners: map[int32]*listener{},
		targetGroups: map[string]*targetGroup{}, attributes: map[string]string{}, tags: map[string]string{},
	}
	order := func(i *networkingv1.Ingress) int32 {
		return annotationsOf(i, ingressPrefix, &s.problems).number("group.order", 0)
	}
	slices.SortFunc(members, func(a, b *networkingv1.Ingress) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	s.problems = nil // from sorting; they are found again below
	for n, i := range members {
		s.owners = append(s.owners, i)
		a := annotationsOf(i, ingressPrefix, &s.problems, c.paramsOf(i))
		c.tellUnserved(a, i)
		scheme := a.oneOf("scheme", "internal", "internet-facing", "internal")
		name := a.text("load-balancer-name", "")
		subnets, groups := a.list("subnets"), a.list("security-groups")
		maps.Copy(s.tags, a.pairs("tags"))
		maps.Copy(s.attributes, a.pairs("load-balancer-attributes"))
		if n == 0 {
			words := []string{i.Namespace, i.Name}
			if !strings.Contains(id, "/") {
				words = []string{id}
			}
			s.scheme, s.subnets, s.groups = scheme, subnets, groups
			s.name = cmp.Or(name, shortName(c.cluster+"/"+id+"/"+scheme, words...))
		}
		c.addIngress(s, i, a)
		if group := a.text("group.name", ""); group != "" && !isGroupName(group) {
			a.problem("InvalidAnnotation", "%sgroup.name: %q is not a name of at most 63 lower-case letters, digits, - and .; "+
				"the Ingress is in no group", ingressPrefix, group)
		}
		for _, known := range []string{"group.order", "ip-address-type"} {
			a.text(known, "")
		}
		a.unknown()
	}
	return s
}

// ports returns the ports that an Ingress listens on. HTTPS is not served: it needs a certificate, and none is
// issued.
func ports(a *annotations) []int32 {
	text := a.text("listen-ports", `[{"HTTP": 80}]`)
	var listed []map[string]int32
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		a.problem("InvalidAnnotation", "%slisten-ports: %q is not a list such as [{\"HTTP\": 80}]; port 80 is used",
			ingressPrefix, text)
		return []int32{80}
	}
	var out []int32
	for _, one := range listed {
		for _, protocol := range slices.Sorted(maps.Keys(one)) {
			switch port := one[protocol]; {
			case protocol != "HTTP":
				a.problem("UnsupportedListener", "%slisten-ports: protocol %s is not supported, only HTTP; port %d gets no "+
					"listener", ingressPrefix, protocol, port)
			case port < 1 || port > 65535:
				a.problem("InvalidAnnotation", "%slisten-ports: %d is not a port", ingressPrefix, port)
			default:
				out = append(out, port)
			}
		}
	}
	return out
}

// addIngress adds an Ingress's rules to each port that it listens on.
func (c *objects) addIngress(s *stack, i *networkingv1.Ingress, a *annotations) {
	var rules []rule
	for _, r := range i.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		paths := slices.Clone(r.HTTP.Paths)
		slices.SortStableFunc(paths, comparePaths)
		for _, p := range paths {
			act, ok := c.backend(s, i, a, p.Backend)
			if !ok {
				continue
			}
			one := rule{action: act}
			if r.Host != "" {
				one.conditions = append(one.conditions, condition{"host-header", []string{r.Host}})
			}
			one.conditions = append(one.conditions, condition{"path-pattern", patterns(p)})
			rules = append(rules, one)
		}
	}
	fallback, given := action{fixed: &fixedResponse{ContentType: "text/plain", StatusCode: "404"}}, false
	if b := i.Spec.DefaultBackend; b != nil {
		if act, ok := c.backend(s, i, a, *b); ok {
			fallback, given = act, true
		}
	}
	for _, port := range ports(a) {
		l := s.listeners[port]
		if l == nil {
			l = &listener{protocol: "HTTP"}
			s.listeners[port] = l
		}
		if !l.given {
			l.fallback, l.given = fallback, given
		}
		l.rules = append(l.rules, rules...)
	}
}

// comparePaths orders exact paths first, then prefixes, longest first, then implementation-specific paths.
func comparePaths(a, b networkingv1.HTTPIngressPath) int {
	rank := func(p networkingv1.HTTPIngressPath) int {
		switch ptr.Deref(p.PathType, networkingv1.PathTypeImplementationSpecific) {
		case networkingv1.PathTypeExact:
			return 0
		case networkingv1.PathTypePrefix:
			return 1
		}
		return 2
	}
	if ra, rb := rank(a), rank(b); ra != rb {
		return cmp.Compare(ra, rb)
	} else if ra == 1 {
		return cmp.Compare(len(b.Path), len(a.Path))
	}
	return 0
}

// patterns returns the path patterns of a path of an Ingress.
func patterns(p networkingv1.HTTPIngressPath) []string {
	path := cmp.Or(p.Path, "/*")
	if ptr.Deref(p.PathType, "") != networkingv1.PathTypePrefix {
		return []string{path}
	}
	if path = strings.TrimSuffix(path, "/"); path == "" {
		return []string{"/*"}
	}
	return []string{path, path + "/*"}
}

// backend returns the action for a backend: a port of a Service, or the action in an annotation actions.NAME.
func (c *objects) backend(
	s *stack, i *networkingv1.Ingress, a *annotations, b networkingv1.IngressBackend,
) (action, bool) {
	if b.Service == nil {
		a.problem("InvalidBackend", "a backend is not a Service")
		return action{}, false
	}
	if b.Service.Port.Name == "use-annotation" {
		return annotatedAction(a, b.Service.Name)
	}
	svc := c.services[i.Namespace+"/"+b.Service.Name]
	if svc == nil {
		a.problem("BackendNotFound", "Service %q of a backend does not exist", b.Service.Name)
		return action{fixed: &fixedResponse{
			ContentType: "text/plain", StatusCode: "503",
			MessageBody: fmt.Sprintf("Service %s/%s does not exist", i.Namespace, b.Service.Name),
		}}, true
	}
	port := servicePort(svc, b.Service.Port.Number, b.Service.Port.Name)
	if port == nil {
		a.problem("BackendNotFound", "Service %q has no port %s", svc.Name,
			cmp.Or(b.Service.Port.Name, fmt.Sprint(b.Service.Port.Number)))
		return action{}, false
	}
	usual := "instance"
	if c.controllerOf(i) == autoModeController {
		usual = "ip"
	}
	// A Service's own annotations take precedence over the Ingress's.
	both := annotationsOf(i, ingressPrefix, &s.problems, c.paramsOf(i), svc.Annotations)
	both.read = a.read
	g := &targetGroup{
		protocol: "HTTP", targetType: both.oneOf("target-type", usual, "ip", "instance"),
		health: both.health("HTTP", 15, 2, 2), attributes: both.pairs("target-group-attributes"),
	}
	g.name = g.nameFor(c.cluster+"/"+s.id, svc, port.Port)
	if err := c.fill(g, svc, *port); err != nil {
		a.problem("InvalidBackend", "%s", err)
		return action{}, false
	}
	s.targetGroups[g.name] = g
	return action{targetGroup: g.name}, true
}

// annotatedAction parses the annotation actions.NAME, which holds JSON.
func annotatedAction(a *annotations, name string) (action, bool) {
	key := "actions." + name
	var said struct {
		Type                string         `json:"type"`
		FixedResponseConfig *fixedResponse `json:"fixedResponseConfig"`
		RedirectConfig      *redirect      `json:"redirectConfig"`
	}
	text := a.text(key, "")
	if err := json.Unmarshal([]byte(text), &said); err != nil ||
		(said.FixedResponseConfig == nil && said.RedirectConfig == nil) {
		a.problem("InvalidAnnotation", "%s%s: %q is not the JSON of a fixed-response or a redirect", ingressPrefix, key, text)
		return action{}, false
	}
	return action{fixed: said.FixedResponseConfig, redirect: said.RedirectConfig}, true
}

func servicePort(s *corev1.Service, number int32, name string) *corev1.ServicePort {
	for n := range s.Spec.Ports {
		if p := &s.Spec.Ports[n]; (name != "" && p.Name == name) || (name == "" && p.Port == number) {
			return p
		}
	}
	return nil
}
