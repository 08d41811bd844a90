package rules

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Verdict says why the pool cannot launch a node for a pod of the shape: which rule left no type, and how many types
// each rule before it left. room is what the limits allow; names are the snapshot's resources. It is slow and plain:
// it runs only for shapes that cannot be placed.
func (v *View) Verdict(s *model.Shape, room Headroom, names []string) model.PoolVerdict {
	out := model.PoolVerdict{Pool: v.Pool.Name}
	if v.Pool.NotReady != "" {
		out.Rule, out.Detail = model.RulePoolNotReady, v.Pool.NotReady
		return out
	}
	if t, bad := model.Untolerated(v.Pool.Taints, s.Tolerations); bad {
		out.Rule, out.Object = model.RuleTaint, TaintText(t)
		return out
	}
	out.Funnel = append(out.Funnel, model.FunnelStep{Rule: model.RuleCatalog, Left: len(v.Pool.Types)})
	if len(v.Pool.Types) == 0 {
		out.Rule = model.RuleCatalog
		return out
	}
	best := out
	for i, wants := range Alternatives(s.Required, s.AnyOf) {
		tried := out
		tried.Funnel = slices.Clone(out.Funnel)
		v.funnel(s, wants, room, names, &tried)
		if i == 0 || Progress(tried.Rule) > Progress(best.Rule) {
			best = tried
		}
	}
	return best
}

// Progress ranks a rule by how close to a node a pod gets before the rule stops it.
func Progress(r model.Rule) int {
	return slices.Index([]model.Rule{
		model.RulePoolNotReady, model.RuleCatalog, model.RuleTaint, model.RuleRequirement, model.RuleVolume,
		model.RuleResource, model.RuleVolumeLimit, model.RuleLimit, model.RuleZonalShift, model.RuleCapacity,
		model.RulePreflight, model.RuleAddresses, model.RuleMinValues, model.RuleHostPort, model.RuleVolumeInUse,
		model.RuleAffinity, model.RuleAntiAffinity, model.RuleSpread, model.RuleSteps,
	}, r)
}

// TaintText formats a taint as kubectl does.
func TaintText(t model.Taint) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return text + ":" + string(t.Effect)
}

func (v *View) funnel(s *model.Shape, wants model.Requirements, room Headroom, names []string, out *model.PoolVerdict) {
	o, key := v.option(wants)
	left := slices.Collect(o.Types.All())
	if key != "" || len(left) == 0 {
		v.blameLabel(wants, key, out)
		return
	}
	step := func(rule model.Rule, types []int) bool {
		left = types
		out.Funnel = append(out.Funnel, model.FunnelStep{Rule: rule, Left: len(types)})
		if len(types) == 0 {
			out.Rule = rule
		}
		return len(types) > 0
	}
	step(model.RuleRequirement, left)
	if len(s.Volumes) > 0 && !v.reach(s, &o, step, out) {
		return
	}
	before := left
	if !step(model.RuleResource, filter(left, func(t int) bool { return s.Requests.Fits(v.Net[t]) })) {
		v.blameResource(s, before, names, out)
		return
	}
	before = left
	limits := &v.Pool.Limits
	if !step(model.RuleLimit, filter(left, func(t int) bool { return room.Allows(limits, &v.Pool.Types[t].Capacity) })) {
		v.blameLimit(before, room, names, out)
		return
	}
	if v.shifted && !inUse(v, left, &o, step, out) {
		return
	}
	before = left
	inStock := func(t int) bool { return v.has(t, &o, (*Offer).InStock) }
	if !step(model.RuleCapacity, filter(left, inStock)) {
		out.Object, out.Detail = v.Pool.Types[before[0]].Name, v.retryTimes(before, &o)
		if onlyReserved(v, before, &o) {
			blameReserved(v, before, wants, &o, step, out)
		}
		return
	}
	if v.Enforced && !step(model.RulePreflight, v.addressed(left, out)) {
		return
	}
	if v.limited {
		before = left
		available := func(t int) bool { return v.has(t, &o, func(f *Offer) bool { return f.Available }) }
		if !step(model.RuleAddresses, filter(left, available)) {
			v.BlameAddresses(before, o.Zones, v.subnets, out)
			return
		}
	}
	if r, n, short := v.ShortOfValues(left, o.OfferSet); short && !v.BestEffort {
		step(model.RuleMinValues, nil)
		out.Object, out.Detail, out.Best = r.Key, model.Quantity("", int64(r.MinValues)), model.Quantity("", int64(n))
		return
	}
	out.Rule = model.RuleSteps
}

