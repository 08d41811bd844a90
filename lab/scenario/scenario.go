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

// kinds of declarations, in the order in which they are read: what others refer to comes first.
var kinds = []string{
	"now", "resource", "namespace", "type", "shape", "pods", "pod", "pool", "daemon",
	"node", "policy",
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
			if err := p.declare(kind, l); err != nil {
				return nil, p.policy, fmt.Errorf("line %d: %s: %w", l.number, strings.Join(l.words[:min(2, len(l.words))], " "),
					err)
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
	shapes map[string]int  // index into s.Shapes, by the name they were declared under
	taken  map[string]bool // kind and name of what may be declared once
}

func (p *parser) declare(kind string, l *line) (err error) {
	l.used[kind] = true
	if kind != "policy" && (len(l.words) < 2 || l.name() == "") {
		return fmt.Errorf("the name is missing")
	}
	switch kind {
	case "now":
		p.s.Now, err = time.Parse(time.RFC3339Nano, l.name())
		p.s.Now = p.s.Now.UTC()
		return err
	case "resource":
		return p.addResource(l.name())
	case "namespace":
		return p.addNamespace(l)
	case "type":
		return p.addType(l)
	case "shape":
		_, err := p.addShape(l, l.name())
		return err
	case "pods":
		return p.addPods(l)
	case "pod":
		return p.addPod(l)
	case "pool":
		return p.addPool(l)
	case "daemon":
		return p.addDaemon(l)
	case "node":
		return p.addNode(l)
	}
	return p.addPolicy(l)
}

// once fails if another declaration of the kind has the same name.
func (p *parser) once(kind, name string) error {
	key := kind + " " + name
	if p.taken[key] {
		return fmt.Errorf("%s %s is declared twice", kind, quote(name))
	}
	p.taken[key] = true
	return nil
}

// leftOver fails on anything that no declaration read: a misspelt word must not be ignored.
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

func (p *parser) addResource(name string) error {
	if len(p.s.ResourceNames) == model.MaxResources {
		return fmt.Errorf("more than %d resources", model.MaxResources)
	}
	if slices.Contains(p.s.ResourceNames, name) {
		return fmt.Errorf("the resource is known already")
	}
	p.s.ResourceNames = append(p.s.ResourceNames, name)
	return nil
}

func (p *parser) addNamespace(l *line) (err error) {
	n := model.Namespace{Name: l.name()}
	if err := p.once("namespace", n.Name); err != nil {
		return err
	}
	n.Labels, err = labels(lists(l.group("labels")))
	p.s.Namespaces = append(p.s.Namespaces, n)
	return err
}

// amounts reads resources written on the line itself, over base.
func (p *parser) amounts(l *line, base model.Resources) (model.Resources, error) {
	for i := range base {
		name := model.ResourceName(p.s.ResourceNames, i)
		text, ok := l.value(name)
		if !ok {
			continue
		}
		n, err := amount(name, text)
		if err != nil {
			return base, err
		}
		base[i] = n
	}
	return base, nil
}

// override reads a group of amounts over base.
func (p *parser) override(base model.Resources, items []string) (model.Resources, error) {
	for _, item := range items {
		name, text, _ := cut(item, "=")
		i := p.resource(name)
		if i < 0 {
			return base, fmt.Errorf("%q: unknown resource", name)
		}
		n, err := amount(name, text)
		if err != nil {
			return base, err
		}
		base[i] = n
	}
	return base, nil
}

// resource returns the index of the name, -1 if there is none.
func (p *parser) resource(name string) int {
	for i := range model.MaxResources {
		if model.ResourceName(p.s.ResourceNames, i) == name {
			return i
		}
	}
	return -1
}
