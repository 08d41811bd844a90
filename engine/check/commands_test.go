package check_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// commandOf returns the first command of the method and, if launches is set, with a replacement; nil if there is
// none.
func (p *plan) commandOf(how model.Method, launches bool) *model.Command {
	for i := range p.Commands {
		if c := &p.Commands[i]; c.Method == how && (!launches || len(c.Launches) > 0) {
			return c
		}
	}
	return nil
}

// command returns the first command of any method.
func (p *plan) command() *model.Command {
	if len(p.Commands) == 0 {
		return nil
	}
	return &p.Commands[0]
}

// victim returns the first node that the command removes.
func (p *plan) victim(c *model.Command) *model.Node {
	return &p.Nodes[slices.IndexFunc(p.Nodes, func(n model.Node) bool { return n.Name == c.Removals[0].Node })]
}

// ofVictim spoils the first node of the first command.
func ofVictim(f func(*plan, *model.Node) bool) func(*plan) bool {
	return func(p *plan) bool {
		c := p.command()
		return c != nil && f(p, p.victim(c))
	}
}

// ofCommand spoils the first command of the method.
func ofCommand(how model.Method, launches bool, f func(*plan, *model.Command) bool) func(*plan) bool {
	return func(p *plan) bool {
		c := p.commandOf(how, launches)
		return c != nil && f(p, c)
	}
}

