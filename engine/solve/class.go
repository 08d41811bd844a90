package solve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// class is what pods have in common to which the same machines are open.
type class struct {
	required    model.Requirements
	anyOf       []model.Requirements
	tolerations []model.Toleration
	ports       []model.HostPort // against daemons that have them
	shape       *model.Shape     // any shape of the class
	opened      bool
	options     [][]rules.Option // by view; none where the pool is closed to the class
	banned      []bool           // by view: minValues cannot be kept there
	base        int              // the class without the zones that were chosen; its own index if none were
	zones       []string         // that were chosen; nil = any
}

// addClass gives the shape's class. Where its volumes are is one more set of alternatives.
func (p *problem) addClass(s *model.Shape) int {
	c := &class{required: s.Required, anyOf: s.AnyOf, tolerations: s.Tolerations, ports: s.HostPorts, shape: s}
	if places := rules.Places(s.Volumes); places != nil {
		c.anyOf = nil
		for _, wants := range rules.Alternatives(s.Required, s.AnyOf) {
			for _, place := range places {
				c.anyOf = append(c.anyOf, wants.And(place))
			}
		}
		c.required = nil
	}
	return p.intern(c, -1)
}

func (p *problem) intern(c *class, base int) int {
	var key strings.Builder
	fmt.Fprintf(&key, "%d %q %s", base, c.zones, c.required.String())
	for _, term := range c.anyOf {
		key.WriteString(" | ")
		key.WriteString(term.String())
	}
	for _, t := range c.tolerations {
		fmt.Fprintf(&key, " ~ %q %q %v %q", t.Key, t.Value, t.Exists, t.Effect)
	}
	fmt.Fprintf(&key, " : %v", c.ports)
	i, ok := p.classOf[key.String()]
	if !ok {
		i = len(p.classes)
		p.classOf[key.String()] = i
		if c.base = base; base < 0 {
			c.base = i
		}
		p.classes = append(p.classes, c)
	}
	return i
}

// openClass finds the machines that are open to a class.
func (p *problem) openClass(c *class) {
	if c.opened {
		return
	}
	var launching rules.Bits // nil = all pools count
	if p.screen != nil {
		launching = p.screen.Views(model.Resources{}, c.required, c.anyOf, c.tolerations)
	}
	c.opened = true
	c.banned = make([]bool, len(p.views))
	c.options = make([][]rules.Option, len(p.views))
	for v := range p.views {
		if launching == nil || launching.Has(v) {
			c.options[v] = optionsIn(p.views[v], c)
		}
	}
}

// optionsOf are the class's options in the pool, whether or not it can launch anything now.
func (p *problem) optionsOf(c *class, view int) []rules.Option {
	if c.opened && (c.options[view] != nil || c.zones != nil) {
		return c.options[view]
	}
	return optionsIn(p.views[view], c)
}

func optionsIn(v *rules.View, c *class) []rules.Option {
	if v.Pool.NotReady != "" {
		return nil
	}
	if _, bad := model.Untolerated(v.Pool.Taints, c.tolerations); bad {
		return nil
	}
	options := v.Options(c.required, c.anyOf)
	if len(c.ports) == 0 || len(v.DaemonPorts) == 0 {
		return options
	}
	var out []rules.Option
	for _, o := range options {
		o.Types = slices.Clone(o.Types)
		for t := range v.Net {
			if o.Types.Has(t) && !v.DaemonPortsAllow(c.ports, t) {
				o.Types[t/64] &^= 1 << (t % 64)
			}
		}
		if !o.Types.Empty() {
			out = append(out, o)
		}
	}
	return out
}

// inZones is the class of the same pods once their zones are chosen.
func (p *problem) inZones(base int, zones ...string) int {
	from := p.classes[base]
	c := &class{required: from.required, anyOf: from.anyOf, tolerations: from.tolerations, ports: from.ports, shape: from.shape, zones: zones}
	i := p.intern(c, base)
	if c = p.classes[i]; c.opened {
		return i
	}
	c.opened, c.banned = true, make([]bool, len(p.views))
	wants := model.Requirements{model.OneOf(model.LabelZone, zones...)}
	for vi, v := range p.views {
		var options []rules.Option
		for _, o := range from.options[vi] {
			narrowed := make([]bool, len(v.Zones))
			any := false
			for z, name := range v.Zones {
				narrowed[z] = o.Zones[z] && slices.Contains(zones, name)
				any = any || narrowed[z]
			}
			if any {
				o.Zones, o.Wants = narrowed, o.Wants.And(wants)
				options = append(options, o)
			}
		}
		c.options = append(c.options, options)
	}
	return i
}

// optionFor is the option by which the class may use the type's offering, or -1.
func (c *class) optionFor(view, typ int, f *rules.Offer) int {
	if c.banned[view] {
		return -1
	}
	return c.optionIn(view, typ, f)
}

// optionIn is optionFor whether or not minValues can be kept in the pool.
func (c *class) optionIn(view, typ int, f *rules.Offer) int {
	return slices.IndexFunc(c.options[view], func(o rules.Option) bool {
		return o.Types.Has(typ) && o.Zones[f.Zone] && o.Capacity[f.Capacity]
	})
}
