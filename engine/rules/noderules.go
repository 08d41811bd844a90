package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// unschedulable is the taint that a pod must tolerate to be bound to a cordoned node.
var unschedulable = model.Taint{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}

// verdict is a cached answer; zero means unknown.
type verdict uint8

const (
	yes verdict = iota + 1
	noTaint
	noLabel
	noVolume
)

var verdictRules = [...]model.Rule{noTaint: model.RuleTaint, noLabel: model.RuleRequirement, noVolume: model.RuleVolume}

// nodeRules are the constraints that binding pods does not change: labels, taints and volume topology of nodes against
// classes of shapes with the same constraints. Answers are remembered by class and node.
type nodeRules struct {
	*nodes
	*topologies
	classes        []nodeClass
	affinities     []affinityClass
	classOfText    map[string]int
	affinityOfText map[string]int
}

type nodeClass struct {
	shape    *model.Shape // any of the class
	affinity int          // index into nodeRules.affinities
	known    []verdict    // by node
}

// affinityClass is a required node affinity and the nodes that satisfy it.
type affinityClass struct {
	wants   []model.Requirements // alternatives; none if every node satisfies it
	byValue [][]want             // the same, once many nodes were judged
	judged  int
	known   []verdict
}

func newNodeRules(ns *nodes, ts *topologies) *nodeRules {
	return &nodeRules{nodes: ns, topologies: ts, classOfText: map[string]int{}, affinityOfText: map[string]int{}}
}

// grow makes room for the answers about a node that was added.
func (nr *nodeRules) grow() {
	for i := range nr.classes {
		nr.classes[i].known = append(nr.classes[i].known, 0)
	}
	for i := range nr.affinities {
		nr.affinities[i].known = append(nr.affinities[i].known, 0)
	}
}

// forget discards the answers about a node whose taints or state changed. Its labels are the same as before.
func (nr *nodeRules) forget(node int) {
	for i := range nr.classes {
		nr.classes[i].known[node] = 0
	}
}

// classOf returns the class of a shape.
func (nr *nodeRules) classOf(s *model.Shape) int {
	var text strings.Builder
	text.WriteString(affinityText(s))
	text.WriteString(tolerationsText(s.Tolerations))
	for i := range s.Volumes {
		for _, rs := range s.Volumes[i].Topology {
			fmt.Fprintf(&text, " @%d %s", i, rs.String())
		}
	}
	i, ok := nr.classOfText[text.String()]
	if !ok {
		i = len(nr.classes)
		nr.classOfText[text.String()] = i
		nr.classes = append(nr.classes, nodeClass{shape: s, affinity: nr.affinity(s), known: make([]verdict, nr.Nodes())})
	}
	return i
}

// affinity returns the class of a shape's required node affinity.
func (nr *nodeRules) affinity(s *model.Shape) int {
	text := affinityText(s)
	i, ok := nr.affinityOfText[text]
	if !ok {
		i = len(nr.affinities)
		nr.affinityOfText[text] = i
		a := affinityClass{known: make([]verdict, nr.Nodes())}
		if len(s.Required) > 0 || len(s.AnyOf) > 0 {
			a.wants = Alternatives(s.Required, s.AnyOf)
		}
		nr.affinities = append(nr.affinities, a)
	}
	return i
}

func affinityText(s *model.Shape) string {
	if len(s.Required) == 0 && len(s.AnyOf) == 0 {
		return ""
	}
	parts := []string{s.Required.String()}
	for _, term := range s.AnyOf {
		parts = append(parts, term.String())
	}
	return strings.Join(parts, " | ")
}

func tolerationsText(tolerations []model.Toleration) string {
	var text strings.Builder
	for _, t := range tolerations {
		fmt.Fprintf(&text, " ~ %q %q %v %q", t.Key, t.Value, t.Exists, t.Effect)
	}
	return text.String()
}

// nodeRule returns the rule by which the node's labels, taints or state exclude the shape, "" if none.
func (nr *nodeRules) nodeRule(x *shapeState, node int) model.Rule {
	if x.refused != "" {
		return x.refused
	}
	known := &nr.classes[x.class].known[node]
	if *known == 0 {
		*known = nr.judge(x.class, node)
	}
	return verdictRules[*known]
}

func (nr *nodeRules) judge(class, node int) verdict {
	n, c := nr.Node(node), &nr.classes[class]
	s := c.shape
	switch {
	case n.Deleting, n.Cordoned && (n.State == model.InFlight || !tolerates(s.Tolerations, unschedulable)):
		return noTaint
	case untolerated(n.Taints, s.Tolerations):
		return noTaint
	case !nr.affine(c.affinity, node):
		return noLabel
	case !nr.volumesReach(s.Volumes, node):
		return noVolume
	}
	return yes
}

func tolerates(tolerations []model.Toleration, t model.Taint) bool {
	return !untolerated([]model.Taint{t}, tolerations)
}

func untolerated(taints []model.Taint, tolerations []model.Toleration) bool {
	if len(taints) == 0 {
		return false
	}
	_, bad := model.Untolerated(taints, tolerations)
	return bad
}

// HasPreferNoSchedule reports whether one of the taints is PreferNoSchedule.
func HasPreferNoSchedule(taints []model.Taint) bool {
	return slices.ContainsFunc(taints, func(t model.Taint) bool { return t.Effect == model.PreferNoSchedule })
}

// Avoided reports whether one of the taints is an untolerated PreferNoSchedule taint, so that pods should avoid the
// node if they can.
func Avoided(taints []model.Taint, tolerations []model.Toleration) bool {
	return slices.ContainsFunc(taints, func(t model.Taint) bool {
		return t.Effect == model.PreferNoSchedule &&
			!slices.ContainsFunc(tolerations, func(x model.Toleration) bool { return x.Tolerates(t) })
	})
}

// affine reports whether the node satisfies a required node affinity.
func (nr *nodeRules) affine(class, node int) bool {
	c := &nr.affinities[class]
	if len(c.wants) == 0 {
		return true
	}
	if c.known[node] == 0 {
		c.known[node] = noLabel
		if nr.judgeAffinity(c, node) {
			c.known[node] = yes
		}
	}
	return c.known[node] == yes
}
