package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// declaredType is an instance type, for the pools in only or, if there are none, for every pool.
type declaredType struct {
	model.InstanceType
	only []string
}

func (p *parser) addType(l *line) {
	t := declaredType{InstanceType: model.InstanceType{Name: l.name()}, only: leaves(lists(l.group("only")))}
	p.once(l, "type", fmt.Sprintf("%s %q", t.Name, t.only))
	t.Capacity = p.amounts(l, model.Resources{})
	t.Allocatable = p.override(l, t.Capacity, "allocatable", lists(l.group("allocatable")))
	t.Requirements = l.requirements(lists(l.group("labels")))
	if !l.has("bare") {
		t.Requirements = t.Requirements.And(model.Requirements{model.OneOf(model.LabelInstanceType, t.Name)})
	}
	t.AttachLimits = l.attachLimits()
	t.Addresses, t.SingleAddresses = l.addresses(), l.has("single-addresses")
	l.fields(2, number("unaddressed", &t.Unaddressed))
	for _, item := range lists(l.group("offers")) {
		o, err := p.offer(item)
		if err != nil {
			l.failf("offer %q: %w", item, err)
		}
		t.Offerings = append(t.Offerings, o)
	}
	p.types = append(p.types, t)
}

// addresses reads how many addresses a node takes from its subnet: addresses(5=12, 15=18) is 12 for up to 5 pods,
// then 18.
func (l *line) addresses() (out []model.AddressStep) {
	for _, item := range lists(l.group("addresses")) {
		pods, taken, ok := cut(item, "=")
		var s model.AddressStep
		var err error
		if s.Pods, err = whole[int64](pods); err == nil && ok {
			s.Addresses, err = whole[int64](taken)
		}
		if err != nil || !ok {
			l.failf("addresses(%s): want PODS=ADDRESSES", item)
			return nil
		}
		out = append(out, s)
	}
	return out
}

func (p *parser) offer(item string) (o model.Offering, err error) {
	f := leaves(fields(item))
	why, again, timed := strings.Cut(slices.Concat(f, []string{"", "", "", ""})[3], "=")
	if len(f) < 3 || len(f) > 4 || len(f) == 4 && why != "out" && why != "shifted" {
		return o, fmt.Errorf("want zone, capacity type, price, and out or out=45s if it has no capacity, shifted or " +
			"shifted=2h if traffic is shifted away from the zone")
	}
	o = model.Offering{Zone: f[0], CapacityType: f[1], Available: len(f) == 3, Shifted: why == "shifted"}
	if o.Price, err = price(f[2]); err != nil {
		return o, err
	}
	if timed {
		in, err := time.ParseDuration(again)
		if err != nil {
			return o, err
		}
		o.RetryAt = p.s.Now.Add(in)
	}
	return o, nil
}

// typesOf returns the types that the line names, or all types of the pool if it names none.
func (p *parser) typesOf(l *line, pool string) (out []model.InstanceType) {
	named := leaves(lists(l.group("types")))
	for i, name := range named {
		t := p.typeFor(name, pool)
		switch {
		case t == nil:
			l.failf("types(%s): not declared", name)
		case slices.Contains(named[:i], name):
			l.failf("types(%s): named twice", name)
		default:
			out = append(out, *t)
		}
	}
	if len(l.group("types")) > 0 {
		return out
	}
	for i := range p.types {
		t := &p.types[i].InstanceType
		if p.typeFor(t.Name, pool) == t {
			out = append(out, *t)
		}
	}
	return out
}

// typeFor returns the type of this name declared for the pool, else the one declared for every pool, else nil.
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
