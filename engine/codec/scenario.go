package codec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/gen"
	"github.com/nodeless/nodeless/engine/model"
)

// Now is the time in every scenario.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Scenario reads a cluster from text, in canonical order. Errors name the line and the field.
func Scenario(text string) (*model.Snapshot, model.Policy, error) {
	p := parser{s: &model.Snapshot{Now: Now, ResourceNames: slices.Clone(model.WellKnownResources)}}
	lines, err := scan(text)
	if err != nil {
		return nil, p.policy, err
	}
	for _, kind := range []string{"resource", "type", "pool", "daemon", "pods", "node", "policy"} {
		for _, l := range lines {
			if l.words == nil || l.words[0] != kind {
				continue
			}
			if err := p.declare(kind, l); err != nil {
				return nil, p.policy, fmt.Errorf("line %d: %s: %w", l.number, strings.Join(l.words[:min(2, len(l.words))], " "), err)
			}
		}
	}
	for _, l := range lines {
		if err := l.leftOver(); err != nil {
			return nil, p.policy, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
	return gen.Canonical(p.s), p.policy, nil
}

type parser struct {
	s      *model.Snapshot
	policy model.Policy
	types  []model.InstanceType
}

func (p *parser) declare(kind string, l *line) error {
	l.used[kind] = true
	if kind != "policy" && len(l.words) < 2 {
		return fmt.Errorf("the name is missing")
	}
	switch kind {
	case "resource":
		if len(p.s.ResourceNames) == model.MaxResources {
			return fmt.Errorf("more than %d resources", model.MaxResources)
		}
		p.s.ResourceNames = append(p.s.ResourceNames, l.words[1])
		return nil
	case "type":
		return p.addType(l)
	case "pool":
		return p.addPool(l)
	case "daemon":
		shape, err := p.shape(l)
		p.s.Daemons = append(p.s.Daemons, model.Daemon{Namespace: "kube-system", Name: l.words[1], Shape: shape})
		return err
	case "pods":
		return p.addPods(l)
	case "node":
		return p.addNode(l)
	}
	p.policy.MaxTypes, p.policy.MaxSteps = int(l.number64("max-types")), int(l.number64("max-steps"))
	return nil
}

// number64 is a whole number, 0 if it is missing or none.
func (l *line) number64(key string) int64 {
	text, _ := l.value(key)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// leftOver finds what no declaration read: a misspelt word must not be ignored.
func (l *line) leftOver() error {
	if len(l.words) == 0 || !l.used[l.words[0]] {
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
	if l.words[0] == "pods" {
		skip = 3
	}
	for _, word := range append(unknown, l.words[min(skip, len(l.words)):]...) {
		if !l.used[word] {
			return fmt.Errorf("%s: unknown field %q", l.words[0], word)
		}
	}
	return nil
}

// amounts reads the resources that are written on the line itself.
func (p *parser) amounts(l *line) (model.Resources, error) {
	var out model.Resources
	for i, name := range p.s.ResourceNames {
		text, ok := l.value(name)
		if !ok {
			continue
		}
		n, err := amount(name, text)
		if err != nil {
			return out, err
		}
		out[i] = n
	}
	return out, nil
}

// override reads a group of amounts over what is there.
func (p *parser) override(base model.Resources, items []string) (model.Resources, error) {
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		i := slices.Index(p.s.ResourceNames, name)
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

func (p *parser) addType(l *line) (err error) {
	t := model.InstanceType{Name: l.words[1]}
	if t.Capacity, err = p.amounts(l); err != nil {
		return err
	}
	if t.Allocatable, err = p.override(t.Capacity, lists(l.group("allocatable"))); err != nil {
		return err
	}
	labels, err := requirements(lists(l.group("labels")))
	if err != nil {
		return err
	}
	t.Requirements = labels.And(model.NewRequirements(model.OneOf(model.LabelInstanceType, t.Name)))
	for _, item := range lists(l.group("offers")) {
		f := strings.Fields(item)
		if len(f) < 3 || len(f) > 4 || len(f) == 4 && f[3] != "out" {
			return fmt.Errorf("offer %q: want zone, capacity type, price, and out if there are none", item)
		}
		o := model.Offering{Zone: f[0], CapacityType: f[1], Available: len(f) == 3}
		if o.Price, err = price(f[2]); err != nil {
			return err
		}
		t.Offerings = append(t.Offerings, o)
	}
	p.types = append(p.types, t)
	return nil
}

// shape reads what decides where a pod may go.
func (p *parser) shape(l *line) (s model.Shape, err error) {
	if s.Requests, err = p.amounts(l); err != nil {
		return s, err
	}
	if s.Requests[model.Pods] == 0 {
		s.Requests[model.Pods] = 1
	}
	if s.Required, err = requirements(lists(l.group("require"))); err != nil {
		return s, err
	}
	for _, term := range l.group("any") {
		rs, err := requirements(list(term))
		if err != nil {
			return s, err
		}
		s.AnyOf = append(s.AnyOf, rs)
	}
	for _, item := range l.group("prefer") {
		weight, terms, _ := strings.Cut(item, " ")
		n, err := strconv.ParseInt(weight, 10, 32)
		if err != nil {
			return s, fmt.Errorf("prefer(%s): want a weight and requirements", item)
		}
		rs, err := requirements(list(terms))
		if err != nil {
			return s, err
		}
		s.Preferred = append(s.Preferred, model.Preference{Weight: int32(n), Terms: rs})
	}
	for _, item := range lists(l.group("tolerate")) {
		s.Tolerations = append(s.Tolerations, toleration(item))
	}
	s.Unmodelled = lists(l.group("unmodelled"))
	return s, nil
}

func (p *parser) addPods(l *line) error {
	n, err := strconv.Atoi(l.words[1])
	if err != nil || n < 0 || n > 1_000_000 || len(l.words) < 3 {
		return fmt.Errorf("want a number up to a million and a name")
	}
	shape, err := p.shape(l)
	if err != nil {
		return err
	}
	p.s.Shapes = append(p.s.Shapes, shape)
	for i := range n {
		name := fmt.Sprintf("%s-%0*d", l.words[2], len(strconv.Itoa(n)), i+1)
		p.s.Pending = append(p.s.Pending, model.Pod{
			PodKey: model.PodKey{Namespace: "default", Name: name, UID: "uid-" + name}, Shape: len(p.s.Shapes) - 1,
			Priority: int32(l.number64("priority")), Created: Now,
		})
	}
	return nil
}
