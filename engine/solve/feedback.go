package solve

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// feedback is what earlier attempts at a plan revealed.
type feedback struct {
	usedZones   []string           // in which nodes were planned that pods which spread over zones did not count with
	full        map[shapeZone]bool // zones in which not all pods of a shape that were to go there got a node
	limitsShort bool               // limits leave pods without: the most important ones choose first
}

type shapeZone struct {
	shape int
	zone  string
}

// learn adds the feedback of an attempt. It reports whether another attempt is worthwhile.
func (f *feedback) learn(p *problem) bool {
	zones, full, unfair := p.zoneMismatches(), p.unserved(*f), p.unfair()
	if len(zones)+len(full) == 0 && !unfair || p.partial {
		return false
	}
	f.limitsShort = f.limitsShort || unfair
	f.usedZones = append(f.usedZones, zones...)
	for _, x := range full {
		f.full[x] = true
	}
	return true
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

// unserved returns the zones in which pods were assigned but got no node, except those known already.
func (p *problem) unserved(known feedback) []shapeZone {
	var out []shapeZone
	for _, g := range p.groups {
		for _, x := range g.parts {
			zones := p.classes.list[x.class].zones
			if x.n > 0 && len(zones) == 1 && len(g.shape.Spread)+len(g.shape.Affinity) > 0 {
				if at := (shapeZone{g.index, zones[0]}); !known.full[at] {
					out = append(out, at)
				}
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
