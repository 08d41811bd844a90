package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// maxPlaces bounds the product of the places of several volumes; the rest is ignored.
const maxPlaces = 64

// Places returns the label conjunctions, at least one of which must hold for all volumes to be accessible; nil =
// anywhere.
func Places(volumes []model.Volume) []model.Requirements {
	var out []model.Requirements
	for i := range volumes {
		switch topology := volumes[i].Topology; {
		case len(topology) == 0:
		case out == nil:
			out = topology
		default:
			var product []model.Requirements
			for _, place := range out {
				for _, more := range topology {
					product = append(product, place.And(more))
				}
			}
			out = product[:min(len(product), maxPlaces)]
		}
	}
	return out
}

// Reaching returns the alternatives of a node affinity, each with one of the places from which the volumes are
// accessible.
func Reaching(anyOf []model.Requirements, volumes []model.Volume) []model.Requirements {
	places := Places(volumes)
	if places == nil {
		return anyOf
	}
	if len(anyOf) == 0 {
		return places
	}
	var out []model.Requirements
	for _, term := range anyOf {
		for _, place := range places {
			out = append(out, term.And(place))
		}
	}
	return out
}

// reach narrows an option to where the volumes are accessible and to types that can attach them.
func (v *View) reach(s *model.Shape, o *Option, step func(model.Rule, []int) bool, out *model.PoolVerdict) bool {
	if places := Places(s.Volumes); places != nil {
		near := Option{
			Types: NewBits(len(v.Pool.Types)), OfferSet: OfferSet{NewBits(len(v.Zones)), NewBits(len(v.Capacities))},
		}
		for _, place := range places {
			if at, key := v.option(o.Wants.And(place)); key == "" {
				near.add(&at)
			}
		}
		near.Wants, near.Custom = o.Wants, o.Custom
		if *o = near; !step(model.RuleVolume, slices.Collect(near.Types.All())) {
			v.blameVolume(s, out)
			return false
		}
	}
	return v.attach(s, o, step, out)
}

// attach keeps the types that can attach all the volumes at once.
func (v *View) attach(s *model.Shape, o *Option, step func(model.Rule, []int) bool, out *model.PoolVerdict) bool {
	left := slices.Collect(o.Types.All())
	all := len(left)
	for i := range s.Volumes {
		driver, most := s.Volumes[i].Driver, int64(0)
		if driver == "" {
			continue
		}
		n := attached(s.Volumes, driver)
		left = filter(left, func(t int) bool {
			limit, limited := model.AttachLimitOf(v.Pool.Types[t].AttachLimits, driver)
			most = max(most, limit)
			return !limited || n <= limit
		})
		if len(left) == 0 {
			step(model.RuleVolumeLimit, nil)
			out.Object, out.Detail, out.Best = driver, model.Quantity("", n), model.Quantity("", most)
			return false
		}
	}
	if len(left) < all {
		step(model.RuleVolumeLimit, left)
	}
	return true
}

// add extends the option by what another one allows.
func (o *Option) add(more *Option) {
	o.Types.add(more.Types)
	o.Zones.add(more.Zones)
	o.Capacity.add(more.Capacity)
}

// blameVolume names the first volume that no node of the pool can access, or those that none can access together.
func (v *View) blameVolume(s *model.Shape, out *model.PoolVerdict) {
	var ids, where []string
	for i := range s.Volumes {
		places := s.Volumes[i].Topology
		if len(places) == 0 {
			continue
		}
		if len(v.Options(nil, places)) == 0 {
			out.Object, out.Detail, out.Best = s.Volumes[i].ID, places[0].String(), s.Volumes[i].Short
			return
		}
		ids, where = append(ids, s.Volumes[i].ID), append(where, places[0].String())
		out.Best = cmp.Or(out.Best, s.Volumes[i].Short)
	}
	out.Object, out.Detail = strings.Join(ids, ", "), strings.Join(where, "; ")
}

// attached returns how many of the volumes count against the driver's limit; each is attached once.
func attached(volumes []model.Volume, driver string) int64 {
	var ids []string
	for i := range volumes {
		if volumes[i].Driver == driver && !slices.Contains(ids, volumes[i].ID) {
			ids = append(ids, volumes[i].ID)
		}
	}
	return int64(len(ids))
}
