// Package suggest finds the smallest single change after which a pod would have a machine: of its own specification, of a
// pool, or of the world. Each change is tried with the rules before it is named, so a named change leads to a machine; where
// that cannot be shown, none is named.
//
// It is not for the hot path: a plan asks for at most MostShapes shapes, and each asks the rules at most mostTries times.
package suggest

import (
	"iter"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// MostShapes is for how many shapes without a place a plan should ask; the rest goes without a change.
const MaxShapes = 20

// mostTries is how often one shape may ask the rules: twice for each change that is considered in a pool.
const mostTries = 128

// search is one call's working state.
type search struct {
	s      *model.Snapshot
	shape  *model.Shape
	views  []*rules.View
	rooms  []rules.Headroom
	reason *model.Reason
	tries  int
	fitted Option // the machine of the last fit; its Change is not set
}

// Smallest is the cheapest change, for a person, that would place a pod of the shape, or the zero Change if none is found.
// views and rooms are of the snapshot's pools, after what is planned already; without views they are made here. reason is
// why the shape got nothing.
//
// In the order in which they are tried: create what does not exist, raise a limit, tolerate a taint, allow one more value of
// a label, ask for less, wait, keep fewer minValues, have fewer volumes, let a pool launch more. What other pods stand in the
// way of has an answer of its own: prefer what is required of them, do without a host port, wait for a volume.
func Smallest(s *model.Snapshot, shape *model.Shape, views []*rules.View, rooms []rules.Headroom, reason *model.Reason) model.Change {
	for c := range changes(s, shape, views, rooms, reason) {
		return c.Change
	}
	return model.Change{}
}

// changes are those that would place a pod of the shape, in the order in which they are tried.
func changes(s *model.Snapshot, shape *model.Shape, views []*rules.View, rooms []rules.Headroom, reason *model.Reason) iter.Seq[Option] {
	return func(yield func(Option) bool) {
		if len(s.Pools) == 0 {
			yield(Option{Change: model.Change{Rule: model.RuleNoPool, Object: "NodePool", To: "created"}})
			return
		}
		c := newSearch(s, shape, views, rooms, reason)
		for _, try := range c.ways() {
			found := try()
			if found == (model.Change{}) {
				continue
			}
			o := c.fitted
			if o.Change = found; c.foreign(&o) {
				o.Change.Arch = o.arch
			}
			if !yield(o) {
				return
			}
		}
	}
}

func newSearch(s *model.Snapshot, shape *model.Shape, views []*rules.View, rooms []rules.Headroom, reason *model.Reason) *search {
	if len(views) == 0 {
		for i := range s.Pools {
			v := rules.NewView(&s.Pools[i], s.Daemons)
			views, rooms = append(views, v), append(rooms, v.Headroom())
		}
	}
	return &search{s: s, shape: shape, views: views, rooms: rooms, reason: reason}
}

// ways are the searches for changes that can help against the reason, in order.
func (c *search) ways() []func() model.Change {
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
		return nil // what stood in the way is not a rule that can be tried here
	}
	return []func() model.Change{
		c.raiseLimit, c.tolerate, c.allowValue, c.askLess, c.wait, c.fewerValues, c.fewerVolumes, c.widenPool,
	}
}

// fits reports whether the rules give a new machine of the view to the shape. strict: see neighbours.
func (c *search) fits(shape *model.Shape, v *rules.View, room rules.Headroom, strict bool) bool {
	if c.tries >= mostTries {
		return false
	}
	c.tries++
	alone, ok := c.neighbours(shape, strict)
	fits := ok && v.Verdict(&alone, room, c.s.ResourceNames).Rule == model.RuleSteps && !c.barred(shape) &&
		(len(shape.HostPorts) == 0 || len(c.machines(shape, v, room)) > 0) && c.besides(shape, v, room)
	if fits {
		c.fitted = c.cheapest(shape, v, room)
	}
	return fits
}

// fitsSomewhere is the first pool that would give a machine to the shape, "" if none.
func (c *search) fitsSomewhere(shape *model.Shape, strict bool) string {
	for i, v := range c.views {
		if c.fits(shape, v, c.rooms[i], strict) {
			return v.Pool.Name
		}
	}
	return ""
}

// machine is a type of a view with an offering.
type machine struct {
	t     int
	offer rules.Offer
}

// machines are those that hold the shape within the room, available now; taints and the pool's state are not looked at.
func (c *search) machines(shape *model.Shape, v *rules.View, room rules.Headroom) []machine {
	if c.tries >= mostTries {
		return nil
	}
	c.tries++
	alone, ok := c.neighbours(shape, false)
	if !ok {
		return nil
	}
	var out []machine
	for _, o := range v.Options(alone.Required, alone.AnyOf) {
		for t := range v.Pool.Types {
			if !o.Types.Has(t) || !alone.Requests.Fits(v.Net[t]) || !room.Allows(&v.Pool.Limits, &v.Pool.Types[t].Capacity) || !v.DaemonPortsAllow(shape.HostPorts, t) {
				continue
			}
			for _, f := range v.Offers[t] {
				if f.Available && o.Zones[f.Zone] && o.Capacity[f.Capacity] {
					out = append(out, machine{t, f})
				}
			}
		}
	}
	return out
}

// withoutKey is rs without the requirement on key.
func withoutKey(rs model.Requirements, key string) model.Requirements {
	return slices.DeleteFunc(slices.Clone(rs), func(r model.Requirement) bool { return r.Key == key })
}
