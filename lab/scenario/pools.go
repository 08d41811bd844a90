package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

func (p *parser) addPool(l *line) {
	pool := model.Pool{Name: l.name()}
	p.once(l, "pool", pool.Name)
	_, pool.Static = l.value("replicas")
	l.fields(2, number("weight", &pool.Weight), number("replicas", &pool.Replicas), number("min-nodes", &pool.MinNodes))
	pool.Limits.OfGroup = l.has("of-group")
	pool.Requirements = l.requirements(lists(l.group("require")))
	if !l.has("bare") {
		pool.Requirements = pool.Requirements.And(model.Requirements{model.OneOf(model.LabelPool, pool.Name)})
	}
	pool.Taints, pool.StartupTaints = l.taints("taint"), l.taints("startup-taint")
	pool.Limits.NodesSet = p.limits(&pool, l, "limit", &pool.Limits.Max, &pool.Limits.Nodes)
	p.limits(&pool, l, "usage", &pool.Usage, &pool.NodeCount)
	pool.Reservations = p.reservationsOf(l)
	pool.Types = model.WithReserved(p.typesOf(l, pool.Name), pool.Reservations)
	pool.Subnets = p.subnetsOf(l)
	pool.NotReady, pool.Unread = sentence(l.group("not-ready")), l.has("unread")
	l.fieldGroup("disrupt", disruptionFields(&pool.Disruption)...)
	l.fieldGroup("annotations", annotationFields(p.s.Now, &pool.Disruption)...)
	p.s.Pools = append(p.s.Pools, pool)
}

func (p *parser) addSubnet(l *line) {
	s := model.Subnet{ID: l.name()}
	p.once(l, "subnet", s.ID)
	l.fields(2, text("zone", &s.Zone), number("free", &s.Free), number("scattered", &s.Scattered))
	p.s.Subnets = append(p.s.Subnets, s)
	slices.SortFunc(p.s.Subnets, func(a, b model.Subnet) int { return strings.Compare(a.ID, b.ID) })
}

// addReservation adds a capacity reservation. Its nodes have the label reservation=<its name>.
func (p *parser) addReservation(l *line) {
	r := model.Reservation{
		ID: l.name(), Labels: model.Requirements{model.OneOf("reservation", l.name())},
	}
	p.once(l, "reservation", r.ID)
	l.fields(2, text("type", &r.Type), text("zone", &r.Zone), number("free", &r.Free), money("price", &r.Price))
	p.reserved = append(p.reserved, r)
}

// reservationsOf returns the capacity reservations that the pool names, or all if it names none.
func (p *parser) reservationsOf(l *line) (out []model.Reservation) {
	named := leaves(lists(l.group("reservations")))
	for _, r := range p.reserved {
		if len(named) == 0 || slices.Contains(named, r.ID) {
			out = append(out, r)
		}
	}
	if len(named) > len(out) {
		l.failf("reservations(%s): not all are declared, or one is named twice", strings.Join(named, ", "))
	}
	return out
}

// subnetsOf returns the subnets that the pool names, or all if it names none.
func (p *parser) subnetsOf(l *line) (out []string) {
	named := leaves(lists(l.group("subnets")))
	for _, s := range p.s.Subnets {
		if len(named) == 0 || slices.Contains(named, s.ID) {
			out = append(out, s.ID)
		}
	}
	if len(named) > len(out) {
		l.failf("subnets(%s): not all are declared, or one is named twice", strings.Join(named, ", "))
	}
	slices.Sort(out)
	return out
}

// limits reads the group limit or usage, in which nodes is not a resource, and reports whether the group contains
// nodes.
func (p *parser) limits(pool *model.Pool, l *line, group string, to *model.Resources, nodes *int64) (counted bool) {
	items := lists(l.group(group))
	if i := slices.IndexFunc(items, func(item string) bool { return strings.HasPrefix(item, "nodes=") }); i >= 0 {
		if err := readItem(items[i], []field{number("nodes", nodes)}); err != nil {
			l.failf("%s: %w", group, err)
		}
		items, counted = slices.Delete(items, i, i+1), true
	}
	*to = p.override(l, model.Resources{}, group, items)
	for _, item := range items {
		if name, _, _ := cut(item, "="); group == "limit" && p.resource(name) >= 0 {
			pool.Limits.Set[p.resource(name)] = true
		}
	}
	return counted
}

func disruptionFields(d *model.DisruptionPolicy) []field {
	return []field{
		duration("after", &d.ConsolidateAfter),
		word("never", &d.Never),
		word("when-empty", &d.WhenEmptyOnly),
		word("balanced", &d.Balanced),
		number("empty", &d.AllowedEmpty),
		number("drifted", &d.AllowedDrifted),
		number("underused", &d.AllowedUnderused),
	}
}

// annotationFields are the settings that a pool's owner makes by annotations.
func annotationFields(now time.Time, d *model.DisruptionPolicy) []field {
	return []field{
		windowField(&d.Window),
		word("open", &d.Window.Open),
		ahead("until", now, &d.Window.Until),
		text("unclear", &d.Unclear),
		money("saving", &d.MinSaving),
		number("saving-percent", &d.MinSavingPercent),
		duration("soft-expire", &d.SoftExpireAfter),
		word("replace-crowded", &d.ReplaceCrowded),
		word("wait-for-jobs", &d.WaitForJobs),
	}
}

// windowField is window=empty|drifted|underused: the methods that the window restricts.
func windowField(w *model.Window) field {
	methods := []field{word("empty", &w.Empty), word("drifted", &w.Drifted), word("underused", &w.Underused)}
	return field{name: "window", read: func(text string) error {
		for _, method := range strings.Split(text, "|") {
			if err := readItem(method, methods); err != nil {
				return fmt.Errorf("want empty, drifted or underused with | between them")
			}
		}
		return nil
	}}
}
