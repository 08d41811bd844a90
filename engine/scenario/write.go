package scenario

import (
	"reflect"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Format writes a snapshot and a policy as a scenario, which Parse reads back. The result is equal except for the
// keys of shapes, and so for their order.
func Format(s *model.Snapshot, policy model.Policy) string {
	w := writer{s: s, namesOf: map[int]string{}, again: map[string]int{}}
	if !s.Now.Equal(Now) {
		w.line(declare("now", s.Now.UTC().Format(time.RFC3339Nano)))
	}
	for _, name := range s.ResourceNames[min(len(s.ResourceNames), len(model.WellKnownResources)):] {
		w.line(declare("resource", quote(name)))
	}
	for _, n := range s.Namespaces {
		d := declare("namespace", quote(n.Name))
		d.group("labels", labelItems(n.Labels))
		w.line(d)
	}
	w.findTypes()
	for i := range w.types {
		w.line(w.typeLine(&w.types[i]))
	}
	for i := range s.Pools {
		w.line(w.poolLine(&s.Pools[i]))
	}
	for i := range s.Daemons {
		w.line(w.daemonLine(&s.Daemons[i]))
	}
	w.pods()
	for i := range s.Nodes {
		w.line(w.nodeLine(&s.Nodes[i]))
	}
	if d := w.policyLine(policy); len(d.parts) > 1 {
		w.line(d)
	}
	return w.out.String()
}

type writer struct {
	s       *model.Snapshot
	out     strings.Builder
	types   []declaredType
	namesOf map[int]string // by shape
	again   map[string]int // number of uses of a shape's name
}

func (w *writer) line(d *declaration) { w.out.WriteString(d.String()) }

// findTypes collects the types of all pools. A name with different meanings is declared for the pools that use it.
func (w *writer) findTypes() {
	first := map[string]int{}
	for i := range w.s.Pools {
		pool := &w.s.Pools[i]
		for _, t := range pool.Types {
			at, known := first[t.Name]
			switch {
			case !known:
				first[t.Name] = len(w.types)
				w.types = append(w.types, declaredType{InstanceType: t})
			case !sameType(&w.types[at].InstanceType, &t):
				w.types = append(w.types, declaredType{InstanceType: t, only: []string{pool.Name}})
			}
		}
	}
}

// sameType compares the contents, unless both share them.
func sameType(a, b *model.InstanceType) bool {
	if len(a.Offerings) > 0 && len(b.Offerings) > 0 && &a.Offerings[0] == &b.Offerings[0] &&
		a.Allocatable == b.Allocatable {
		return true
	}
	return reflect.DeepEqual(a, b)
}

func (w *writer) parser() *parser { return &parser{s: w.s, types: w.types} }

func (w *writer) typeLine(t *declaredType) *declaration {
	d := declare("type", quote(t.Name))
	d.parts = append(d.parts, w.differing(t.Capacity, model.Resources{})...)
	d.group("allocatable", w.differing(t.Allocatable, t.Capacity))
	rest, own := without(t.Requirements, model.OneOf(model.LabelInstanceType, t.Name))
	d.word("bare", !own)
	d.group("labels", nodeLabels(rest))
	d.group("offers", mapped(t.Offerings, func(o model.Offering) string {
		item := quote(o.Zone) + " " + quote(o.CapacityType) + " " + dollars(o.Price)
		switch {
		case !o.Available && !o.RetryAt.IsZero():
			item += " out=" + o.RetryAt.Sub(w.s.Now).String()
		case !o.Available:
			item += " out"
		}
		return item
	}))
	d.group("attach", mapped(t.AttachLimits, attachItem))
	d.group("only", quoteAll(t.only))
	return d
}

// without removes an implied requirement, and reports whether it was there.
func without(rs model.Requirements, own model.Requirement) (model.Requirements, bool) {
	r, ok := rs.Get(own.Key)
	if !ok || !reflect.DeepEqual(r, own) {
		return rs, false
	}
	var rest model.Requirements
	for _, r := range rs {
		if r.Key != own.Key {
			rest = append(rest, r)
		}
	}
	return rest, true
}

// differing returns the amounts that differ from base.
func (w *writer) differing(r, base model.Resources) []string {
	var out []string
	for i, n := range r {
		if n != base[i] {
			name := model.ResourceName(w.s.ResourceNames, i)
			out = append(out, name+"="+exactly(name, n))
		}
	}
	return out
}
