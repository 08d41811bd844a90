package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Now is the time in every scenario that does not set another.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// kinds of declarations, in the order in which they are read: a kind comes before the kinds that refer to it.
var kinds = []string{
	"now", "resource", "namespace", "subnet", "type", "reservation", "shape", "pods", "pod", "pool", "daemon",
	"node", "policy", "unsettled",
}

// Parse reads a cluster and a policy from text. The snapshot is in canonical order. Errors name the line and the
// field.
func Parse(text string) (*model.Snapshot, model.Policy, error) {
	p := parser{
		s:      &model.Snapshot{Now: Now, ResourceNames: slices.Clone(model.WellKnownResources)},
		shapes: map[string]int{}, taken: map[string]bool{},
	}
	lines, err := scan(text)
	if err != nil {
		return nil, p.policy, err
	}
	for _, kind := range kinds {
		for _, l := range lines {
			if l.kind() != kind {
				continue
			}
			if p.declare(kind, l); l.err != nil {
				return nil, p.policy, fmt.Errorf("line %d: %s: %w", l.number, strings.Join(l.words[:min(2, len(l.words))], " "),
					l.err)
			}
		}
	}
	for _, l := range lines {
		if err := l.leftOver(); err != nil {
			return nil, p.policy, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
	return model.Canonical(p.s), p.policy, nil
}

type parser struct {
	s      *model.Snapshot
	policy model.Policy
	types  []declaredType
	// reserved are the capacity reservations, offered to every pool that names none.
	reserved []model.Reservation
	shapes   map[string]int  // index into s.Shapes, by the name they were declared under
	taken    map[string]bool // kind and name of declarations that must be unique
}

func (p *parser) declare(kind string, l *line) {
	l.used[kind] = true
	if kind != "policy" && (len(l.words) < 2 || l.name() == "") {
		l.failf("the name is missing")
		return
	}
	switch kind {
	case "now":
		now, err := time.Parse(time.RFC3339Nano, l.name())
		if p.s.Now = now.UTC(); err != nil {
			l.failf("%w", err)
		}
	case "resource":
		p.addResource(l)
	case "namespace":
		p.once(l, "namespace", l.name())
		p.s.Namespaces = append(p.s.Namespaces, model.Namespace{Name: l.name(), Labels: l.labels()})
	case "subnet":
		p.addSubnet(l)
	case "type":
		p.addType(l)
	case "reservation":
		p.addReservation(l)
	case "shape":
		p.addShape(l, l.name())
	case "pods":
		p.addPods(l)
	case "pod":
		p.addPod(l)
	case "pool":
		p.addPool(l)
	case "daemon":
		p.addDaemon(l)
	case "node":
		p.addNode(l)
	case "policy":
		p.addPolicy(l)
	case "unsettled":
		p.once(l, kind, "")
		p.s.Unsettled = l.name()
	}
}

// once fails if another declaration of the kind has the same name.
func (p *parser) once(l *line, kind, name string) {
	key := kind + " " + name
	if p.taken[key] {
		l.failf("%s %s is declared twice", kind, quote(name))
	}
	p.taken[key] = true
}

// leftOver fails if a field was not read by any declaration: a misspelt word must not be ignored.
func (l *line) leftOver() error {
	if !l.used[l.kind()] {
		return fmt.Errorf("%q: unknown declaration", strings.Join(l.words, " "))
	}
	var unknown []string
	for key := range l.values { // order does not matter: sorted below
		unknown = append(unknown, key)
	}
	for key := range l.groups { // order does not matter: sorted below
		unknown = append(unknown, key)
	}
	slices.Sort(unknown)
	skip := 2
	switch l.kind() {
	case "pods":
		skip = 3
	case "policy":
		skip = 1
	}
	for _, word := range append(unknown, l.words[min(skip, len(l.words)):]...) {
		if !l.used[word] {
			return fmt.Errorf("%s: unknown field %q", l.kind(), word)
		}
	}
	return nil
}

func (p *parser) addResource(l *line) {
	switch {
	case len(p.s.ResourceNames) == model.MaxResources:
		l.failf("more than %d resources", model.MaxResources)
	case slices.Contains(p.s.ResourceNames, l.name()):
		l.failf("the resource is known already")
	default:
		p.s.ResourceNames = append(p.s.ResourceNames, l.name())
	}
}

// amounts returns base, overridden by the resource amounts on the line itself.
func (p *parser) amounts(l *line, base model.Resources) model.Resources {
	for i := range base {
		name := model.ResourceName(p.s.ResourceNames, i)
		if text, ok := l.value(name); ok {
			base[i] = l.amount(name, text)
		}
	}
	return base
}

func (l *line) amount(resource, text string) int64 {
	n, err := amount(resource, text)
	if err != nil {
		l.failf("%w", err)
	}
	return n
}

// override returns base, overridden by the amounts in a group.
func (p *parser) override(l *line, base model.Resources, group string, items []string) model.Resources {
	l.in(group, func() {
		for _, item := range items {
			name, text, _ := cut(item, "=")
			if i := p.resource(name); i >= 0 {
				base[i] = l.amount(name, text)
			} else {
				l.failf("%q: unknown resource", name)
			}
		}
	})
	return base
}

// resource returns the index of the resource, or -1 if there is none of that name.
func (p *parser) resource(name string) int {
	for i := range model.MaxResources {
		if model.ResourceName(p.s.ResourceNames, i) == name {
			return i
		}
	}
	return -1
}
