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

// annotations reads the annotations of an object that begin with a prefix, and remembers which were read: the others
// are unknown and are reported.
type annotations struct {
	object   client.Object
	prefix   string
	of       []map[string]string // the first one with a key counts
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

// oneOf returns a value that must be the fallback or one of those served.
func (a *annotations) oneOf(key, fallback string, served ...string) string {
	return a.checked(key, a.text(key, fallback), fallback, served...)
}

// checked returns v, or fallback with a problem if v is neither that nor one of those served.
func (a *annotations) checked(key, v, fallback string, served ...string) string {
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

// list returns the parts of a list separated by commas or spaces.
func (a *annotations) list(key string) []string {
	return strings.FieldsFunc(a.text(key, ""), func(r rune) bool { return r == ',' || r == ' ' })
}

// pairs parses KEY=VALUE,KEY=VALUE into a map.
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

// unknown reports the annotations with the prefix that were not read.
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

// health reads the health check that an Ingress or a Service requests. The defaults are the AWS Load Balancer
// Controller's.
func (a *annotations) health(protocol string, interval, healthy, unhealthy int32) healthCheck {
	const key, prefix = "healthcheck-protocol", "healthcheck-"
	h := healthCheck{
		// The AWS Load Balancer Controller documents upper case for Ingresses, and lower case for Services.
		protocol: a.checked(key, strings.ToUpper(a.text(key, protocol)), protocol, "HTTP", "TCP"),
		port:     a.text("healthcheck-port", "traffic-port"),
	}
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