var commandMutations = []mutation{
	{"a pool loses nodes that it must keep", "minimum", func(p *plan) bool {
		c := p.command()
		if c != nil {
			p.Snapshot.Pool(p.victim(c).Pool).MinNodes = 1 << 20
		}
		return c != nil
	}},
	{"a command without identity", "identity", func(p *plan) bool {
		if c := p.command(); c != nil {
			c.ID = ""
		}
		return p.command() != nil
	}},
	{"a machine goes twice", "exists", func(p *plan) bool {
		c := p.command()
		if c != nil {
			p.Removals = append(p.Removals, c.Removals[0])
		}
		return c != nil
	}},
	{"a machine that is not there", "exists", func(p *plan) bool {
		c := p.command()
		if c != nil {
			c.Removals[0].Node = "nowhere"
		}
		return c != nil
	}},
	{"a machine of another claim", "managed", func(p *plan) bool {
		c := p.command()
		if c != nil {
			c.Removals[0].Claim = "another"
		}
		return c != nil
	}},
	{
		"a machine on its way goes", "disruptable",
		ofVictim(func(p *plan, n *model.Node) bool { n.State = model.Registered; return true }),
	},
	{
		"a machine that goes already", "disruptable",
		ofVictim(func(p *plan, n *model.Node) bool { n.Deleting = true; return true }),
	},
	{
		"a machine with do-not-disrupt", "disruptable",
		ofVictim(func(p *plan, n *model.Node) bool { n.DoNotDisrupt = true; return true }),
	},
	{"a pod with do-not-disrupt", "disruptable", ofVictim(func(p *plan, n *model.Node) bool {
		n.Pods = append(slices.Clone(n.Pods), model.BoundPod{Pod: model.Pod{Shape: -1}, DoNotDisrupt: true})
		n.Deadline = false
		return true
	})},
	{"a pod behind a PodDisruptionBudget", "disruptable", ofVictim(func(p *plan, n *model.Node) bool {
		n.Pods = append(slices.Clone(n.Pods),
			model.BoundPod{Pod: model.Pod{Shape: -1}, EvictionBlocked: "PodDisruptionBudget a/b allows no eviction"})
		n.Deadline = false
		return true
	})},
	{"a pod has no place", "moves", ofVictim(func(p *plan, n *model.Node) bool {
		if poolOf(p.Snapshot, n.Pool).Static {
			return false
		}
		n.Pods = append(slices.Clone(n.Pods),
			model.BoundPod{Pod: model.Pod{PodKey: model.PodKey{Name: "forgotten"}, Shape: -1}})
		return true
	})},
	{"a place is forgotten", "moves", func(p *plan) bool {
		for i := range p.Commands {
			if c := &p.Commands[i]; len(c.Placements) > 0 && !virtual(p, c.Placements[0].Pod) {
				c.Placements = c.Placements[1:]
				return true
			}
		}
		return false
	}},
	{"a pod moves to a machine that goes", "takes pods", func(p *plan) bool {
		for i := range p.Commands {
			if c := &p.Commands[i]; len(c.Placements) > 0 {
				c.Placements[0].Node = c.Removals[0].Node
				return true
			}
		}
		return false
	}},
	{"a pod moves to a node that is not initialized", "takes pods", func(p *plan) bool {
		for i := range p.Commands {
			if c := &p.Commands[i]; len(c.Placements) > 0 {
				p.node(c.Placements[0].Node).State = model.Registered
				return true
			}
		}
		return false
	}},
	{"the room is taken", "fits", func(p *plan) bool {
		for i := range p.Commands {
			if c := &p.Commands[i]; len(c.Placements) > 0 {
				n := &p.Nodes[slices.IndexFunc(p.Nodes, func(n model.Node) bool { return n.Name == c.Placements[0].Node })]
				n.Used = n.Allocatable
				return p.shapeOf(c.Placements[0].Pod).Requests != model.Resources{}
			}
		}
		return false
	}},
	{"it saves more than it does", "price", func(p *plan) bool {
		c := p.command()
		if c != nil {
			c.Saves++
		}
		return c != nil
	}},
	{"moves count for less than they do", "price", func(p *plan) bool {
		c := p.command()
		if c != nil {
			c.Cost--
		}
		return c != nil
	}},
	{"an unknown method", "method", func(p *plan) bool {
		c := p.command()
		if c != nil {
			c.Method = "Whim"
		}
		return c != nil
	}},
	{
		"it has not drifted", "drifted",
		ofCommand(model.Drifted, false, func(p *plan, c *model.Command) bool { p.victim(c).Drifted = ""; return true }),
	},
	{"the drift budget is broken", "budget", ofCommand(model.Drifted, false, func(p *plan, c *model.Command) bool {
		poolOf(p.Snapshot, c.Removals[0].Pool).Disruption.AllowedDrifted = 0
		return true
	})},
	{
		"an empty node counts in the drift budget too", "budget",
		ofCommand(model.Drifted, false, func(p *plan, c *model.Command) bool {
			gone, d := p.alsoEmpty(c)
			d.AllowedDrifted, d.AllowedUnderused = gone.empty+gone.drifted-1, 1000
			return true
		}),
	},
	{
		"an empty node counts in the budget for underuse too", "budget",
		ofCommand(model.Underutilized, false, func(p *plan, c *model.Command) bool {
			gone, d := p.alsoEmpty(c)
			d.AllowedDrifted, d.AllowedUnderused = 1000, gone.empty+gone.drifted+gone.underused-1
			return true
		}),
	},
	{
		"the budget for underuse is broken", "budget",
		ofCommand(model.Underutilized, false, func(p *plan, c *model.Command) bool {
			poolOf(p.Snapshot, c.Removals[0].Pool).Disruption.AllowedUnderused = len(c.Removals) - 1
			return len(slices.Compact(poolsOf(c))) == 1
		}),
	},
	{
		"what else goes is beyond the budget for underuse", "budget",
		ofCommand(model.Underutilized, false, func(p *plan, c *model.Command) bool {
			pool, underused, others := c.Removals[0].Pool, 0, 0
			for i := range p.Commands {
				for _, r := range p.Commands[i].Removals {
					switch {
					case r.Pool != pool:
					case r.Method == model.Underutilized:
						underused++
					default:
						others++
					}
				}
			}
			for _, r := range p.Removals {
				if r.Pool == pool && r.Method != model.Overprovisioned {
					others++
				}
			}
			poolOf(p.Snapshot, pool).Disruption.AllowedUnderused = underused
			return others > 0
		}),
	},
	{
		"the pool consolidates empty machines only", "consolidation",
		ofCommand(model.Underutilized, false, func(p *plan, c *model.Command) bool {
			poolOf(p.Snapshot, c.Removals[0].Pool).Disruption.WhenEmptyOnly = true
			return true
		}),
	},
	{
		"the pool never consolidates", "consolidation",
		ofCommand(model.Underutilized, false, func(p *plan, c *model.Command) bool {
			poolOf(p.Snapshot, c.Removals[0].Pool).Disruption.Never = true
			return true
		}),
	},
	{"it is not quiet", "consolidateAfter", ofCommand(model.Underutilized, false, func(p *plan, c *model.Command) bool {
		p.victim(c).LastPodEvent = p.Now
		poolOf(p.Snapshot, c.Removals[0].Pool).Disruption.ConsolidateAfter = time.Minute
		return true
	})},
	{
		"the replacement may cost as much", "saves",
		ofCommand(model.Underutilized, true, func(p *plan, c *model.Command) bool {
			for _, r := range c.Removals {
				n := &p.Nodes[slices.IndexFunc(p.Nodes, func(n model.Node) bool { return n.Name == r.Node })]
				n.Price = 0
			}
			fees := p.NodeFee * model.Price(len(c.Removals)-len(c.Launches))
			p.victim(c).Price = c.Launches[0].Chosen.Price - fees
			return true
		}),
	},
	{
		"several replacements cost as much together", "saves",
		ofCommand(model.Underutilized, true, func(p *plan, c *model.Command) bool {
			if len(c.Launches) < 2 {
				return false
			}
			sum := model.Price(0)
			for _, l := range c.Launches {
				sum += l.Chosen.Price
			}
			for i, r := range c.Removals {
				n := &p.Nodes[slices.IndexFunc(p.Nodes, func(n model.Node) bool { return n.Name == r.Node })]
				if n.Price = 0; i == 0 {
					n.Price = sum
				}
			}
			return true
		}),
	},
	{
		"the pods are too young for it", "pays back",
		ofCommand(model.Underutilized, true, func(p *plan, c *model.Command) bool {
			for i := range p.Nodes {
				for k := range p.Nodes[i].Pods {
					p.Nodes[i].Pods[k].Created = p.Now
				}
			}
			return len(c.Launches[0].Pods) > 0 && c.Launches[0].Chosen.Price > 0
		}),
	},
	{
		"the moves cost more than is saved", "pays back",
		ofCommand(model.Underutilized, false, func(p *plan, c *model.Command) bool {
			p.MovePrice = c.Saves // one move costs what an hour saves, and pods are a minute old
			moving := false
			for i := range p.Nodes {
				for k := range p.Nodes[i].Pods {
					pod := &p.Nodes[i].Pods[k]
					pod.Created = p.Now.Add(-time.Minute)
					moving = moving || pod.EvictionCost >= 1000 && c.Removals[0].Node == p.Nodes[i].Name && pod.Moves()
				}
			}
			return moving && len(c.Removals) == 1
		}),
	},
	{"spot for spot", "spot to spot", ofCommand(model.Underutilized, true, func(p *plan, c *model.Command) bool {
		for _, r := range c.Removals {
			p.Nodes[slices.IndexFunc(p.Nodes, func(n model.Node) bool { return n.Name == r.Node })].CapacityType = model.Spot
		}
		p.SpotToSpot = false
		return c.Launches[0].Chosen.CapacityType == model.Spot
	})},
	{"the replacement breaks the limit", "limit", ofCommand(model.Drifted, true, func(p *plan, c *model.Command) bool {
		pool := poolOf(p.Snapshot, c.Launches[0].Pool)
		pool.Limits.NodesSet, pool.Limits.Nodes, pool.NodeCount = true, 3, 3
		return true
	})},
	{"replacements of two commands exhaust a subnet together", "addresses", func(p *plan) bool {
		p.scarceAddresses(20)
		return p.twoLaunchesInAZone()
	}},
	{"two nodes that need free blocks take scattered addresses", "addresses", func(p *plan) bool {
		p.scarceAddresses(20)
		for i := range p.Subnets {
			p.Subnets[i].Scattered = 1000
		}
		return p.twoLaunchesInAZone()
	}},
	{"two nodes of single addresses exhaust a subnet", "addresses", func(p *plan) bool {
		p.scarceAddresses(20)
		for i := range p.Subnets {
			p.Subnets[i].Free, p.Subnets[i].Scattered = 10, 10
		}
		for i := range p.Pools {
			for k := range p.Pools[i].Types {
				p.Pools[i].Types[k].SingleAddresses = true
			}
		}
		return p.twoLaunchesInAZone()
	}},
	{
		"the replacement is of a type that is out", "available",
		ofCommand(model.Drifted, true, func(p *plan, c *model.Command) bool {
			pool := poolOf(p.Snapshot, c.Launches[0].Pool)
			for i := range pool.Types {
				for o := range pool.Types[i].Offerings {
					pool.Types[i].Offerings[o].Available = false
				}
			}
			return true
		}),
	},
	{"a static pool loses a machine", "replicas", func(p *plan) bool {
		for i := range p.Commands {
			c := &p.Commands[i]
			if poolOf(p.Snapshot, c.Removals[0].Pool).Static {
				c.Launches = nil
				return true
			}
		}
		return false
	}},
	{"a static pool loses more than it has too many", "replicas", func(p *plan) bool {
		for _, r := range p.Removals {
			if r.Method == model.Overprovisioned {
				poolOf(p.Snapshot, r.Pool).Replicas += 100
				return true
			}
		}
		return false
	}},
	{"a pool that is not static has too many", "replicas", func(p *plan) bool {
		for _, r := range p.Removals {
			if r.Method == model.Overprovisioned {
				poolOf(p.Snapshot, r.Pool).Static = false
				return true
			}
		}
		return false
	}},
}

