package rules

import (
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// podIndex knows where pods are and which of them a selector matches. Pods with the same namespace and labels are one
// identity; identities are computed when the first selector is used.
type podIndex struct {
	*nodes
	base       *podIndex // of the State that this one was forked from, nil if none
	where      whereabouts
	namespaces map[string][]model.Label
	of         []int     // identity by shape; nil until a selector is used
	first      []int     // a shape by identity
	shapes     [][]int32 // by identity
	counters   [][]int32 // by identity: counters of its pods
	against    [][]int32 // by identity: owner counters whose term matches it
	byLabel    map[model.Label][]int32

	selectors map[string]int
	matched   [][]int32 // identities by selector, ascending
}

func newPodIndex(ns *nodes, base *podIndex) *podIndex {
	return &podIndex{nodes: ns, base: base, selectors: map[string]int{}, where: newWhereabouts(len(ns.s.Shapes))}
}

// open computes the identities and indexes them by label.
func (p *podIndex) open() {
	if p.of != nil {
		return
	}
	p.of = make([]int, len(p.s.Shapes))
	known := make(map[string]int, len(p.s.Shapes))
	var text []byte
	for i := range p.s.Shapes {
		text = identityText(text[:0], &p.s.Shapes[i])
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
	p.byLabel = map[model.Label][]int32{}
	for id, shape := range p.first {
		for _, l := range p.s.Shapes[shape].Labels {
			p.byLabel[l] = append(p.byLabel[l], int32(id))
		}
	}
}

// countersOf returns the counters that count pods of the shape for their labels.
func (p *podIndex) countersOf(shape int) []int32 {
	if p.of == nil {
		return nil
	}
	return p.counters[p.of[shape]]
}

// againstOf returns the counters of pods with an anti-affinity term that the shape matches.
func (p *podIndex) againstOf(shape int) []int32 {
	if p.of == nil {
		return nil
	}
	return p.against[p.of[shape]]
}

// chooses reports whether the selector matches pods of the shape.
func (p *podIndex) chooses(selector *model.Selector, s *model.Shape) bool {
	if p.namespaces == nil {
		p.namespaces = make(map[string][]model.Label, len(p.s.Namespaces))
		for i := range p.s.Namespaces {
			p.namespaces[p.s.Namespaces[i].Name] = p.s.Namespaces[i].Labels
		}
	}
	return selector.Matches(s.Namespace, p.namespaces[s.Namespace], s.Labels)
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

// selector returns the index of a selector, or of the conjunction of several.
func (p *podIndex) selector(all ...*model.Selector) int {
	var text []byte
	for _, s := range all {
		text = append(selectorText(text, s), ';')
	}
	i, ok := p.selectors[string(text)]
	if !ok {
		i = len(p.matched)
		p.selectors[string(text)] = i
		p.matched = append(p.matched, p.match(all))
	}
	return i
}

// selectorText appends a text that is equal for equal selectors only.
func selectorText(text []byte, s *model.Selector) []byte {
	for _, name := range s.Namespaces {
		text = strconv.AppendQuote(text, name)
	}
	text = strconv.AppendBool(append(text, ' '), s.InMatching)
	text = strconv.AppendBool(append(text, ' '), s.Nothing)
	text = requirementsText(append(text, ' '), s.NamespaceLabels)
	return requirementsText(append(text, ' '), s.Labels)
}

func requirementsText(text []byte, rs model.Requirements) []byte {
	for i := range rs {
		r := &rs[i]
		text = strconv.AppendQuote(text, r.Key)
		text = strconv.AppendBool(text, r.Complement)
		text = strconv.AppendBool(text, r.Present)
		for _, value := range r.Values {
			text = strconv.AppendQuote(text, value)
		}
		text = boundText(boundText(text, '>', r.Gte), '<', r.Lte)
	}
	return text
}

func boundText(text []byte, sign byte, bound *int64) []byte {
	if bound == nil {
		return text
	}
	return strconv.AppendInt(append(text, sign), *bound, 10)
}

// matches reports whether the selector matches pods of the shape.
func (p *podIndex) matches(selector, shape int) bool {
	_, ok := slices.BinarySearch(p.matched[selector], int32(p.of[shape]))
	return ok
}

func (p *podIndex) match(all []*model.Selector) []int32 {
	p.open()
	var out []int32
	for _, id := range p.candidates(all[0]) {
		s := &p.s.Shapes[p.first[id]]
		if !slices.ContainsFunc(all, func(sel *model.Selector) bool { return !p.chooses(sel, s) }) {
			out = append(out, id)
		}
	}
	return out
}

// candidates returns the identities with the rarest label value that the selector requires, or else all, ascending.
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
