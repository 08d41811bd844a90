package suggest

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// mostAlternatives bounds the product of a shape's own alternatives and those of its volumes.
const mostAlternatives = 64

// mostZones is in how many zones a machine is tried beside the pods that are there.
const mostZones = 4

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
		if t := &shape.Spread[i]; t.Hard && t.Topology != model.LabelHostname && c.waiting(shape, &t.Pods, strict) {
			return out, false
		}
	}
	if c.avoided(shape) {
		return out, false
	}
	if places := rules.Places(shape.Volumes); places != nil {
		product := places
		if len(out.AnyOf) > 0 {
			product = nil
		}
		for _, term := range out.AnyOf {
			for _, place := range places {
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

// avoids reports whether pods of another shape, with this index, keep pods like this away from more than their own node.
func (c *search) avoids(i int, shape *model.Shape) bool {
	return i >= 0 && i < len(c.s.Shapes) && c.s.Shapes[i].Key != shape.Key && slices.ContainsFunc(c.s.Shapes[i].AntiAffinity, func(t model.PodTerm) bool {
		return t.Topology != model.LabelHostname && c.chooses(&t.Pods, shape)
	})
}

// avoided reports whether a pod that waits may by then keep pods like this away.
func (c *search) avoided(shape *model.Shape) bool {
	if !slices.ContainsFunc(c.s.Shapes, func(s model.Shape) bool { return len(s.AntiAffinity) > 0 }) {
		return false
	}
	return slices.ContainsFunc(c.s.Pending, func(p model.Pod) bool { return c.avoids(p.Shape, shape) })
}

// besides reports whether a machine of the view can be beside the pods that are there. It looks at one of each zone.
func (c *search) besides(shape *model.Shape, v *rules.View, room rules.Headroom) bool {
	alone := len(shape.Affinity)+len(shape.AntiAffinity)+len(shape.Spread) == 0
	for i := 0; alone && i < len(c.s.Shapes); i++ {
		alone = !c.avoids(i, shape)
	}
	if alone {
		return true
	}
	looked := map[int]bool{}
	for _, m := range c.machines(shape, v, room) {
		if looked[m.offer.Zone] || len(looked) == mostZones {
			continue
		}
		looked[m.offer.Zone] = true
		s, own := c.changed(shape)
		state, t := rules.NewState(s), &v.Pool.Types[m.t]
		node := state.AddNode(model.Node{
			Name: "a new machine", Pool: v.Pool.Name, Type: t.Name, Labels: v.LabelsOf(m.t, m.offer), Taints: v.Pool.Taints,
			Zone: v.Zones[m.offer.Zone], CapacityType: v.Capacities[m.offer.Capacity],
			Capacity: t.Capacity, Allocatable: v.Net[m.t], AttachLimits: t.AttachLimits,
		})
		if state.AllowsPods(own, node) == "" {
			return true
		}
	}
	return false
}

// changed is the snapshot with the changed shape, for all pods that have it: they are made from one template. It gives the
// shape's index as well.
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
