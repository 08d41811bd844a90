package rules

import (
	"fmt"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// unschedulable is what a pod must tolerate to be bound to a cordoned node.
var unschedulable = model.Taint{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}

// verdict is a remembered answer; zero is not known yet.
type verdict uint8

const (
	yes verdict = iota + 1
	noTaint
	noLabel
	noVolume
)

var verdictRules = [...]model.Rule{noTaint: model.RuleTaint, noLabel: model.RuleRequirement, noVolume: model.RuleVolume}

// static is what does not change while pods are bound: labels and taints of nodes against classes of shapes that ask the
// same of them. Answers are remembered by class and node.
type static struct {
	nodes   int
	classes []staticClass
	byText  map[string]int
	aff     map[string]int
	affs    []affinityClass
}

type staticClass struct {
	shape  *model.Shape // any of the class
	labels int          // of static.affs
	known  []verdict    // by node
}

// affinityClass is a required node affinity with the nodes that satisfy it.
type affinityClass struct {
	wants   []model.Requirements // alternatives; none if every node will do
	byValue [][]want             // the same, once many nodes were judged
	judged  int
	known   []verdict
}

func (c *static) init(nodes int) {
	c.nodes, c.byText, c.aff = nodes, map[string]int{}, map[string]int{}
}

func (c *static) grow() {
	c.nodes++
	for i := range c.classes {
		c.classes[i].known = append(c.classes[i].known, 0)
	}
	for i := range c.affs {
		c.affs[i].known = append(c.affs[i].known, 0)
	}
}

// forget lets what is said of a node be found out anew. Its labels are the same as before.
func (c *static) forget(node int) {
	for i := range c.classes {
		c.classes[i].known[node] = 0
	}
}

// classOf is the class of a shape.
func (c *static) classOf(s *model.Shape) int {
	var text strings.Builder
	text.WriteString(affinityText(s))
	text.WriteString(tolerationsText(s.Tolerations))
	for i := range s.Volumes {
		for _, rs := range s.Volumes[i].Topology {
			fmt.Fprintf(&text, " @%d %s", i, rs.String())
		}
	}
	i, ok := c.byText[text.String()]
	if !ok {
		i = len(c.classes)
		c.byText[text.String()] = i
		c.classes = append(c.classes, staticClass{shape: s, labels: c.affinity(s), known: make([]verdict, c.nodes)})
	}
	return i
}

// affinity is the class of a shape's required node affinity.
func (c *static) affinity(s *model.Shape) int {
	text := affinityText(s)
	i, ok := c.aff[text]
	if !ok {
		i = len(c.affs)
		c.aff[text] = i
		a := affinityClass{known: make([]verdict, c.nodes)}
		if len(s.Required) > 0 || len(s.AnyOf) > 0 {
			a.wants = Alternatives(s.Required, s.AnyOf)
		}
		c.affs = append(c.affs, a)
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

// staticRule is what labels, taints and the life cycle of the node say.
func (st *State) staticRule(x *shapeState, node int) model.Rule {
	if x.refused != "" {
		return x.refused
	}
	known := &st.static.classes[x.static].known[node]
	if *known == 0 {
		*known = st.judge(x.static, node)
	}
	return verdictRules[*known]
}

func (st *State) judge(class, node int) verdict {
	n, c := st.node(node), &st.static.classes[class]
	s := c.shape
	switch {
	case n.Deleting, n.Cordoned && (n.State == model.InFlight || !tolerates(s.Tolerations, unschedulable)):
		return noTaint
	case untolerated(n.Taints, s.Tolerations):
		return noTaint
	case !st.affine(c.labels, node):
		return noLabel
	case !st.volumesReach(s.Volumes, node):
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

// affine reports whether the node satisfies a required node affinity.
func (st *State) affine(class, node int) bool {
	c := &st.static.affs[class]
	if len(c.wants) == 0 {
		return true
	}
	if c.known[node] == 0 {
		c.known[node] = noLabel
		if st.judgeAffinity(c, node) {
			c.known[node] = yes
		}
	}
	return c.known[node] == yes
}

// satisfies reports whether the node's labels, and its name, are as wanted.
func (st *State) satisfies(node int, wants model.Requirements) bool {
	n := st.node(node)
	for i := range wants {
		if wants[i].Key != model.NodeNameField {
			continue
		}
		if n.State == model.InFlight && !anyName(wants[i]) || n.State != model.InFlight && !wants[i].Has(n.Name) {
			return false
		}
		rest := make(model.Requirements, 0, len(wants)-1)
		wants = append(append(rest, wants[:i]...), wants[i+1:]...)
		break
	}
	if len(wants) == 0 {
		return true
	}
	var candidates []*model.InstanceType
	if n.State == model.InFlight {
		candidates = possibleTypes(n, st.types[n.Pool])
	}
	return labelsHold(n, wants, candidates)
}

// anyName reports whether a machine whose name is not known yet will do: names that are listed are taken.
func anyName(want model.Requirement) bool {
	return want.Complement && want.Gte == nil && want.Lte == nil
}