// node returns the node of the given name.
func (p *plan) node(name string) *model.Node {
	return &p.Nodes[slices.IndexFunc(p.Nodes, func(n model.Node) bool { return n.Name == name })]
}

// twoLaunchesInAZone reports whether two commands with one launch each launch in the same zone.
func (p *plan) twoLaunchesInAZone() bool {
	launches := map[string]int{}
	for i := range p.Commands {
		if l := p.Commands[i].Launches; len(l) == 1 {
			if launches[l[0].Chosen.Zone]++; launches[l[0].Chosen.Zone] > 1 {
				return true
			}
		}
	}
	return false
}

// scarceAddresses gives every zone one subnet with the addresses of one node.
func (p *plan) scarceAddresses(node int64) {
	zones := map[string]bool{}
	for i := range p.Pools {
		for k := range p.Pools[i].Types {
			t := &p.Pools[i].Types[k]
			t.Addresses = []model.AddressStep{{Pods: 1, Addresses: node}}
			for _, o := range t.Offerings {
				zones[o.Zone] = true
			}
		}
	}
	names := slices.Sorted(maps.Keys(zones))
	p.Subnets = nil
	for _, zone := range names {
		p.Subnets = append(p.Subnets, model.Subnet{ID: zone, Zone: zone, Free: node})
	}
	for i := range p.Pools {
		p.Pools[i].Subnets = names
	}
}

