// Package suggest finds the smallest single change after which a pod would have a node: of its own specification, of
// a pool, or of the cluster. Each change is tried with the rules before it is suggested, so that it leads to a node;
// if no change can be shown to, none is suggested.
//
// It is not for the hot path: a plan asks for suggestions for at most MaxShapes shapes, and each suggestion evaluates
// the rules at most maxTries times.
package suggest

import (
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// MaxShapes is the number of unplaced shapes for which a plan should request suggestions; the others get none.
const MaxShapes = 20

// maxTries is how often the rules may be evaluated for one shape: twice for each change that is considered in a pool.
const maxTries = 128

// search is the state of one call.
type search struct {
	s      *model.Snapshot
	shape  *model.Shape
	views  []*rules.View
	rooms  []rules.Headroom
	reason *model.Reason
	tries  int
	fitted Option // node of the last fit; its Change is not set
}

// Smallest returns the change, cheapest for a person, that would place a pod of the shape, or the zero Change if none
// is found. views and rooms describe the snapshot's pools after the nodes planned so far; without views they are
// created here. reason is why the shape could not be placed.
//
// Changes are tried in this order: create what does not exist, raise a limit, tolerate a taint, allow one more value
// of a label, request less, wait, lower minValues, use fewer volumes, widen a pool. If other pods are the cause, the
// change is one of: prefer what is required of them, drop a host port, wait for a volume.
func Smallest(s *model.Snapshot, shape *model.Shape, views []*rules.View, rooms []rules.Headroom,
	reason *model.Reason,
) model.Change {
	for _, o := range Options(s, shape, views, rooms, reason, 1) {
		return o.Change
	}
	return model.Change{}
}

// Options returns up to limit single changes of different kinds that would place a pod of the shape, in the order of
// Smallest.
func Options(s *model.Snapshot, shape *model.Shape, views []*rules.View, rooms []rules.Headroom,
	reason *model.Reason, limit int,
) []Option {
	if len(s.Pools) == 0 {
		return []Option{{Change: model.Change{Rule: model.RuleNoPool, Object: "NodePool", To: "created"}}}
	}
	var out []Option
	c := newSearch(s, shape, views, rooms, reason)
	for _, try := range c.searches() {
		found := try()
		if found == (model.Change{}) {
			continue
		}
		o := c.fitted
		if o.Change = found; c.foreign(&o) {
			o.Change.Arch = o.arch
		}
		if out = append(out, o); len(out) == limit {
			break
		}
	}
	return out
}

func newSearch(s *model.Snapshot, shape *model.Shape, views []*rules.View, rooms []rules.Headroom,
	reason *model.Reason,
) *search {
	if len(views) == 0 {
		for i := range s.Pools {
			v := viewOf(s, &s.Pools[i])
			views, rooms = append(views, v), append(rooms, v.Headroom())
		}
	}
	return &search{s: s, shape: shape, views: views, rooms: rooms, reason: reason}
}

// viewOf prepares a pool.
func viewOf(s *model.Snapshot, p *model.Pool) *rules.View {
	v := rules.NewView(p, s.Daemons)
	v.ApplySubnets(s.Subnets)
	return v
}

// viewOf prepares a changed copy of a pool for the policy of the others.
func (c *search) viewOf(p *model.Pool) *rules.View {
	v := viewOf(c.s, p)
	if c.views[0].Enforced {
		v.ApplyPreflight()
	}
	return v
}

// searches returns the searches that can help against the reason, in order.
func (c *search) searches() []func() model.Change {
	one := func(way func() model.Change) []func() model.Change { return []func() model.Change{way} }
	switch c.reason.Rule {
	case model.RuleUnmodelled, model.RuleSteps:
		return nil
	case model.RulePriority:
		return one(c.morePriority)
	case model.RuleHostPort:
		return one(c.dropPort)
	case model.RuleVolumeInUse:
		return one(c.freeVolume)
	case model.RuleBlocked:
		return one(c.unblock)
	case model.RuleAffinity, model.RuleAntiAffinity, model.RuleSpread:
		return one(c.preferTerm)
	}
	if c.fitsSomewhere(c.shape, false) != "" {
		return nil // the cause is not a rule that can be tried here
	}
	return []func() model.Change{
		c.raiseLimit, c.tolerate, c.allowValue, c.requestLess, c.wait, c.fewerValues, c.fewerVolumes, c.widenPool,
	}
}

// fits reports whether the rules admit a new node of the view for the shape. strict: see neighbours.
func (c *search) fits(shape *model.Shape, v *rules.View, room rules.Headroom, strict bool) bool {
	if c.tries >= maxTries {
		return false
	}
	c.tries++
	alone, ok := c.neighbours(shape, strict)
	fits := ok && v.Verdict(&alone, room, c.s.ResourceNames).Rule == model.RuleSteps && !c.volumeInUse(shape) &&
		(len(shape.HostPorts) == 0 || len(c.candidates(shape, v, room)) > 0) && c.coexists(shape, v, room)
	if fits {
		c.fitted = c.cheapest(shape, v, room)
	}
	return fits
}

// fitsSomewhere returns the first pool that would launch a node for the shape, "" if none.
func (c *search) fitsSomewhere(shape *model.Shape, strict bool) string {
	for i, v := range c.views {
		if c.fits(shape, v, c.rooms[i], strict) {
			return v.Pool.Name
		}
	}
	return ""
}

// candidate is a type of a view with an offering.
type candidate struct {
	t     int
	offer rules.Offer
}

// candidates returns the available candidates that hold the shape within the headroom; it ignores taints and the
// pool's state.
func (c *search) candidates(shape *model.Shape, v *rules.View, room rules.Headroom) []candidate {
	if c.tries >= maxTries {
		return nil
	}
	c.tries++
	alone, ok := c.neighbours(shape, false)
	if !ok {
		return nil
	}
	var out []candidate
	for _, o := range v.Options(alone.Required, alone.AnyOf) {
		for t := range v.Pool.Types {
			if !o.Types.Has(t) || !alone.Requests.Fits(v.Net[t]) || !room.Allows(&v.Pool.Limits, &v.Pool.Types[t].Capacity) ||
				!v.DaemonPortsAllow(shape.HostPorts, t) {
				continue
			}
			for _, f := range v.Offers[t] {
				if f.Available && o.Has(&f) {
					out = append(out, candidate{t, f})
				}
			}
		}
	}
	return out
}

// Option is a change and the cheapest node that would be launched for the pod after it.
type Option struct {
	Change model.Change
	Node   model.Candidate // the zero value if unknown

	arch string // of the node, "" if its type does not say
}

// usualArch is the architecture assumed for images about which nothing else is known.
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
		out.Node = v.Candidate(m.t, &m.offer)
		out.arch, _ = valueOf(v, m, model.LabelArch)
	}
	return out
}
