package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Narrow restricts a launch to one capacity type and to offerings that cost less than the ceiling under the policy:
// to the zones in which its cheapest type does, and to the types that do in all of these zones. It keeps no more
// types than the argument types says, unless minValues need more; minValues are relaxed no further. It returns the
// launch, the number of types that are cheap enough, and whether a launch is left.
func (c *Cluster) Narrow(
	policy *model.Policy, l model.Launch, capacityType string, ceiling model.Price, types int,
) (model.Launch, int, bool) {
	pool := slices.IndexFunc(c.pods.Pools, func(p model.Pool) bool { return p.Name == l.Pool })
	v := *c.viewsOf(c.pods, policy)[pool]
	v.MinValues = slices.Clone(v.MinValues)
	rules.Relax(v.MinValues, l.Relaxed)
	n := narrowing{v: &v, ceiling: ceiling, OfferSet: v.AllOffers()}
	allowed, _ := l.Requirements.Get(model.LabelZone)
	for c, name := range v.Capacities {
		if name != capacityType {
			n.Capacity.Remove(c)
		}
	}
	for z, name := range v.Zones {
		if !allowed.Has(name) {
			n.Zones.Remove(z)
		}
	}
	options := n.options(l.Types)
	cheap := len(options)
	if cheap == 0 {
		return l, 0, false
	}
	indices := make([]int, cheap)
	for i, o := range options {
		indices[i] = o.typ
	}
	kept, ok := v.WithMinValues(indices, min(types, cheap), maxTypes(policy), n.OfferSet)
	if !ok {
		return l, cheap, false
	}
	return n.launch(l, options, kept), cheap, true
}

// narrowing is the state of one Narrow.
type narrowing struct {
	v       *rules.View
	ceiling model.Price
	rules.OfferSet
}

// options returns the cheapest offering of each type that costs less than the ceiling in every remaining zone,
// cheapest first.
func (n *narrowing) options(names []string) []offeringOption {
	var types []int
	for t := range n.v.Net {
		if slices.Contains(names, n.v.Pool.Types[t].Name) {
			types = append(types, t)
		}
	}
	best := n.cheapest(types)
	if len(best) == 0 {
		return nil
	}
	for z := range n.Zones.All() {
		if !slices.ContainsFunc(n.v.Offers[best[0].typ], func(f rules.Offer) bool {
			return f.Zone == z && n.open(f) && n.less(f)
		}) {
			n.Zones.Remove(z)
		}
	}
	return slices.DeleteFunc(n.cheapest(types), func(o offeringOption) bool {
		return slices.ContainsFunc(n.v.Offers[o.typ], func(f rules.Offer) bool { return n.open(f) && !n.less(f) })
	})
}

// cheapest returns the cheapest offering of each type that has one below the ceiling.
func (n *narrowing) cheapest(types []int) []offeringOption {
	var out []offeringOption
	for _, t := range types {
		if f, ok := cheapestOffer(n.v, t, &n.OfferSet); ok && n.less(f) {
			out = append(out, offeringOption{t, f})
		}
	}
	slices.SortFunc(out, compareOptions)
	return out
}

func (n *narrowing) open(f rules.Offer) bool {
	return f.Available && n.Has(&f)
}

func (n *narrowing) less(f rules.Offer) bool {
	return f.Price < n.ceiling
}

// launch returns the launch with the types that are kept.
func (n *narrowing) launch(l model.Launch, options []offeringOption, kept []int) model.Launch {
	before := slices.IndexFunc(n.v.Pool.Types, func(t model.InstanceType) bool { return t.Name == l.Chosen.Type })
	l.Requests = l.Requests.Minus(n.v.Overhead[before]).Plus(n.v.Overhead[kept[0]])
	l.Types, l.RunnerUp = nil, model.Candidate{}
	for i, t := range kept {
		o := options[slices.IndexFunc(options, func(o offeringOption) bool { return o.typ == t })]
		switch i {
		case 0:
			l.Chosen = o.candidate(n.v)
		case 1:
			l.RunnerUp = o.candidate(n.v)
		}
		l.Types = append(l.Types, n.v.Pool.Types[t].Name)
	}
	l.Requirements = l.Requirements.And(possibleOfferings(n.v, kept, l.Types, n.open))
	l.ID = digest(identityOf(&l), l.Pods)
	return l
}
