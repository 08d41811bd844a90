package suggest

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// maxAlternatives bounds the product of a shape's own alternatives and those of its volumes.
const maxAlternatives = 64

// maxZones is the number of zones in which a node is tried next to existing pods.
const maxZones = 4

// neighbours turns the shape's constraints on other pods and its volumes into requirements on labels, as a new node
// would meet them next to the existing pods. It fails if pending pods may interfere before then. Pods of the shape
// itself count as pending only if strict: they wait for the same reason.
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
		if t := &shape.Spread[i]; t.Hard && t.Topology != model.LabelHostname && c.waiting(shape, &t.Pods, strict) {
			return out, false
		}
	}
	if c.repelled(shape) {
		return out, false
	}
	out.AnyOf = rules.Reaching(out.AnyOf, shape.Volumes)
	return out, len(out.AnyOf) <= maxAlternatives || len(rules.Places(shape.Volumes)) == 0
}

// near returns where an affinity term can be met: next to an existing pod, or anywhere if the pod is the first of its
// group.
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

// away returns the requirement that keeps an anti-affinity term.
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

// repels reports whether pods of another shape, with this index, keep pods like this one away from more than their
// own node.
func (c *search) repels(i int, shape *model.Shape) bool {
	return i >= 0 && i < len(c.s.Shapes) && c.s.Shapes[i].Key != shape.Key &&
		slices.ContainsFunc(c.s.Shapes[i].AntiAffinity, func(t model.PodTerm) bool {
			return t.Topology != model.LabelHostname && c.chooses(&t.Pods, shape)
		})
}

// repelled reports whether a pending pod may keep pods like this one away once it runs.
func (c *search) repelled(shape *model.Shape) bool {
	if !slices.ContainsFunc(c.s.Shapes, func(s model.Shape) bool { return len(s.AntiAffinity) > 0 }) {
		return false
	}
	return slices.ContainsFunc(c.s.Pending, func(p model.Pod) bool { return c.repels(p.Shape, shape) })
}

// coexists reports whether a node of the view can exist next to the existing pods. It tries one node per zone.
func (c *search) coexists(shape *model.Shape, v *rules.View, room rules.Headroom) bool {
	alone := len(shape.Affinity)+len(shape.AntiAffinity)+len(shape.Spread) == 0
	for i := 0; alone && i < len(c.s.Shapes); i++ {
		alone = !c.repels(i, shape)
	}
	if alone {
		return true
	}
	looked := map[int]bool{}
	for _, m := range c.candidates(shape, v, room) {
		if looked[m.offer.Zone] || len(looked) == maxZones {
			continue
		}
		looked[m.offer.Zone] = true
		s, own := c.changed(shape)
		state, t := rules.NewState(s), &v.Pool.Types[m.t]
		node := state.AddNode(model.Node{
			Name: "a new node", Pool: v.Pool.Name, Type: t.Name, Labels: v.LabelsOf(m.t, m.offer), Taints: v.Pool.Taints,
			Zone: v.Zones[m.offer.Zone], CapacityType: v.Capacities[m.offer.Capacity],
			Capacity: t.Capacity, Allocatable: v.Net[m.t], AttachLimits: t.AttachLimits,
		})
		if state.AllowsPods(own, node) == "" {
			return true
		}
	}
	return false
}

// changed returns the snapshot in which all pods of the shape, which come from one template, have the changed shape,
// and the index of the shape.
func (c *search) changed(shape *model.Shape) (*model.Snapshot, int) {
	s := *c.s
	s.Shapes = slices.Clone(s.Shapes)
	own := slices.IndexFunc(s.Shapes, func(o model.Shape) bool { return o.Key == shape.Key })
	if own < 0 {
		s.Shapes = append(s.Shapes, *shape)
		return &s, len(s.Shapes) - 1
	}
	s.Shapes[own] = *shape
	return &s, own
}

// taken returns the values of the topology label on nodes with pods that the selector selects; nil if there are no
// such pods.
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

// waiting reports whether the selector selects a pending pod; without strict, one of another shape.
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
