package solve

import (
	"maps"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// feedback is what earlier attempts at a plan revealed.
type feedback struct {
	usedZones   []string           // zones of planned nodes that spreads over zones did not account for
	full        map[shapeZone]bool // zones in which some pods of a shape that were assigned there got no node
	limited     map[shapeZone]bool // zones in which only limits are the reason
	atMost      map[groupKey]int   // how many pods of a group that spreads get nodes within the limits
	limitsShort bool               // limits leave pods unplaced: the most important ones choose first
	spreadLater bool               // pods that spread get no node that is not launched yet before others are planned
}

func newFeedback() feedback {
	return feedback{full: map[shapeZone]bool{}, limited: map[shapeZone]bool{}, atMost: map[groupKey]int{}}
}

type shapeZone struct {
	shape int
	zone  string
}

// learn adds the feedback of an attempt. It reports whether another attempt is worthwhile.
func (f *feedback) learn(p *problem) bool {
	zones, unfair := p.zoneMismatches(), p.unfair()
	later := p.lacking.spreadLater && !f.spreadLater
	if !unfair && !f.limitsShort { // otherwise less important pods have taken the limits
		maps.Copy(p.lacking.full, p.lacking.limited)
	}
	if len(zones)+len(p.lacking.full)+len(p.lacking.atMost) == 0 && !unfair && !later || p.partial {
		return false
	}
	f.limitsShort = f.limitsShort || unfair
	f.spreadLater = f.spreadLater || later
	f.usedZones = append(f.usedZones, zones...)
	maps.Copy(f.full, p.lacking.full)
	if !unfair { // otherwise less important pods have taken a share of the limits that the next attempt does not give them
		maps.Copy(f.atMost, p.lacking.atMost)
	}
	return true
}

// findLacking records in lacking what the next attempt has to know of the pods that were assigned to a zone but got no
// node there: that the zone is full or, where only limits stop pods that spread, how many of them got nodes. No other
// zone helps these. Divided among the zones anew, that many pods keep their skew.
func (p *problem) findLacking() {
	p.lacking = newFeedback()
	if p.partial {
		return
	}
	p.lacking.spreadLater = slices.ContainsFunc(p.groups, p.spreadTooSoon)
	limited := slices.ContainsFunc(p.views, func(v *rules.View) bool {
		return v.Pool.Limits.NodesSet || rules.Limited(&v.Pool.Limits)
	})
	for _, g := range p.groups {
		zones, full := p.unserved(g), p.lacking.full
		if len(zones) == 0 {
			continue
		}
		if limited && (explainer{p}).nearestOfPools(g) == model.RuleLimit {
			if g.zones != nil {
				p.lacking.atMost[g.key] = p.plannedPods(g)
				continue
			}
			full = p.lacking.limited
		}
		for _, x := range zones {
			full[x] = true
		}
	}
}

// spreadTooSoon reports whether pods of the group may be on nodes that are not launched yet although nodes are planned
// in domains that did not count when its spread was judged.
func (p *problem) spreadTooSoon(g *group) bool {
	return g.early && slices.ContainsFunc(p.state.SpreadTerms(g.index), func(t rules.SpreadTerm) bool {
		known := p.state.SpreadDomains(t.Counter)
		return slices.ContainsFunc(p.nodes, func(n *plannedNode) bool {
			switch p.state.TopologyKey(t.Topology) {
			case model.LabelHostname:
				return false
			case model.LabelZone:
				return countsZone(g, n.chosen.Zone) &&
					!slices.Contains(known, p.state.Domain(t.Topology, n.chosen.Zone))
			case model.LabelCapacityType:
				return !slices.Contains(known, p.state.Domain(t.Topology, n.chosen.CapacityType))
			}
			return true
		})
	})
}

// plannedPods returns how many pods of the group are on planned nodes.
func (p *problem) plannedPods(g *group) int {
	out := 0
	for _, n := range p.nodes {
		for _, a := range n.assignments {
			if a.group == g {
				out += a.n
			}
		}
	}
	return out
}

// zoneMismatches returns the zones of planned nodes that some spread over zones did not count as a domain.
func (p *problem) zoneMismatches() []string {
	var out []string
	for _, n := range p.nodes {
		out = append(out, n.chosen.Zone)
	}
	return slices.DeleteFunc(sortedSet(out), func(zone string) bool {
		return !slices.ContainsFunc(p.groups, func(g *group) bool {
			return g.zones != nil && !slices.Contains(g.zones, zone) && countsZone(g, zone)
		})
	})
}

// unserved returns the zones in which pods of the group were assigned but got no node, except those known already.
func (p *problem) unserved(g *group) []shapeZone {
	var out []shapeZone
	for _, x := range g.parts {
		zones := p.classes.list[x.class].zones
		if x.n > 0 && len(zones) == 1 && len(g.shape.Spread)+len(g.shape.Affinity) > 0 {
			if at := (shapeZone{g.index, zones[0]}); !p.full[at] {
				out = append(out, at)
			}
		}
	}
	return out
}

// unfair reports whether a limit left a pod without a node while a less important pod got one.
func (p *problem) unfair() bool {
	if p.limitsShort || len(p.plan.Launches) == 0 || len(p.waiting()) == 0 {
		return false
	}
	priority := make(map[model.PodKey]int32, len(p.s.Pending))
	for i := range p.s.Pending {
		priority[p.s.Pending[i].PodKey] = p.s.Pending[i].Priority
	}
	least := int32(math.MaxInt32)
	for i := range p.plan.Launches {
		for _, k := range p.plan.Launches[i].Pods {
			least = min(least, priority[k])
		}
	}
	return slices.ContainsFunc(p.waiting(), func(g *group) bool {
		return p.priority(g) > least && explainer{p}.nearestRule(g) == model.RuleLimit
	})
}