// leaving counts the nodes of a pool that are removed, by budget.
type leaving struct{ empty, drifted, underused int }

// alsoEmpty removes one more node of the command's pool, an empty one, and sets the budget for empty nodes to allow
// it. It returns how many nodes are removed in all, and the budgets.
func (p *plan) alsoEmpty(c *model.Command) (leaving, *model.DisruptionPolicy) {
	pool := c.Removals[0].Pool
	p.Nodes = append(p.Nodes, model.Node{Name: "zz-empty", Claim: "zz-empty", Pool: pool, State: model.Initialized})
	p.Removals = append(p.Removals, model.Removal{Node: "zz-empty", Claim: "zz-empty", Pool: pool, Method: model.Empty})
	all := slices.Clone(p.Removals)
	for i := range p.Commands {
		all = append(all, p.Commands[i].Removals...)
	}
	var gone leaving
	for _, r := range all {
		switch {
		case r.Pool != pool:
		case r.Method == model.Empty:
			gone.empty++
		case r.Method == model.Underutilized:
			gone.underused++
		case r.Method != model.Overprovisioned:
			gone.drifted++
		}
	}
	d := &poolOf(p.Snapshot, pool).Disruption
	d.AllowedEmpty = gone.empty
	return gone, d
}

func poolsOf(c *model.Command) (out []string) {
	for _, r := range c.Removals {
		out = append(out, r.Pool)
	}
	slices.Sort(out)
	return out
}

func virtual(p *plan, k model.PodKey) bool {
	return slices.ContainsFunc(p.Pending, func(x model.Pod) bool { return x.PodKey == k && x.Virtual })
}

// shapeOf returns the shape of a moving pod.
func (p *plan) shapeOf(k model.PodKey) *model.Shape {
	for i := range p.Nodes {
		for _, b := range p.Nodes[i].Pods {
			if b.PodKey == k {
				return &p.Shapes[b.Shape]
			}
		}
	}
	return p.shape(k)
}

func TestPlantedBugsOfCommandsAreCaught(t *testing.T) {
	plant(t, goodDisruptions(t), commandMutations)
}

// goodDisruptions returns plans of engine.Disrupt that pass check.Plan and have commands or removals, with their
// inputs.
func goodDisruptions(t *testing.T) map[string]*plan {
	out := map[string]*plan{}
	add := func(name string, s *model.Snapshot, policy model.Policy) {
		p := &plan{s, policy, engine.Disrupt(s, policy)}
		if len(p.Commands)+len(p.Removals) > 0 && len(check.Plan(s, policy, p.Plan)) == 0 {
			out[name] = p
		}
	}
	eachScenario(t, add)
	for seed := range uint64(300) {
		add(fmt.Sprintf("seed %d", seed), gen.Disruptive(seed), gen.DisruptionPolicy(seed))
	}
	return out
}
