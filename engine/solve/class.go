package solve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// class is the constraints of pods that may use the same offerings.
type class struct {
	required    model.Requirements
	anyOf       []model.Requirements
	tolerations []model.Toleration
	ports       []model.HostPort // against daemons that have them
	opened      bool
	options     [][]rules.Option // by view; none where the pool is closed to the class
	banned      []bool           // by view: minValues cannot be kept there
	base        int              // the class without the zones that were chosen; its own index if none were
	zones       []string         // that were chosen; nil = any
}

// classTable interns classes.
type classTable struct {
	list   []*class
	index  map[string]int
	views  []*rules.View
	screen *rules.Screen // nil = all pools count
}

func newClassTable() *classTable { return &classTable{index: map[string]int{}} }

// add returns the class of a shape. The places of its volumes are one more set of alternatives.
func (x *classTable) add(s *model.Shape) int {
	c := &class{required: s.Required, anyOf: s.AnyOf, tolerations: s.Tolerations, ports: s.HostPorts}
	if rules.Places(s.Volumes) != nil {
		c.required, c.anyOf = nil, rules.Reaching(rules.Alternatives(s.Required, s.AnyOf), s.Volumes)
	}
	return x.intern(c, -1)
}

func (x *classTable) intern(c *class, base int) int {
	var text strings.Builder
	fmt.Fprintf(&text, "%d %q %s", base, c.zones, c.required.String())
	for _, term := range c.anyOf {
		text.WriteString(" | ")
		text.WriteString(term.String())
	}
	for _, t := range c.tolerations {
		fmt.Fprintf(&text, " ~ %q %q %v %q", t.Key, t.Value, t.Exists, t.Effect)
	}
	fmt.Fprintf(&text, " : %v", c.ports)
	key := text.String()
	i, ok := x.index[key]
	if !ok {
		i = len(x.list)
		x.index[key] = i
		if c.base = base; base < 0 {
			c.base = i
		}
		x.list = append(x.list, c)
	}
	return i
}

// open finds the options of a class in each pool that can launch something.
func (x *classTable) open(c *class) {
	if c.opened {
		return
	}
	var launching rules.Bits
	if x.screen != nil {
		launching = x.screen.Views(model.Resources{}, c.required, c.anyOf, c.tolerations)
	}
	c.opened, c.banned, c.options = true, make([]bool, len(x.views)), make([][]rules.Option, len(x.views))
	for i, v := range x.views {
		if launching == nil || launching.Has(i) {
			c.options[i] = optionsIn(v, c)
		}
	}
}

// optionsOf returns the class's options in the pool, whether or not it can launch anything now.
func (x *classTable) optionsOf(c *class, view int) []rules.Option {
	if c.opened && (c.options[view] != nil || c.zones != nil) {
		return c.options[view]
	}
	return optionsIn(x.views[view], c)
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
		for t := range o.Types.All() {
			if !v.DaemonPortsAllow(c.ports, t) {
				o.Types.Remove(t)
			}
		}
		if !o.Types.Empty() {
			out = append(out, o)
		}
	}
	return out
}

// inZones returns the class of the same pods once their zones are chosen.
func (x *classTable) inZones(base int, zones ...string) int {
	from := x.list[base]
	i := x.intern(&class{
		required: from.required, anyOf: from.anyOf, tolerations: from.tolerations, ports: from.ports, zones: zones,
	}, base)
	c := x.list[i]
	if c.opened {
		return i
	}
	c.opened, c.banned = true, make([]bool, len(x.views))
	wants := model.Requirements{model.OneOf(model.LabelZone, zones...)}
	for vi, v := range x.views {
		var options []rules.Option
		for _, o := range from.options[vi] {
			narrowed := rules.NewBits(len(v.Zones))
			for z := range o.Zones.All() {
				if slices.Contains(zones, v.Zones[z]) {
					narrowed.Set(z)
				}
			}
			if !narrowed.Empty() {
				o.Zones, o.Wants = narrowed, o.Wants.And(wants)
				options = append(options, o)
			}
		}
		c.options = append(c.options, options)
	}
	return i
}

// optionFor returns the option by which the class may use the type's offering, or -1. The pool is closed to it where
// minValues cannot be kept, unless they are relaxed.
func (c *class) optionFor(view, typ int, f *rules.Offer, relaxed bool) int {
	if c.banned[view] && !relaxed {
		return -1
	}
	return slices.IndexFunc(c.options[view], func(o rules.Option) bool {
		return o.Types.Has(typ) && o.Has(f)
	})
}
