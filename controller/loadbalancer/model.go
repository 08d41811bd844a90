package loadbalancer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stack is the load balancer that a group of Ingresses or a Service requests, with everything that belongs to it.
// Building it makes all decisions; syncer makes AWS match it.
type stack struct {
	id      string // NAMESPACE/NAME, or the name of a group of Ingresses
	tagKey  string // of the tag that holds the ID
	owners  []client.Object
	name    string // of the load balancer
	kind    string // application or network
	scheme  string
	subnets []string // as requested; none = chosen
	groups  []string // security groups, as requested
	tags    map[string]string

	attributes   map[string]string
	listeners    map[int32]*listener
	targetGroups map[string]*targetGroup // by name
	problems     []problem
}

func (s *stack) owner() owner { return owner{s.tagKey, s.id} }

// problem is a fault in an object, reported in an event. Everything that does not depend on the faulty part is still
// done.
type problem struct {
	object  client.Object
	reason  string
	message string
}

// listener is what a port does: its rules in order, then its default action.
type listener struct {
	protocol string
	rules    []rule
	fallback action
	given    bool // fallback is an Ingress's default backend
}

// rule is an action under conditions.
type rule struct {
	conditions []condition
	action     action
}

type condition struct {
	field  string
	values []string
}

// action is one of: forward to a target group, a fixed response, a redirect.
type action struct {
	targetGroup string // its name
	fixed       *fixedResponse
	redirect    *redirect
}

type fixedResponse struct {
	ContentType string `json:"contentType"`
	StatusCode  string `json:"statusCode"`
	MessageBody string `json:"messageBody"`
}

type redirect struct {
	Host       string `json:"host"`
	Path       string `json:"path"`
	Port       string `json:"port"`
	Protocol   string `json:"protocol"`
	Query      string `json:"query"`
	StatusCode string `json:"statusCode"`
}

// targetGroup is a port of a Service.
type targetGroup struct {
	name       string // also the name of its TargetGroupBinding
	protocol   string
	port       int32
	targetType string

	service     *corev1.Service
	servicePort int32

	health     healthCheck
	attributes map[string]string
	targets    []target
	gated      map[target]*corev1.Pod // waiting for their target to be healthy
}

// nameFor returns the name of a group for a port of a Service. Its unique part includes what cannot be changed: a
// group with another target type is another group.
func (g *targetGroup) nameFor(stack string, s *corev1.Service, port int32) string {
	return shortName(fmt.Sprintf("%s/%s/%s/%d/%s/%s", stack, s.Namespace, s.Name, port, g.protocol, g.targetType),
		s.Namespace, s.Name)
}

type healthCheck struct {
	protocol, port, path, codes           string
	interval, timeout, healthy, unhealthy int32
}

type target struct {
	id   string
	port int32
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// shortName returns an AWS name of at most 32 characters: k8s-, the beginnings of the words, and ten digits derived
// from unique (like the AWS Load Balancer Controller's names: k8s-game2048-ingress2-db993ba6ac).
func shortName(unique string, words ...string) string {
	sum := sha256.Sum256([]byte(unique))
	out := "k8s-"
	for _, w := range words {
		w = notInNames.ReplaceAllString(w, "")
		out += w[:min(len(w), 17/len(words))] + "-"
	}
	return out + hex.EncodeToString(sum[:])[:10]
}
