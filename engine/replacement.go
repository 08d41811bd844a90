package engine

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// minCheaperTypes is how many instance types must be cheaper before a single spot node is replaced with spot, and how
// many the launch then lists, so that the replacement is among the cheapest and is not replaced again at once
// (sigs.k8s.io/karpenter/pkg/controllers/disruption).
const minCheaperTypes = 15

// tooDear returns a Reason if the worth of the pods shows that nodes for them cannot cost less than the victims. Then
// no plan is needed.
func (c *proposals) tooDear(victims []*model.Node, pods []model.Pod) model.Reason {
	worth, holds := 0.0, c.sum(pods)
	for i := range pods {
		worth += c.worth.of(pods[i].Shape)
	}
	effective := 0.0
	for _, n := range victims {
		effective += float64(c.effective(n))
	}
	if worth < effective {
		return model.Reason{}
	}
	return c.nearest(&holds)
}

// noBargain does the same for a single victim by comparing its price and the size of its pods with all offerings. If
// there are several victims, some may stay, so only a plan can tell.
func (c *proposals) noBargain(victims []*model.Node, pods []model.Pod) model.Reason {
	if len(victims) > 1 {
		return model.Reason{}
	}
	holds, n := c.sum(pods), victims[0]
	nearest, dearer := c.places().CostsAtLeast(&holds, c.effective(n), &c.policy)
	if !dearer {
		return model.Reason{}
	}
	return notCheaper(model.Launch{Chosen: nearest})
}

// places returns the cluster restricted to the nodes to which consolidation moves pods.
func (c *proposals) places() *solve.Cluster {
	return c.projected.open(destinations{settled: true}).look()
}

// sum returns the total requests of the pods.
func (c *proposals) sum(pods []model.Pod) (out model.Resources) {
	for i := range pods {
		if at := pods[i].Shape; at >= 0 && at < len(c.s.Shapes) {
			out = out.Plus(c.s.Shapes[at].Requests.NonNegative())
		}
	}
	return out
}

// nearest names the cheapest single offering that holds the load, other constraints aside.
func (c *proposals) nearest(holds *model.Resources) model.Reason {
	var best *model.Launch
	for i := range c.s.Pools {
		p := &c.s.Pools[i]
		for t := range p.Types {
			if p.NotReady != "" || p.Static || !holds.Fits(p.Types[t].Allocatable) ||
				c.policy.Preflight == model.Enforce && p.Types[t].Unaddressed > 0 {
				continue
			}
			for _, o := range p.Types[t].Offerings {
				if o.Available && (best == nil || o.Price < best.Chosen.Price) {
					key := model.OfferingKey{Type: p.Types[t].Name, CapacityType: o.CapacityType}
					best = &model.Launch{Chosen: model.Candidate{OfferingKey: key, Price: o.Price}}
				}
			}
		}
	}
	if best == nil {
		return model.Reason{Rule: model.RuleNotCheaper}
	}
	return notCheaper(*best)
}

// cheaper narrows the launches of a proposal to offerings that together cost strictly less than the victims, whichever
// offering each launch gets.
func (c *proposals) cheaper(p *proposal) model.Reason {
	if len(p.plan.Launches) == 0 {
		return model.Reason{}
	}
	if c.launchPrice(&p.plan) >= c.priceOf(p.victims) {
		return notCheaper(p.plan.Launches...)
	}
	if reason := c.smallSaving(p.victims, c.priceOf(p.victims)-c.launchPrice(&p.plan)); reason.Rule != "" {
		return reason
	}
	fromSpot := !slices.ContainsFunc(p.victims, func(n *model.Node) bool { return n.CapacityType != model.Spot })
	toSpot := fromSpot && slices.ContainsFunc(p.plan.Launches, func(l model.Launch) bool { return canBe(&l, model.Spot) })
	if toSpot && !c.policy.SpotToSpot {
		return model.Reason{Rule: model.RuleSpotToSpot}
	}
	few := toSpot && len(p.victims) == 1
	if few {
		c.planFor(p, solve.WithAllTypes(c.policy))
		if len(p.plan.Unplaced) > 0 || c.launchPrice(&p.plan) >= c.priceOf(p.victims) {
			return notCheaper(p.plan.Launches...)
		}
	}
	launches := slices.Clone(p.plan.Launches)
	for i := range launches {
		l := &launches[i]
		below, ok := c.below(p, l)
		if !ok {
			return notCheaper(launches...)
		}
		var reason model.Reason
		if toSpot && canBe(l, model.Spot) {
			reason = c.toSpot(l, below, few)
		} else {
			reason = c.narrow(l, below)
		}
		if reason.Rule != "" {
			return reason
		}
	}
	p.plan.Launches = launches
	return model.Reason{}
}