// inUse is the step that keeps types with an offering in a zone that is in use. If there are none, out names the
// zones from which traffic is shifted away, and says when the first of them is in use again.
func inUse(v *View, types []int, o *Option, step func(model.Rule, []int) bool, out *model.PoolVerdict) bool {
	used := func(f *Offer) bool { return !f.Shifted }
	if step(model.RuleZonalShift, filter(types, func(t int) bool { return v.has(t, o, used) })) {
		return true
	}
	var zones []string
	var until time.Time
	for _, f := range offerings(v, types, o) {
		if !f.Shifted {
			continue
		}
		if !slices.Contains(zones, f.Zone) {
			zones = append(zones, f.Zone)
		}
		if until.IsZero() || f.RetryAt.Before(until) {
			until = f.RetryAt
		}
	}
	slices.Sort(zones)
	out.Object = strings.Join(zones, ", ")
	if !until.IsZero() {
		out.Detail = until.UTC().Format(time.RFC3339)
	}
	return false
}

// offerings are those of types within the option, available or not.
func offerings(v *View, types []int, o *Option) iter.Seq2[*model.InstanceType, *model.Offering] {
	return func(yield func(*model.InstanceType, *model.Offering) bool) {
		for _, t := range types {
			it := &v.Pool.Types[t]
			for i := range it.Offerings {
				f := &it.Offerings[i]
				z, c := slices.Index(v.Zones, f.Zone), slices.Index(v.Capacities, f.CapacityType)
				if z >= 0 && c >= 0 && o.Has(&Offer{Zone: z, Capacity: c}) && !yield(it, f) {
					return
				}
			}
		}
	}
}

// has reports whether the type has an offering within the option that wanted accepts.
func (v *View) has(t int, o *Option, wanted func(*Offer) bool) bool {
	return slices.ContainsFunc(v.Offers[t], func(f Offer) bool { return wanted(&f) && o.Has(&f) })
}

// onlyReserved reports whether all offerings of the types within the option are of capacity reservations.
func onlyReserved(v *View, types []int, o *Option) bool {
	bought := func(f *Offer) bool { return v.Capacities[f.Capacity] != model.Reserved }
	return !slices.ContainsFunc(types, func(t int) bool { return v.has(t, o, bought) })
}

// blameReserved says why the pod gets none of the pool's reserved instances: Best is Reserved, and BestOf names a
// reservation that fits and has free ones. Those are not used where a node needs several types.
func blameReserved(v *View, types []int, wants model.Requirements, o *Option, step func(model.Rule, []int) bool,
	out *model.PoolVerdict,
) {
	out.Best = model.Reserved
	reservations := v.Pool.Reservations
	i := slices.IndexFunc(reservations, func(r model.Reservation) bool {
		zone := slices.Index(v.Zones, r.Zone)
		return r.Free > 0 && zone >= 0 && o.Zones.Has(zone) && r.Labels.Conflict(wants, anyKey) == "" &&
			slices.ContainsFunc(types, func(t int) bool { return v.Pool.Types[t].Name == r.Type })
	})
	if i < 0 {
		return
	}
	out.BestOf = reservations[i].ID
	if r := SeveralValues(v); r != nil {
		out.Funnel[len(out.Funnel)-1].Left = 1
		step(model.RuleMinValues, nil)
		out.Object, out.Detail, out.Best, out.BestOf = r.Key, model.Quantity("", int64(r.MinValues)), "1", ""
	}
}

func anyKey(string) bool { return true }

// blameLabel finds the label that left no type: first among the pool's own requirements, then the pod's, one by one.
func (v *View) blameLabel(wants model.Requirements, key string, out *model.PoolVerdict) {
	out.Rule = model.RuleRequirement
	out.Funnel = append(out.Funnel, model.FunnelStep{Rule: model.RuleRequirement})
	if v.Eligible.Empty() {
		out.Object, out.Detail = v.blamePool()
		return
	}
	if key != "" {
		out.Object = key
		if r, ok := wants.Get(key); ok {
			out.Detail = r.String()
		}
		return
	}
	for i := range wants {
		if o, _ := v.option(wants[:i+1]); o.Types.Empty() {
			out.Object, out.Detail = wants[i].Key, wants[i].String()
			return
		}
	}
}

