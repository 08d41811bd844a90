package suggest

import (
	"math"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// raiseLimit raises one limit of a pool by as little as any node needs.
func (c *search) raiseLimit() model.Change {
	for i, v := range c.views {
		l, room := &v.Pool.Limits, c.rooms[i]
		if l.NodesSet && !l.OfGroup && room.Nodes <= 0 {
			raised := room
			raised.Nodes = 1
			if c.fits(c.shape, v, raised, false) {
				return model.Change{
					Rule: model.RuleLimit, Object: "limit nodes", Pool: v.Pool.Name,
					From: model.Quantity("", l.Nodes), To: model.Quantity("", l.Nodes-room.Nodes+1),
				}
			}
		}
		for r, set := range l.Set {
			if !set {
				continue
			}
			name := model.ResourceName(c.s.ResourceNames, r)
			if to := c.limitNeeded(v, room, r); to > 0 {
				return model.Change{
					Rule: model.RuleLimit, Object: "limit " + name, Pool: v.Pool.Name,
					From: model.Quantity(name, l.Max[r]), To: model.Quantity(name, to),
				}
			}
		}
	}
	return model.Change{}
}

// limitNeeded returns the lowest limit of the resource with which the pool would launch a node, 0 if none would do.
func (c *search) limitNeeded(v *rules.View, room rules.Headroom, r int) int64 {
	open := room
	open.Left[r] = math.MaxInt64
	var amounts []int64
	for _, m := range c.candidates(c.shape, v, open) {
		amounts = append(amounts, v.Pool.Types[m.t].Capacity[r])
	}
	if len(amounts) == 0 {
		return 0
	}
	most := v.Pool.Limits.Max
	used := most.Minus(room.Left)
	// The smallest type is enough, unless minValues need others beside it.
	for _, amount := range []int64{slices.Min(amounts), slices.Max(amounts)} {
		var node model.Resources
		node[r] = amount
		to := roundUp(model.ResourceName(c.s.ResourceNames, r), used.Plus(node)[r])
		if to <= most[r] {
			continue
		}
		raised := room
		raised.Left[r] = to - used[r]
		if c.fits(c.shape, v, raised, false) {
			return to
		}
	}
	return 0
}

// wait waits for a pool to become ready, or for an offering to have capacity again.
func (c *search) wait() model.Change {
	for i, v := range c.views {
		if v.Pool.Static {
			continue
		}
		ready, pool := *v, *v.Pool
		pool.NotReady = ""
		ready.Pool = &pool
		if why := v.Pool.NotReady; why != "" && c.fits(c.shape, &ready, c.rooms[i], false) {
			return model.Change{
				Rule: model.RulePoolNotReady, Object: "pool " + pool.Name, Pool: pool.Name, From: why,
				To: "ready",
			}
		}
		if !slices.ContainsFunc(v.Offers, outOfStock) {
			continue
		}
		stocked := *v
		stocked.Offers = make([][]rules.Offer, len(v.Offers))
		for t, offers := range v.Offers {
			stocked.Offers[t] = slices.Clone(offers)
			for o := range offers {
				stocked.Offers[t][o].Available = !offers[o].Dry && !offers[o].Refused && !offers[o].Shifted
			}
		}
		if !c.fits(c.shape, &stocked, c.rooms[i], false) {
			continue
		}
		name, ok := cheapestValue(&stocked, c.candidates(c.shape, &stocked, c.rooms[i]), model.LabelInstanceType)
		if ok {
			return model.Change{
				Rule: model.RuleCapacity, Object: name, Pool: pool.Name, From: "out of capacity",
				To: "available",
			}
		}
	}
	return model.Change{}
}

// outOfStock reports whether the cloud has no capacity for some of a type's offers.
func outOfStock(offers []rules.Offer) bool {
	return slices.ContainsFunc(offers, func(o rules.Offer) bool { return !o.InStock() && !o.Shifted })
}

// fewerValues lowers one minValues of a pool to what can be met.
func (c *search) fewerValues() model.Change {
	alone, ok := c.neighbours(c.shape, false)
	if !ok {
		return model.Change{}
	}
	for i, v := range c.views {
		verdict := v.Verdict(&alone, c.rooms[i], c.s.ResourceNames)
		at := slices.IndexFunc(v.MinValues, func(r model.Requirement) bool { return r.Key == verdict.Object })
		left, err := strconv.Atoi(verdict.Best)
		if verdict.Rule != model.RuleMinValues || at < 0 || err != nil {
			continue
		}
		fewer := *v
		fewer.MinValues = slices.Clone(v.MinValues)
		fewer.MinValues[at].MinValues = left
		if c.fits(c.shape, &fewer, c.rooms[i], false) {
			return model.Change{
				Rule: model.RuleMinValues, Object: verdict.Object, Pool: v.Pool.Name,
				From: verdict.Detail, To: verdict.Best,
			}
		}
	}
	return model.Change{}
}

// widenPool adds one value to a pool's requirement on a label.
func (c *search) widenPool() model.Change {
	for i, v := range c.views {
		for _, r := range v.Pool.Requirements {
			if r.Key == model.LabelPool || c.tries >= maxTries {
				continue
			}
			c.tries++
			pool := *v.Pool
			pool.Requirements = pool.Requirements.Without(r.Key)
			value, ok := "", false
			if wide := c.viewOf(&pool); wide.OfTypes(r.Key) || r.Key == model.LabelZone ||
				r.Key == model.LabelCapacityType {
				value, ok = nearestValue(wide, c.candidates(c.shape, wide, c.rooms[i]), r)
			}
			if !ok || value == "" {
				continue
			}
			more := model.OneOf(r.Key, append(slices.Clone(r.Values), value)...)
			if r.Complement {
				more = model.OneOf(r.Key, value)
			}
			more.MinValues = r.MinValues
			pool.Requirements = pool.Requirements.And(model.Requirements{more})
			if c.fits(c.shape, c.viewOf(&pool), c.rooms[i], false) {
				return model.Change{
					Rule: model.RuleRequirement, Object: "requirement " + r.Key, Pool: pool.Name,
					From: valuesText(r), To: value,
				}
			}
		}
	}
	return model.Change{}
}

// roundDown and roundUp return the next amount that Quantity formats exactly, so that people read the amount that was
// tried.
func roundDown(resource string, n int64) int64 { return n - n%unit(resource, n) }

func roundUp(resource string, n int64) int64 {
	u := unit(resource, n)
	if n%u == 0 || n > math.MaxInt64-u {
		return n
	}
	return n - n%u + u
}

func unit(resource string, n int64) int64 {
	const ki, mi, gi = int64(1) << 10, int64(1) << 20, int64(1) << 30
	if model.Quantity(resource, gi) != "1Gi" {
		return 1
	}
	switch {
	case n >= 10*gi:
		return gi
	case n >= 10*mi:
		return mi
	case n >= 10*ki:
		return ki
	}
	return 1
}
