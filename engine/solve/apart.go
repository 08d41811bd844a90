package solve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// kind is what groups have in common that may not share a machine with the same others.
type kind struct {
	owns    []int // counters of anti-affinity terms on single machines that it has
	matches []int // of those terms, the ones that are about it
	class   int   // any class of it, for labels that a machine has but one value of
	custom  string
	ports   []model.HostPort // that others may want at another address
}

// keepApart turns what must not be together on one machine into slots and conflicts: anti-affinity and spread over single
// machines, and host ports.
func (p *problem) keepApart() {
	host := p.state.Topology(model.LabelHostname)
	waiting := slices.DeleteFunc(p.groupsLeft(), func(g *group) bool { return len(g.parts) == 0 })
	slot := map[string]int{}
	take := func(g *group, name string, most int) int {
		s, ok := slot[name]
		if !ok {
			s = len(p.slots)
			slot[name] = s
			p.slots = append(p.slots, most)
		}
		p.slots[s] = min(p.slots[s], most)
		if !slices.Contains(g.slots, s) {
			g.slots = append(g.slots, s)
		}
		return s
	}
	spreads, terms := map[int]int64{}, map[int]bool{}
	for _, g := range waiting {
		for _, t := range p.state.SpreadTerms(g.index) {
			if t.Topology == host {
				if most, ok := spreads[t.Counter]; !ok || t.MaxSkew < most {
					spreads[t.Counter] = t.MaxSkew
				}
			}
		}
		for _, c := range p.state.AntiAffinityCounters(g.index) {
			terms[c] = true
		}
	}
	known := map[string]int{}
	for _, g := range waiting {
		k := kind{class: g.parts[0].class, custom: p.customOf(g.parts[0].class)}
		counting := p.state.PodCounters(g.index)
		near, _ := p.state.AffinityCounters(g.index)
		early := len(p.state.SpreadTerms(g.index))+len(near) > 0 // pods without needs can be bound after those that spread
		for _, c := range counting {
			if most, ok := spreads[int(c)]; ok && early {
				s := take(g, fmt.Sprint("spread ", c), int(min(max(most, 1), 1<<30)))
				g.spreads = append(g.spreads, s)
				for len(p.soft) <= s {
					p.soft = append(p.soft, false)
				}
				p.soft[s] = true // on few machines the emptiest one may have some too
			}
			if terms[int(c)] {
				k.matches = append(k.matches, int(c))
			}
		}
		k.owns = slices.Compact(slices.Sorted(slices.Values(p.state.AntiAffinityCounters(g.index))))
		slices.Sort(k.matches)
		for _, c := range k.owns {
			if slices.Contains(k.matches, c) {
				take(g, fmt.Sprint("apart ", c), 1)
			}
		}
		for _, port := range g.shape.HostPorts {
			take(g, fmt.Sprint("port ", port), 1)
		}
		p.portsApart(g, &k, waiting)
		slices.Sort(g.slots)
		key := fmt.Sprint(k.owns, k.matches, k.custom, k.ports)
		at, ok := known[key]
		if !ok {
			at = len(p.apart)
			known[key] = at
			p.apart = append(p.apart, k)
		}
		g.kind = at
	}
}

// portsApart sets the group apart from others that want the same port at another address that includes its own.
func (p *problem) portsApart(g *group, k *kind, waiting []*group) {
	for _, port := range g.shape.HostPorts {
		for _, h := range waiting {
			for _, other := range h.shape.HostPorts {
				if port.IP != other.IP && port.Conflicts(other) {
					k.ports = append(k.ports, port)
				}
			}
		}
	}
	slices.SortFunc(k.ports, func(a, b model.HostPort) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	k.ports = slices.Compact(k.ports)
}

// customOf is the text of the labels that a machine gets for the class, where neither type nor offering decides them.
func (p *problem) customOf(class int) string {
	var out strings.Builder
	for vi, options := range p.classes[class].options {
		for _, o := range options {
			if len(o.Custom) > 0 {
				fmt.Fprintf(&out, "%d %s;", vi, o.Custom.String())
			}
		}
	}
	return out.String()
}

// conflicts are the kinds that may not be together, nil if all may.
func (p *problem) conflicts() []binpack.Set {
	out := make([]binpack.Set, len(p.apart))
	any := false
	for i := range out {
		out[i] = binpack.NewSet(len(out))
		for j := range out {
			if i != j && p.conflict(&p.apart[i], &p.apart[j]) {
				out[i].Add(j)
				any = true
			}
		}
	}
	if !any {
		return nil
	}
	return out
}

func (p *problem) conflict(a, b *kind) bool {
	if overlap(a.owns, b.matches) || overlap(b.owns, a.matches) {
		return true
	}
	for _, x := range a.ports {
		if slices.ContainsFunc(b.ports, x.Conflicts) {
			return true
		}
	}
	if a.custom == "" || b.custom == "" || a.custom == b.custom {
		return false
	}
	for vi, options := range p.classes[a.class].options {
		for i := range options {
			for j := range p.classes[b.class].options[vi] {
				if !rules.Compatible(options[i].Custom, p.classes[b.class].options[vi][j].Custom) {
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
