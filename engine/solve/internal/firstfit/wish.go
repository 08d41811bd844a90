package firstfit

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// chain is a shape with its preferences, dropped one by one: the first form asks for all of them, the last for none.
type chain struct {
	shape *model.Shape
	asks  []ask
	forms []*form
	steps []wish
}

// wish is what a form asks beyond what must be.
type wish struct {
	term   int // of AnyOf; below 0 = any of them
	near   []model.PodPreference
	apart  []model.PodPreference
	labels []model.Preference
	spread []model.Spread
	soft   bool // PreferNoSchedule taints are tolerated
}

// chainOf is the chain of a shape.
func (p *Packer) chainOf(shape int) *chain {
	if p.chains[shape] == nil {
		s := &p.s.Shapes[shape]
		c := &chain{shape: s, asks: asksOf(s.Requests.NonNegative()), steps: p.wishes(s)}
		c.forms = make([]*form, len(c.steps))
		p.chains[shape] = c
	}
	return p.chains[shape]
}

// wishes are the steps from all preferences to none, in Karpenter's order: another term of the required affinity, pods to
// be near, pods to be apart, labels, spreads, and taints at last. Heavier ones go first.
func (p *Packer) wishes(s *model.Shape) []wish {
	w := wish{}
	if len(s.AnyOf) == 0 {
		w.term = -1
	}
	if p.policy.Preferences != model.Ignore {
		w = p.fullWish(s, w)
	}
	out := []wish{w}
	step := func(change func()) {
		change()
		out = append(out, w)
	}
	for w.term >= 0 && w.term < len(s.AnyOf)-1 {
		step(func() { w.term++ })
	}
	for len(w.near) > 0 {
		step(func() { w.near = w.near[1:] })
	}
	for len(w.apart) > 0 {
		step(func() { w.apart = w.apart[1:] })
	}
	for len(w.labels) > 0 {
		step(func() { w.labels = w.labels[1:] })
	}
	for len(w.spread) > 0 {
		step(func() { w.spread = w.spread[1:] })
	}
	if p.soft {
		step(func() { w.soft = true })
	}
	if len(s.AnyOf) > 1 {
		step(func() { w.term = -1 })
	}
	return out
}

func (p *Packer) fullWish(s *model.Shape, w wish) wish {
	for _, pref := range s.PreferredPods {
		if pref.Weight > 0 {
			w.near = append(w.near, pref)
		} else {
			w.apart = append(w.apart, pref)
		}
	}
	slices.SortStableFunc(w.near, func(a, b model.PodPreference) int { return int(b.Weight) - int(a.Weight) })
	slices.SortStableFunc(w.apart, func(a, b model.PodPreference) int { return int(a.Weight) - int(b.Weight) })
	w.labels = slices.Clone(s.Preferred)
	slices.SortStableFunc(w.labels, func(a, b model.Preference) int { return int(b.Weight) - int(a.Weight) })
	for _, c := range s.Spread {
		if !c.Hard {
			w.spread = append(w.spread, c)
		}
	}
	return w
}
