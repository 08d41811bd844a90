package suggest

import (
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Option is a change and the cheapest node that would be launched for the pod after it.
type Option struct {
	Change model.Change
	Node   model.Candidate // the zero value if unknown

	arch string // of the node, "" if its type does not say
}

// usualArch is the architecture of images about which nothing else is known.
const usualArch = "amd64"

// foreign reports whether the node's architecture may differ from what the pod's image is built for; the engine does
// not know images.
func (c *search) foreign(o *Option) bool {
	if strings.TrimPrefix(o.Change.Object, "requirement ") == model.LabelArch {
		return o.arch != ""
	}
	_, asks := c.shape.Required.Get(model.LabelArch)
	return o.arch != "" && o.arch != usualArch && !asks
}

// Options returns up to limit single changes of different kinds, the smallest first.
func Options(s *model.Snapshot, shape *model.Shape, reason *model.Reason, limit int) []Option {
	var out []Option
	for o := range changes(s, shape, nil, nil, reason) {
		if out = append(out, o); len(out) == limit {
			break
		}
	}
	return out
}

// cheapest returns the cheapest node of the view that holds the shape.
func (c *search) cheapest(shape *model.Shape, v *rules.View, room rules.Headroom) Option {
	tries := c.tries
	defer func() { c.tries = tries }() // looking up a price is not a try
	c.tries = 0
	var out Option
	for _, m := range c.candidates(shape, v, room) {
		if out.Node.Type != "" && m.offer.Real >= out.Node.Price {
			continue
		}
		out.Node = model.Candidate{Price: m.offer.Real, OfferingKey: model.OfferingKey{
			Type: v.Pool.Types[m.t].Name, Zone: v.Zones[m.offer.Zone], CapacityType: v.Capacities[m.offer.Capacity],
		}}
		out.arch, _ = valueOf(v, m, model.LabelArch)
	}
	return out
}
