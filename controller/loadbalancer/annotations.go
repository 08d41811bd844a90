package loadbalancer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prefixes of the annotations (AWS Load Balancer Controller, "Ingress annotations" and "Service annotations").
const (
	ingressPrefix = "alb.ingress.kubernetes.io/"
	servicePrefix = "service.beta.kubernetes.io/aws-load-balancer-"
)

// annotations reads the annotations of an object that begin with a prefix, and remembers which were read: the rest are
// unknown, and told.
type annotations struct {
	object   client.Object
	prefix   string
	of       []map[string]string // the first that has a key counts
	read     map[string]bool
	problems *[]problem
}

func annotationsOf(o client.Object, prefix string, problems *[]problem, before ...map[string]string) *annotations {
	return &annotations{
		object: o, prefix: prefix, of: append(before, o.GetAnnotations()), read: map[string]bool{}, problems: problems,
	}
}

func (a *annotations) text(key, fallback string) string {
	a.read[a.prefix+key] = true
	for _, m := range a.of {
		if v, ok := m[a.prefix+key]; ok {
			return strings.TrimSpace(v)
		}
	}
	return fallback
}

// oneOf returns a value that has to be among those that are served.
func (a *annotations) oneOf(key, fallback string, served ...string) string {
	v := a.text(key, fallback)
	if v == fallback || slices.Contains(served, v) {
		return v
	}
	a.problem("InvalidAnnotation", "%s%s: %q is not one of %s; %s is used", a.prefix, key, v,
		strings.Join(served, ", "), fallback)
	return fallback
}

func (a *annotations) number(key string, fallback int32) int32 {
	v := a.text(key, "")
	if v == "" {
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		a.problem("InvalidAnnotation", "%s%s: %q is not a number; %d is used", a.prefix, key, v, fallback)
		return fallback
	}
	return int32(n)
}

// list returns the parts of a list with commas.
func (a *annotations) list(key string) []string {
	return strings.FieldsFunc(a.text(key, ""), func(r rune) bool { return r == ',' || r == ' ' })
}

// pairs returns the map that KEY=VALUE,KEY=VALUE says.
func (a *annotations) pairs(key string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(a.text(key, ""), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		if !ok {
			a.problem("InvalidAnnotation", "%s%s: %q is not KEY=VALUE; it is ignored", a.prefix, key, part)
			continue
		}
		out[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return out
}

func (a *annotations) problem(reason, format string, args ...any) {
	*a.problems = append(*a.problems, problem{a.object, reason, fmt.Sprintf(format, args...)})
}

// unknown tells the annotations with the prefix that nobody has read.
func (a *annotations) unknown() {
	var names []string
	for _, k := range slices.Sorted(maps.Keys(a.object.GetAnnotations())) {
		if strings.HasPrefix(k, a.prefix) && !a.read[k] {
			names = append(names, k)
		}
	}
	if len(names) > 0 {
		a.problem("UnsupportedAnnotation", "these annotations have no effect here: %s", strings.Join(names, ", "))
	}
}

// health reads the health check that an Ingress or a Service asks for. The defaults are the AWS Load Balancer
// Controller's.
func (a *annotations) health(protocol string, interval, healthy, unhealthy int32) healthCheck {
	h := healthCheck{
		protocol: a.oneOf("healthcheck-protocol", protocol, "HTTP", "TCP"),
		port:     a.text("healthcheck-port", "traffic-port"),
	}
	prefix := "healthcheck-"
	if h.protocol == "HTTP" {
		h.path = a.text(prefix+"path", "/")
	} else {
		a.read[a.prefix+prefix+"path"] = true
	}
	if a.prefix == ingressPrefix {
		h.interval, h.timeout = a.number(prefix+"interval-seconds", interval), a.number(prefix+"timeout-seconds", 5)
		h.healthy = a.number("healthy-threshold-count", healthy)
		h.unhealthy = a.number("unhealthy-threshold-count", unhealthy)
		h.codes = a.text("success-codes", "200")
	} else {
		h.interval, h.timeout = a.number(prefix+"interval", interval), a.number(prefix+"timeout", 5)
		h.healthy = a.number(prefix+"healthy-threshold", healthy)
		h.unhealthy = a.number(prefix+"unhealthy-threshold", unhealthy)
		h.codes = a.text(prefix+"success-codes", "200-399")
	}
	if h.protocol != "HTTP" {
		h.codes = ""
	}
	return h
}
