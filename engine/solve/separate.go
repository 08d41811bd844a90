package solve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// separation says what may not share a node, in the terms of package binpack. A slot is something that a node has a
// limited number of. Groups of one conflict group may not share a node with the same other groups.
type separation struct {
	slots          []int  // how many pods one node may have of each
	soft           []bool // by slot: see binpack.Problem.Soft
	conflictGroups []conflictGroup
	slotIndex      map[string]int
}

// conflictGroup holds everything that decides with which groups a group may not share a node.
type conflictGroup struct {
	owns    []int // counters of anti-affinity terms on single nodes that it has
	matches []int // counters of such terms, of any group, that match it
	class   int   // any class of it, for labels that have one value per node
	custom  string
	ports   []model.HostPort // that other groups may use at another address
}

// separate turns anti-affinity and spread over single nodes, and host ports, into slots and conflict groups.
func (p *problem) separate() {
	waiting := slices.DeleteFunc(p.waiting(), func(g *group) bool { return len(g.parts) == 0 })
	p.slotIndex = map[string]int{}
	spreads, terms := p.hostTerms(waiting)
	known := map[string]int{}
	for _, g := range waiting {
		class := g.parts[0].class
		k := conflictGroup{class: class, custom: p.classes.customText(class)}
		p.spreadOverHosts(g, spreads)
		for _, c := range p.state.PodCounters(g.index) {
			if terms[int(c)] {
				k.matches = append(k.matches, int(c))
			}
		}
		k.owns = slices.Compact(slices.Sorted(slices.Values(p.state.AntiAffinityCounters(g.index))))
		slices.Sort(k.matches)
		for _, c := range k.owns {
			if slices.Contains(k.matches, c) {
				p.takeSlot(g, fmt.Sprint("apart ", c), 1)
			}
		}
		for _, port := range g.shape.HostPorts {
			p.takeSlot(g, fmt.Sprint("port ", port), 1)
		}
		k.ports = contestedPorts(g, waiting)
		slices.Sort(g.slots)
		key := fmt.Sprint(k.owns, k.matches, k.custom, k.ports)
		at, ok := known[key]
		if !ok {
			at = len(p.conflictGroups)
			known[key] = at
			p.conflictGroups = append(p.conflictGroups, k)
		}
		g.conflictGroup = at
	}
}

// hostTerms returns the spreads over single nodes, by counter with their smallest skew, and the counters of
// anti-affinity terms of the groups.
func (p *problem) hostTerms(waiting []*group) (spreads map[int]int64, terms map[int]bool) {
	host := p.state.Topology(model.LabelHostname)
	spreads, terms = map[int]int64{}, map[int]bool{}
	for _, g := range waiting {
		for _, t := range p.state.SpreadTerms(g.index) {
			if t.Topology == host {
				if skew, ok := spreads[t.Counter]; !ok || t.MaxSkew < skew {
					spreads[t.Counter] = t.MaxSkew
				}
			}
		}
		for _, c := range p.state.AntiAffinityCounters(g.index) {
			terms[c] = true
		}
	}
	return spreads, terms
}

// spreadOverHosts gives the group a slot for each spread that counts it: a node takes no more pods than the skew. The
// slot is soft: if there are few nodes, the emptiest may have some pods too. Groups without affinity or spread need
// no slot, since their pods can be bound after those that spread.
func (p *problem) spreadOverHosts(g *group, spreads map[int]int64) {
	near, _ := p.state.AffinityCounters(g.index)
	if len(p.state.SpreadTerms(g.index))+len(near) == 0 {
		return
	}
	for _, c := range p.state.PodCounters(g.index) {
		skew, ok := spreads[int(c)]
		if !ok {
			continue
		}
		s := p.takeSlot(g, fmt.Sprint("spread ", c), int(min(max(skew, 1), 1<<30)))
		g.spreadSlots = append(g.spreadSlots, s)
		for len(p.soft) <= s {
			p.soft = append(p.soft, false)
		}
		p.soft[s] = true
	}
}

// takeSlot makes the group take a slot, of which a node has at most limit.
func (x *separation) takeSlot(g *group, name string, limit int) int {
	s, ok := x.slotIndex[name]
	if !ok {
		s = len(x.slots)
		x.slotIndex[name] = s
		x.slots = append(x.slots, limit)
	}
	x.slots[s] = min(x.slots[s], limit)
	if !slices.Contains(g.slots, s) {
		g.slots = append(g.slots, s)
	}
	return s
}

// contestedPorts returns the group's host ports that conflict with ports of other groups at another address.
func contestedPorts(g *group, waiting []*group) []model.HostPort {
	var out []model.HostPort
	for _, port := range g.shape.HostPorts {
		for _, h := range waiting {
			for _, other := range h.shape.HostPorts {
				if port.IP != other.IP && port.Conflicts(other) {
					out = append(out, port)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b model.HostPort) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return slices.Compact(out)
}

// customText describes the labels that a node gets for the class, where neither type nor offering decides them.
func (x *classTable) customText(class int) string {
	var out strings.Builder
	for vi, options := range x.list[class].options {
		for _, o := range options {
			if len(o.Custom) > 0 {
				fmt.Fprintf(&out, "%d %s;", vi, o.Custom.String())
			}
		}
	}
	return out.String()
}

// conflicts returns, by conflict group, the conflict groups that may not share a node with it; nil if all may.
func (p *problem) conflicts() []binpack.Set {
	out := make([]binpack.Set, len(p.conflictGroups))
	found := false
	for i := range out {
		out[i] = binpack.NewSet(len(out))
		for j := range out {
			if i != j && p.classes.conflict(&p.conflictGroups[i], &p.conflictGroups[j]) {
				out[i].Add(j)
				found = true
			}
		}
	}
	if !found {
		return nil
	}
	return out
}

func (x *classTable) conflict(a, b *conflictGroup) bool {
	if overlap(a.owns, b.matches) || overlap(b.owns, a.matches) {
		return true
	}
	for _, port := range a.ports {
		if slices.ContainsFunc(b.ports, port.Conflicts) {
			return true
		}
	}
	if a.custom == "" || b.custom == "" || a.custom == b.custom {
		return false
	}
	for vi, options := range x.list[a.class].options {
		for i := range options {
			for j := range x.list[b.class].options[vi] {
				if !rules.Compatible(options[i].Custom, x.list[b.class].options[vi][j].Custom) {
					return true
				}
			}
		}
	}
	return false
}

func overlap(a, b []int) bool {
	return slices.ContainsFunc(a, func(x int) bool { return slices.Contains(b, x) })
}
