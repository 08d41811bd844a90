package methods

import (
	"math"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/pack"
)

// fewestCheaper is how many types must be cheaper before one spot machine is replaced by another, and how many the replacement
// may then be: what comes is among the cheapest and is not replaced again at once (karpenter.md §8.2).
const fewestCheaper = 15

// unsettledRequests is what the pods that find no place ask together; nil if all find one.
func unsettledRequests(p *proposal) *model.Resources {
	settled := make(map[model.PodKey]bool, len(p.plan.Placements))
	for i := range p.plan.Placements {
		settled[p.plan.Placements[i].Pod] = true
	}
	var sum *model.Resources
	for i := range p.overlay.Pending {
		pod := &p.overlay.Pending[i]
		if settled[pod.PodKey] {
			continue
		}
		if sum == nil {
			sum = &model.Resources{}
		}
		if pod.Shape >= 0 && pod.Shape < len(p.overlay.Shapes) {
			*sum = sum.Plus(p.overlay.Shapes[pod.Shape].Requests.NonNegative())
		}
	}
	return sum
}

// tooDear says that no single machine which can be had and holds so much costs less than the price, whatever else its pods want:
// then there is no need to plan.
func (c *consolidation) tooDear(victims []*model.Node, holds *model.Resources, price model.Price) model.Reason {
	noSpot := !c.policy.SpotToSpot && !slices.ContainsFunc(victims, func(n *model.Node) bool { return n.CapacityType != model.Spot })
	best, spot := (*model.Launch)(nil), false
	for i := range c.s.Pools {
		p := &c.s.Pools[i]
		for t := range p.Types {
			if p.NotReady != "" || p.Static || !holds.Fits(p.Types[t].Allocatable) {
				continue
			}
			for _, o := range p.Types[t].Offerings {
				switch {
				case !o.Available:
				case noSpot && o.CapacityType == model.Spot:
					spot = spot || o.Price < price
				case o.Price < price:
					return model.Reason{}
				case best == nil || o.Price < best.Chosen.Price:
					best = &model.Launch{Chosen: model.Candidate{OfferingKey: model.OfferingKey{Type: p.Types[t].Name, CapacityType: o.CapacityType}, Price: o.Price}}
				}
			}
		}
	}
	switch {
	case spot:
		return model.Reason{Rule: model.RuleSpotToSpot}
	case best == nil:
		return model.Reason{Rule: model.RuleNotCheaper}
	}
	return notCheaper(best)
}

// cheaper narrows a proposal's replacement to what is strictly cheaper than the machines that go, whatever comes of it.
func (c *consolidation) cheaper(p *proposal) model.Reason {
	l := p.plan.Launches[0]
	below := c.below(p.victims, l.Types)
	if c.canBe(&l, model.Spot) && !slices.ContainsFunc(p.victims, func(n *model.Node) bool { return n.CapacityType != model.Spot }) {
		return c.spotToSpot(p, l, below)
	}
	for _, capacityType := range []string{model.Reserved, model.Spot, model.OnDemand} {
		if !c.canBe(&l, capacityType) {
			continue
		}
		// What is cheaper as a spot machine may be so only as one: then it comes as one or not at all.
		if narrow, _, ok := pack.Cheaper(p.overlay, c.policy, l, capacityType, below, math.MaxInt); ok {
			p.plan.Launches[0] = narrow
			return model.Reason{}
		}
	}
	return notCheaper(&l)
}

// spotToSpot is for spot machines that a spot machine would replace.
func (c *consolidation) spotToSpot(p *proposal, l model.Launch, below pack.Below) model.Reason {
	if l.Chosen.Price >= below.Real {
		return notCheaper(&l)
	}
	if !c.policy.SpotToSpot {
		return model.Reason{Rule: model.RuleSpotToSpot}
	}
	most := math.MaxInt
	if len(p.victims) == 1 {
		wide := pack.ProvisionWidely(p.overlay, c.policy)
		if len(wide.Launches) != 1 || len(wide.Unplaced) > 0 {
			return model.Reason{Rule: model.RuleMoreMachines, Detail: count(len(wide.Launches))}
		}
		most, l, p.plan = fewestCheaper, wide.Launches[0], wide
	}
	narrow, cheap, ok := pack.Cheaper(p.overlay, c.policy, l, model.Spot, below, most)
	switch {
	case len(p.victims) == 1 && cheap < fewestCheaper:
		return model.Reason{Rule: model.RuleSpotToSpot, Detail: count(fewestCheaper), Best: count(cheap)}
	case !ok:
		return notCheaper(&l)
	}
	p.plan.Launches[0] = narrow
	return model.Reason{}
}

// below is what a replacement must cost less than: all that goes and, where several go and one of them is of a type that the
// replacement may have, that one too, since it might as well stay.
func (c *consolidation) below(victims []*model.Node, types []string) pack.Below {
	var out pack.Below
	least := pack.Below{Real: math.MaxInt64, Effective: math.MaxInt64}
	for _, n := range victims {
		effective := c.policy.Effective(n.Type, &model.Offering{CapacityType: n.CapacityType, Price: n.Price})
		out.Real, out.Effective = out.Real+n.Price, out.Effective+effective
		if len(victims) > 1 && slices.Contains(types, n.Type) {
			least.Real, least.Effective = min(least.Real, n.Price), min(least.Effective, effective)
		}
	}
	return pack.Below{Real: min(out.Real, least.Real), Effective: min(out.Effective, least.Effective)}
}

// canBe reports whether the launch may come on the capacity type.
func (c *consolidation) canBe(l *model.Launch, capacityType string) bool {
	r, ok := l.Requirements.Get(model.LabelCapacityType)
	return !ok || r.Has(capacityType)
}

// notCheaper names what would have to take the place of what is there.
func notCheaper(l *model.Launch) model.Reason {
	return model.Reason{
		Rule: model.RuleNotCheaper, Best: strconv.FormatFloat(l.Chosen.Price.Dollars(), 'f', -1, 64), BestOf: l.Chosen.Type + " " + l.Chosen.CapacityType,
	}
}
