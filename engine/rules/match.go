package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// podIndex knows which pods a selector matches. Pods with the same namespace and labels are one identity.
type podIndex struct {
	s          *model.Snapshot
	namespaces map[string][]model.Label
	of         []int     // identity by shape
	first      []int     // a shape by identity
	shapes     [][]int32 // by identity
	counters   [][]int32 // that count pods of the identity
	against    [][]int32 // owner counters whose term matches the identity
	byLabel    map[model.Label][]int32

	selectors map[string]int
	matched   [][]int32 // identities by selector, ascending
}

func (p *podIndex) init(s *model.Snapshot) {
	p.s, p.selectors = s, map[string]int{}
	p.of = make([]int, len(s.Shapes))
	known := make(map[string]int, len(s.Shapes))
	var text []byte
	for i := range s.Shapes {
		text = identityText(text[:0], &s.Shapes[i])
		id, ok := known[string(text)]
		if !ok {
			id = len(p.first)
			known[string(text)] = id
			p.first = append(p.first, i)
			p.shapes = append(p.shapes, nil)
		}
		p.of[i] = id
		p.shapes[id] = append(p.shapes[id], int32(i))
	}
	p.counters = make([][]int32, len(p.first))
	p.against = make([][]int32, len(p.first))
}

func identityText(text []byte, s *model.Shape) []byte {
	text = append(text, s.Namespace...)
	for _, l := range s.Labels {
		text = append(text, 0)
		text = append(text, l.Key...)
		text = append(text, 1)
		text = append(text, l.Value...)
	}
	return text
}

// selector is the index of a selector, or of the conjunction of several.
func (p *podIndex) selector(all ...*model.Selector) int {
	var text strings.Builder
	for _, s := range all {
		fmt.Fprintf(&text, "%q %v %q %v %q;", s.Namespaces, s.InMatching, s.NamespaceLabels.String(), s.Nothing, s.Labels.String())
	}
	i, ok := p.selectors[text.String()]
	if !ok {
		i = len(p.matched)
		p.selectors[text.String()] = i
		p.matched = append(p.matched, p.match(all))
	}
	return i
}

// matches reports whether the selector chooses pods of the shape.
func (p *podIndex) matches(selector, shape int) bool {
	_, ok := slices.BinarySearch(p.matched[selector], int32(p.of[shape]))
	return ok
}

func (p *podIndex) match(all []*model.Selector) []int32 {
	p.open()
	var out []int32
	for _, id := range p.candidates(all[0]) {
		s := &p.s.Shapes[p.first[id]]
		if !slices.ContainsFunc(all, func(sel *model.Selector) bool { return !sel.Matches(s.Namespace, p.namespaces[s.Namespace], s.Labels) }) {
			out = append(out, id)
		}
	}
	return out
}

// candidates are the identities that have one of the values of a label the selector asks for, ascending.
func (p *podIndex) candidates(s *model.Selector) []int32 {
	var best []int32
	found := false
	for _, r := range s.Labels {
		if r.Complement || len(r.Values) != 1 {
			continue
		}
		if ids := p.byLabel[model.Label{Key: r.Key, Value: r.Values[0]}]; !found || len(ids) < len(best) {
			best, found = ids, true
		}
	}
	if found {
		return best
	}
	every := make([]int32, len(p.first))
	for i := range every {
		every[i] = int32(i)
	}
	return every
}

// open indexes identities by label when the first selector is looked at.
func (p *podIndex) open() {
	if p.byLabel != nil {
		return
	}
	p.byLabel = map[model.Label][]int32{}
	p.namespaces = make(map[string][]model.Label, len(p.s.Namespaces))
	for i := range p.s.Namespaces {
		p.namespaces[p.s.Namespaces[i].Name] = p.s.Namespaces[i].Labels
	}
	for id, shape := range p.first {
		for _, l := range p.s.Shapes[shape].Labels {
			p.byLabel[l] = append(p.byLabel[l], int32(id))
		}
	}
}
