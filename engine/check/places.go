package check

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// places are the domains of a topology key, and the domain of each host.
type places struct {
	names []string // distinct domains
	at    []place  // by host
}

// place is a host's domain: one, none (the label is missing), or open: one of several.
type place struct {
	in    int   // index of the domain, -1 if there is none or it is open
	oneOf []int // domains that an open place may turn out to be
}

func (p place) open() bool { return p.oneOf != nil }

// placesBy returns the places of the hosts by the topology key.
func (j *coexistence) placesBy(key string) *places {
	if p := j.places[key]; p != nil {
		return p
	}
	p := &places{at: make([]place, len(j.hosts))}
	index := map[string]int{}
	number := func(value string) int {
		i, ok := index[value]
		if !ok {
			i = len(p.names)
			index[value] = i
			p.names = append(p.names, value)
		}
		return i
	}
	var anywhere []int
	for at, m := range j.hosts {
		values, sure := j.valuesOf(m, key)
		switch {
		case sure && len(values) == 0:
			p.at[at].in = -1
		case sure:
			p.at[at].in = number(values[0])
		default:
			p.at[at] = place{in: -1, oneOf: []int{}}
			for _, v := range values {
				p.at[at].oneOf = append(p.at[at].oneOf, number(v))
			}
			if len(values) == 0 {
				anywhere = append(anywhere, at)
			}
		}
	}
	for _, at := range anywhere {
		for i := range p.names {
			p.at[at].oneOf = append(p.at[at].oneOf, i)
		}
	}
	j.places[key] = p
	return p
}

// valuesOf returns the possible values of the host's label. If sure, the label has the only one or, without values,
// does not exist; else it may have any of them or, without values, any value at all.
func (j *coexistence) valuesOf(m *host, key string) (values []string, sure bool) {
	if m.node != nil {
		return j.valuesOfNode(m.node, key)
	}
	if key == model.LabelHostname {
		return []string{m.name}, true
	}
	l := m.label(key)
	if len(l.values) == 0 && !m.catalog.decides(key) && key != model.LabelZone && key != model.LabelCapacityType {
		return settled(m.launch.Requirements.Get(key))
	}
	return l.values, len(l.values) == 0 || len(l.values) == 1 && !l.absent
}

// settled returns the values that a claim's requirement allows for a label that nothing else decides.
func settled(r model.Requirement, ok bool) (values []string, sure bool) {
	switch {
	case !ok || r.IsDoesNotExist():
		return nil, true
	case r.Complement:
		return nil, false
	}
	return r.Values, len(r.Values) == 1
}

func (j *coexistence) valuesOfNode(n *model.Node, key string) (values []string, sure bool) {
	r, ok := n.Labels.Get(key)
	switch {
	case ok && !r.Complement && len(r.Values) == 1:
		return r.Values, true
	case key == model.LabelHostname:
		return []string{n.Name}, true
	case n.State != model.InFlight:
		return settled(r, ok)
	case key == model.LabelZone && n.Zone != "":
		return []string{n.Zone}, true
	case key == model.LabelCapacityType && n.CapacityType != "":
		return []string{n.CapacityType}, true
	case key == model.LabelZone || key == model.LabelCapacityType:
		return r.Values, false
	}
	types := mayBecome(n)
	absent := 0
	for _, name := range types {
		k := j.pools[n.Pool].kind(name)
		if k == nil {
			return nil, false
		}
		label, labelled := k.bare.Get(key)
		if !labelled {
			absent++
		}
		for _, v := range label.Values {
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
	}
	if absent == len(types) {
		return settled(r, ok)
	}
	return values, len(values) == 1 && absent == 0
}

func selectorText(s *model.Selector) string {
	return fmt.Sprintf("%q %v %q %v %q", s.Namespaces, s.InMatching, s.NamespaceLabels.String(), s.Nothing,
		s.Labels.String())
}

// chosenBy reports for each shape whether the selector selects its pods.
func (j *coexistence) chosenBy(sel *model.Selector) []bool {
	text := selectorText(sel)
	if out, ok := j.matching[text]; ok {
		return out
	}
	out := make([]bool, len(j.s.Shapes))
	for i := range j.s.Shapes {
		s := &j.s.Shapes[i]
		out[i] = sel.Matches(s.Namespace, j.namespaces[s.Namespace], s.Labels)
	}
	j.matching[text] = out
	return out
}

// present returns the shapes with a pod on a host, and those with a planned one.
func (j *coexistence) present() (present, planned []bool) {
	present, planned = make([]bool, len(j.s.Shapes)), make([]bool, len(j.s.Shapes))
	j.each(func(_ int, _ *host, l *load) {
		present[l.shape] = true
		planned[l.shape] = planned[l.shape] || l.planned
	})
	return present, planned
}
