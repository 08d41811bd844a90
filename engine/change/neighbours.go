package change

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// mostAlternatives bounds the product of a shape's own alternatives and those of its volumes.
const mostAlternatives = 64

// neighbours is the shape with its demands on other pods and its volumes turned into requirements on labels, as a new
// machine would meet them beside the pods that are there, and whether that can be said at all: it cannot where pods that
// wait may be in the way by then. Pods of the shape itself count as waiting only if strict: they wait for the same reason.
func (c *search) neighbours(shape *model.Shape, strict bool) (model.Shape, bool) {
	out := *shape
	for i := range shape.Affinity {
		r, ok := c.near(shape, &shape.Affinity[i])
		if !ok {
			return out, false
		}
		out.Required = out.Required.And(r)
	}
	for i := range shape.AntiAffinity {
		r, ok := c.away(shape, &shape.AntiAffinity[i], strict)
		if !ok {
			return out, false
		}
		out.Required = out.Required.And(r)
	}
	for i := range shape.Spread {
		t := &shape.Spread[i]
		if t.Hard && t.Topology != model.LabelHostname && (c.taken(t.Topology, &t.Pods) != nil || c.waiting(shape, &t.Pods, strict)) {
			return out, false
		}
	}
	if c.avoided(shape, strict) {
		return out, false
	}
	for _, v := range shape.Volumes {
		if len(v.Topology) == 0 {
			continue
		}
		var product []model.Requirements
		for _, place := range v.Topology {
			if len(out.AnyOf) == 0 {
				product = append(product, place)
			}
			for _, term := range out.AnyOf {
				product = append(product, term.And(place))
			}
		}
		if out.AnyOf = product; len(product) > mostAlternatives {
			return out, false
		}
	}
	return out, true
}

// near is where a term of affinity can be met: beside a pod that is there, or anywhere if the pod is the first of its group.
func (c *search) near(shape *model.Shape, term *model.PodTerm) (model.Requirements, bool) {
	domains := c.taken(term.Topology, &term.Pods)
	switch {
	case domains == nil:
		return nil, c.chooses(&term.Pods, shape) && !c.waiting(shape, &term.Pods, false)
	case term.Topology == model.LabelHostname:
		return nil, false
	}
	return model.Requirements{model.OneOf(term.Topology, domains...)}, true
}

// away keeps a term of anti-affinity.
func (c *search) away(shape *model.Shape, term *model.PodTerm, strict bool) (model.Requirements, bool) {
	if term.Topology == model.LabelHostname {
		return nil, true
	}
	if c.waiting(shape, &term.Pods, strict) {
		return nil, false
	}
	domains := c.taken(term.Topology, &term.Pods)
	if domains == nil {
		return nil, true
	}
	r, err := model.NewRequirement(term.Topology, model.NotIn, domains...)
	return model.Requirements{r}, err == nil
}

// avoided reports whether a pod that is there, or may be by then, keeps pods like this away from more than its own node.
func (c *search) avoided(shape *model.Shape, strict bool) bool {
	avoids := func(i int) bool {
		return i >= 0 && i < len(c.s.Shapes) && slices.ContainsFunc(c.s.Shapes[i].AntiAffinity, func(t model.PodTerm) bool {
			return t.Topology != model.LabelHostname && c.chooses(&t.Pods, shape)
		})
	}
	for i := range c.s.Pending {
		if at := c.s.Pending[i].Shape; avoids(at) && (strict || c.s.Shapes[at].Key != shape.Key) {
			return true
		}
	}
	for i := range c.s.Nodes {
		for j := range c.s.Nodes[i].Pods {
			if p := &c.s.Nodes[i].Pods[j]; !p.Terminal && avoids(p.Shape) {
				return true
			}
		}
	}
	return false
}

// taken are the values of the topology's label on nodes with pods that the selector chooses; nil if there are no such pods.
func (c *search) taken(topology string, pods *model.Selector) []string {
	var out []string
	for i := range c.s.Nodes {
		n := &c.s.Nodes[i]
		if !slices.ContainsFunc(n.Pods, func(p model.BoundPod) bool {
			return !p.Terminal && p.Shape >= 0 && p.Shape < len(c.s.Shapes) && c.chooses(pods, &c.s.Shapes[p.Shape])
		}) {
			continue
		}
		r, ok := n.Labels.Get(topology)
		if out == nil {
			out = []string{}
		}
		if ok && !r.Complement {
			out = append(out, r.Values...)
		}
	}
	return out
}

// waiting reports whether a pending pod is chosen, of another shape than this one unless strict.
func (c *search) waiting(shape *model.Shape, pods *model.Selector, strict bool) bool {
	chosen := make([]int8, len(c.s.Shapes)) // by shape: 1 yes, -1 no
	for i := range c.s.Pending {
		at := c.s.Pending[i].Shape
		if at < 0 || at >= len(c.s.Shapes) || !strict && c.s.Shapes[at].Key == shape.Key {
			continue
		}
		if chosen[at] == 0 {
			chosen[at] = -1
			if c.chooses(pods, &c.s.Shapes[at]) {
				chosen[at] = 1
			}
		}
		if chosen[at] > 0 {
			return true
		}
	}
	return false
}

func (c *search) chooses(pods *model.Selector, shape *model.Shape) bool {
	i := slices.IndexFunc(c.s.Namespaces, func(n model.Namespace) bool { return n.Name == shape.Namespace })
	var labels []model.Label
	if i >= 0 {
		labels = c.s.Namespaces[i].Labels
	}
	return pods.Matches(shape.Namespace, labels, shape.Labels)
}