// narrow restricts the launch to one capacity type: a launch that is cheaper only on spot must not fall back to
// on-demand.
func (c *proposals) narrow(l *model.Launch, below model.Price) model.Reason {
	for _, capacityType := range []string{model.Reserved, model.Spot, model.OnDemand} {
		if !canBe(l, capacityType) {
			continue
		}
		if narrow, _, ok := c.places().Narrow(&c.policy, *l, capacityType, below, math.MaxInt); ok {
			*l = narrow
			return model.Reason{}
		}
	}
	return notCheaper(*l)
}

// toSpot narrows spot launches that replace spot nodes.
func (c *proposals) toSpot(l *model.Launch, below model.Price, few bool) model.Reason {
	most := math.MaxInt
	if few {
		most = minCheaperTypes
	}
	narrow, cheap, ok := c.places().Narrow(&c.policy, *l, model.Spot, below, most)
	switch {
	case few && cheap < minCheaperTypes:
		return model.Reason{Rule: model.RuleSpotToSpot, Detail: strconv.Itoa(minCheaperTypes), Best: strconv.Itoa(cheap)}
	case !ok:
		return notCheaper(*l)
	}
	*l = narrow
	return model.Reason{}
}

// below returns the ceiling for one of the launches so that all of them together save enough; false if that is
// impossible. In a group, a launch that may have the type of a victim must cost less than that victim, which could
// otherwise stay.
func (c *proposals) below(p *proposal, l *model.Launch) (model.Price, bool) {
	least := model.Price(math.MaxInt64)
	for _, n := range p.victims {
		if len(p.victims) > 1 && slices.Contains(l.Types, n.Type) {
			least = min(least, c.effective(n))
		}
	}
	going := c.priceOf(p.victims)
	if saving := c.requiredSaving(p.victims); saving > 0 {
		going -= saving - 1
	}
	if len(p.plan.Launches) == 1 {
		return min(going, least), true
	}
	coming := c.launchPrice(&p.plan)
	return min(portion(c.policy.Effective(l.Chosen.Price), coming, going), least), coming < going
}

// portion returns one launch's share of what all launches may cost: its price, a part of the remainder in proportion
// to its price, and one more because the bound is exclusive. All portions, less one each, add up to less than the
// whole.
func portion(one, all, whole model.Price) model.Price {
	if one < 0 || all <= 0 || whole <= all {
		return one + 1
	}
	high, low := bits.Mul64(uint64(whole-all-1), uint64(min(one, all)))
	part, _ := bits.Div64(high, low, uint64(all))
	return one + model.Price(part) + 1
}

// canBe reports whether the launch may get the capacity type.
func canBe(l *model.Launch, capacityType string) bool {
	r, ok := l.Requirements.Get(model.LabelCapacityType)
	return !ok || r.Has(capacityType)
}

// notCheaper returns a Reason that names what would replace the victims.
func notCheaper(launches ...model.Launch) model.Reason {
	r := model.Reason{Rule: model.RuleNotCheaper}
	sum := model.Price(0)
	for i := range launches {
		sum += launches[i].Chosen.Price
		r.BestOf = launches[i].Chosen.Type + " " + launches[i].Chosen.CapacityType
	}
	if len(launches) > 1 {
		r.BestOf = strconv.Itoa(len(launches)) + " nodes"
	}
	if len(launches) > 0 {
		r.Best = inDollars(sum)
	}
	return r
}
