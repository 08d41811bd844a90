package compatible

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// maxTogether is the largest number of nodes that one command removes.
const maxTogether = 100

// Disrupt returns the nodes to remove, by the first method that finds any.
func Disrupt(s *model.Snapshot) model.Plan {
	if len(s.Pools) == 0 || s.Pools[0].Disruption.Never {
		return model.Plan{}
	}
	d := &disruption{s: s, pool: &s.Pools[0], offers: marketOf(s)}
	d.candidates()
	if plan := d.emptiness(); len(plan.Removals) > 0 {
		return plan
	}
	if d.pool.Disruption.WhenEmptyOnly || d.pool.Disruption.AllowedUnderused <= 0 {
		return model.Plan{}
	}
	d.pending, d.base = waiting(s), rooms(s)
	for i := range d.base {
		if d.young[d.base[i].name] {
			// not used as a destination
			d.base[i].free = vector{math.MinInt64 / 4, math.MinInt64 / 4, math.MinInt64 / 4, math.MinInt64 / 4}
		}
	}
	if c, ok := d.multi(); ok {
		return model.Plan{Commands: []model.Command{c}}
	}
	if c, ok := d.single(); ok {
		return model.Plan{Commands: []model.Command{c}}
	}
	return model.Plan{}
}

type disruption struct {
	s       *model.Snapshot
	pool    *model.Pool
	offers  []offer
	empty   []*model.Node
	used    []*model.Node // highest price per disruption cost first
	young   map[string]bool
	pending []item
	base    []room
}

// candidates finds the nodes that are ready, not nominated, and have had no pod events for consolidateAfter.
func (d *disruption) candidates() {
	d.young = map[string]bool{}
	for i := range d.s.Nodes {
		n := &d.s.Nodes[i]
		if n.Claim == "" || n.Deleting || n.State != model.Initialized {
			continue
		}
		quiet := n.Initialized
		if n.LastPodEvent.After(quiet) {
			quiet = n.LastPodEvent
		}
		after := d.pool.Disruption.ConsolidateAfter
		switch {
		case after > 0 && d.s.Now.Before(quiet.Add(after)):
			d.young[n.Name] = true
		case d.s.Now.Before(n.NominatedUntil) || n.DoNotDisrupt:
		case len(n.Pods) == 0:
			d.empty = append(d.empty, n)
		default:
			d.used = append(d.used, n)
		}
	}
	slices.SortStableFunc(d.used, func(a, b *model.Node) int {
		return cmp.Or(cmp.Compare(ratio(b), ratio(a)), cmp.Compare(a.Name, b.Name))
	})
}

// cost returns the disruption cost of the node: 1, and 1 for each pod of default priority.
func cost(n *model.Node) float64 {
	sum := 1.0
	for i := range n.Pods {
		sum += float64(n.Pods[i].EvictionCost) / 1000
	}
	return sum
}

func ratio(n *model.Node) float64 { return float64(n.Price) / cost(n) }

// emptiness removes all empty nodes that the budget allows.
func (d *disruption) emptiness() (plan model.Plan) {
	for _, n := range d.empty[:min(len(d.empty), max(d.pool.Disruption.AllowedEmpty, 0))] {
		plan.Removals = append(plan.Removals, removal(n, model.Empty))
	}
	return plan
}

// multi finds the longest prefix of the candidates that can be removed together, by binary search.
func (d *disruption) multi() (best model.Command, found bool) {
	row := d.used[:min(len(d.used), maxTogether, d.pool.Disruption.AllowedUnderused)]
	for low, high := 2, len(row); low <= high; {
		middle := (low + high) / 2
		if c, ok := d.consolidate(row[:middle]); ok {
			best, found, low = c, true, middle+1
		} else {
			high = middle - 1
		}
	}
	return best, found
}

// single removes the first node that can be removed alone.
func (d *disruption) single() (model.Command, bool) {
	for _, n := range d.used {
		if c, ok := d.consolidate([]*model.Node{n}); ok {
			return c, true
		}
	}
	return model.Command{}, false
}

// consolidate returns the command that removes the nodes with no replacement or one cheaper replacement, if there is
// one.
func (d *disruption) consolidate(victims []*model.Node) (model.Command, bool) {
	c := model.Command{Method: model.Underutilized}
	gone := map[string]bool{}
	price, items := model.Price(0), slices.Clone(d.pending)
	for _, n := range victims {
		gone[n.Name] = true
		price += n.Price
		c.Removals = append(c.Removals, removal(n, model.Underutilized))
		c.Cost += int64(1000 * cost(n))
		for i := range n.Pods {
			p := &n.Pods[i]
			items = append(items, item{
				key: p.PodKey, ask: vectorOf(&d.s.Shapes[p.Shape].Requests), at: p.Created.UnixNano(),
				from: n.Name,
			})
		}
	}
	nodes := slices.DeleteFunc(slices.Clone(d.base), func(r room) bool { return gone[r.name] })
	f := fill(d.offers, nodes, items)
	for _, i := range f.none {
		if items[i].from != "" {
			return c, false
		}
	}
	for i, n := range f.places {
		if n >= 0 && f.nodes[n].inFlight && gone[items[i].from] {
			return c, false // on a node that may never be ready
		}
	}
	slices.SortFunc(c.Removals, func(a, b model.Removal) int { return cmp.Compare(a.Node, b.Node) })
	c.Saves = price
	c.ID = fmt.Sprintf("%d from %s at %d", len(victims), c.Removals[0].Node, d.s.Now.Unix()*int64(time.Second))
	switch len(f.claims) {
	case 0:
		return c, true
	case 1:
		if !d.cheaper(f.claims[0], victims, price) {
			return c, false
		}
		l := f.launch(f.claims[0], items, d.pool)
		c.Launches, c.Saves = []model.Launch{l}, price-l.Chosen.Price
		return c, true
	}
	return c, false
}

// cheaper keeps the claim's types that cost less than the nodes to remove. If several nodes are removed and the claim
// may have the type of one of them, it must cost less than that node. Spot nodes are not replaced by spot nodes (the
// feature is off by default).
func (d *disruption) cheaper(c *claim, victims []*model.Node, price model.Price) bool {
	if len(victims) > 1 {
		for _, n := range victims {
			if slices.ContainsFunc(c.types, func(k int32) bool { return d.offers[k].typ.Name == n.Type }) {
				price = min(price, n.Price)
			}
		}
	}
	allSpot := !slices.ContainsFunc(victims, func(n *model.Node) bool { return n.CapacityType != model.Spot })
	c.types = slices.DeleteFunc(c.types, func(k int32) bool {
		return d.offers[k].price >= price || allSpot && d.offers[k].at.CapacityType == model.Spot
	})
	return len(c.types) > 0
}

func removal(n *model.Node, how model.Method) model.Removal {
	return model.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Method: how, Saves: n.Price}
}
