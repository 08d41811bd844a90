package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// declaredType is an instance type, for every pool or for some.
type declaredType struct {
	model.InstanceType
	only []string
}

func (p *parser) addType(l *line) (err error) {
	t := declaredType{InstanceType: model.InstanceType{Name: l.name()}, only: leaves(lists(l.group("only")))}
	if err := p.once("type", fmt.Sprintf("%s %q", t.Name, t.only)); err != nil {
		return err
	}
	if t.Capacity, err = p.amounts(l, model.Resources{}); err != nil {
		return err
	}
	if t.Allocatable, err = p.override(t.Capacity, lists(l.group("allocatable"))); err != nil {
		return err
	}
	if t.Requirements, err = requirements(lists(l.group("labels"))); err != nil {
		return err
	}
	if !l.has("bare") {
		t.Requirements = t.Requirements.And(model.Requirements{model.OneOf(model.LabelInstanceType, t.Name)})
	}
	if t.AttachLimits, err = attachLimits(lists(l.group("attach"))); err != nil {
		return err
	}
	for _, item := range lists(l.group("offers")) {
		f := leaves(fields(item))
		if len(f) < 3 || len(f) > 4 || len(f) == 4 && f[3] != "out" && !strings.HasPrefix(f[3], "out=") {
			return fmt.Errorf("offer %q: want zone, capacity type, price, and out or out=45s if it has no capacity", item)
		}
		o := model.Offering{Zone: f[0], CapacityType: f[1], Available: len(f) == 3}
		if o.Price, err = price(f[2]); err != nil {
			return err
		}
		if again, ok := strings.CutPrefix(f[len(f)-1], "out="); ok {
			in, err := time.ParseDuration(again)
			if err != nil {
				return fmt.Errorf("offer %q: %w", item, err)
			}
			o.RetryAt = p.s.Now.Add(in)
		}
		t.Offerings = append(t.Offerings, o)
	}
	p.types = append(p.types, t)
	return nil
}

// typesOf returns the types that the line names, or all declared for the pool.
func (p *parser) typesOf(l *line, pool string) ([]model.InstanceType, error) {
	var out []model.InstanceType
	if contents := l.group("types"); len(contents) > 0 {
		for _, name := range leaves(lists(contents)) {
			t := p.typeFor(name, pool)
			if t == nil {
				return nil, fmt.Errorf("types(%s): not declared", name)
			}
			if slices.ContainsFunc(out, func(o model.InstanceType) bool { return o.Name == name }) {
				return nil, fmt.Errorf("types(%s): named twice", name)
			}
			out = append(out, *t)
		}
		return out, nil
	}
	for i := range p.types {
		t := &p.types[i].InstanceType
		if p.typeFor(t.Name, pool) == t {
			out = append(out, *t)
		}
	}
	return out, nil
}

// typeFor returns the type of the name declared for the pool, else the one for every pool, else nil.
func (p *parser) typeFor(name, pool string) *model.InstanceType {
	var found *model.InstanceType
	for i := range p.types {
		t := &p.types[i]
		switch {
		case t.Name != name:
		case slices.Contains(t.only, pool):
			return &t.InstanceType
		case len(t.only) == 0:
			found = &t.InstanceType
		}
	}
	return found
}