// blamed is a requirement of a pool.
type blamed struct{ key, detail string }

// blamePool names the pool's requirement that none of its types satisfies: the same for every pod.
func (v *View) blamePool() (key, detail string) {
	if v.blamed == nil {
		key, detail = v.contradiction()
		v.blamed = &blamed{key, detail}
	}
	return v.blamed.key, v.blamed.detail
}

func (v *View) contradiction() (key, detail string) {
	left := make([]int, len(v.Pool.Types))
	for t := range left {
		left[t] = t
	}
	for _, r := range v.Requirements {
		if left = filter(left, func(t int) bool { return v.TypeAllows(t, r) }); len(left) == 0 {
			return r.Key, r.String()
		}
	}
	for _, key := range []string{model.LabelZone, model.LabelCapacityType} {
		if r, ok := v.Requirements.Get(key); ok {
			return key, r.String()
		}
	}
	return "", ""
}

// blameResource names the resource that no type has enough of or, if some type has enough of each, all of them
// together.
func (v *View) blameResource(s *model.Shape, types []int, names []string, out *model.PoolVerdict) {
	for i, asked := range s.Requests {
		if asked <= 0 {
			continue
		}
		most := types[0]
		for _, t := range types {
			if v.Net[t][i] > v.Net[most][i] {
				most = t
			}
		}
		if v.Net[most][i] >= asked {
			continue
		}
		name := model.ResourceName(names, i)
		out.Object, out.Detail = name, model.Quantity(name, asked)
		if v.Net[most][i] > 0 {
			out.Best, out.BestOf = model.Quantity(name, v.Net[most][i]), v.Pool.Types[most].Name
		}
		return
	}
	out.Detail = s.Requests.NonNegative().Amounts(names)
}

// blameLimit names the limit that even the smallest fitting type would exceed.
func (v *View) blameLimit(types []int, room Headroom, names []string, out *model.PoolVerdict) {
	l := &v.Pool.Limits
	if room.Nodes <= 0 {
		out.Object, out.Detail = "nodes", model.Quantity("", l.Nodes)
		if l.OfGroup {
			out.Object = model.GroupMaximum
		}
		out.Best = model.Quantity("", max(l.Nodes-room.Nodes, 0))
		return
	}
	smallest, over := types[0], -1
	for _, t := range types {
		i := overLimit(&room, l, &v.Pool.Types[t].Capacity)
		if over < 0 || i == over && v.Pool.Types[t].Capacity[i] < v.Pool.Types[smallest].Capacity[i] {
			smallest, over = t, i
		}
	}
	if over < 0 {
		return
	}
	name := model.ResourceName(names, over)
	out.Object, out.Detail = name, model.Quantity(name, l.Max[over])
	out.Best = model.Quantity(name, model.Resources{0: l.Max[over]}.Minus(model.Resources{0: room.Left[over]})[0])
	out.BestOf = v.Pool.Types[smallest].Name
}

func filter(types []int, keep func(int) bool) []int {
	var out []int
	for _, t := range types {
		if keep(t) {
			out = append(out, t)
		}
	}
	return out
}

// maxNamed is the number of offerings that a text lists.
const maxNamed = 3

// retryTimes lists the unavailable offerings of these types within the option in the order in which they are tried
// again: by time, then price. It is "" if none of the times is known.
func (v *View) retryTimes(types []int, o *Option) string {
	type out struct {
		model.OfferingKey
		again time.Time
		price model.Price
	}
	var all []out
	for t, f := range offerings(v, types, o) {
		if !f.RetryAt.IsZero() && !f.Shifted {
			all = append(all, out{
				model.OfferingKey{Type: t.Name, Zone: f.Zone, CapacityType: f.CapacityType}, f.RetryAt, f.Price,
			})
		}
	}
	slices.SortFunc(all, func(a, b out) int {
		return cmp.Or(a.again.Compare(b.again), cmp.Compare(a.price, b.price), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	var named []string
	for _, x := range all[:min(len(all), maxNamed)] {
		named = append(named, fmt.Sprintf("%s %s in %s at %s", x.Type, x.CapacityType, x.Zone,
			x.again.UTC().Format(time.RFC3339)))
	}
	if more := len(all) - maxNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return strings.Join(named, ", then ")
}
