package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// overlaidPool is the part of a NodePool that overlays depend on.
type overlaidPool struct {
	Name   string
	Labels map[string]string // of its template
	Types  []model.InstanceType
}

// OverlayEffect is the effect of overlays on a pool's types.
type OverlayEffect struct {
	Types    []model.InstanceType // with the overlays applied; types to which none applies are shared
	Prices   map[model.OfferingKey]model.Price
	Capacity map[string]model.Resources // by type: the resources that overlays set
}

// OverlayVerdict says what is wrong with an overlay; Reason is empty if nothing is.
type OverlayVerdict struct{ Reason, Message string }

// Reasons of the condition ValidationSucceeded, as upstream writes them.
const (
	reasonInvalid  = "RuntimeValidation"
	reasonConflict = "Conflict"
)

// evaluateOverlays applies the overlays to each pool: by weight descending, then by name descending, the first that
// sets the price of an offering or a resource of a type wins. An overlay that sets what another of the same weight
// has set conflicts with it and is ignored everywhere (sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay). The result
// omits pools that no overlay matches.
func evaluateOverlays(names *translate.Names, pools []overlaidPool,
	objects []*v1alpha1.NodeOverlay) (map[string]*OverlayEffect,
	map[string]OverlayVerdict,
) {
	e := evaluation{names: names, pools: pools, said: make([]statements, len(pools))}
	verdicts := map[string]OverlayVerdict{}
	for _, o := range slices.SortedFunc(slices.Values(objects), func(a, b *v1alpha1.NodeOverlay) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(b.Name, a.Name))
	}) {
		verdicts[o.Name] = e.add(o)
	}
	effects := map[string]*OverlayEffect{}
	for i := range pools {
		if f := e.effect(i); f != nil {
			effects[pools[i].Name] = f
		}
	}
	return effects, verdicts
}

func weight(o *v1alpha1.NodeOverlay) int32 {
	if o.Spec.Weight == nil {
		return 0
	}
	return *o.Spec.Weight
}

// statement is the value set for a price or a resource, and the overlay of the lowest weight so far that sets it.
type statement[T any] struct {
	value  T
	by     string
	weight int32
}

type resourceKey struct {
	typ      string
	resource int
}

// statements are the values set for one pool's types.
type statements struct {
	prices   map[model.OfferingKey]statement[model.Price]
	capacity map[resourceKey]statement[int64]
}

type evaluation struct {
	names *translate.Names
	pools []overlaidPool
	said  []statements
}

// add applies an overlay, or says why it cannot.
func (e *evaluation) add(o *v1alpha1.NodeOverlay) OverlayVerdict {
	x, err := e.read(o)
	if err != nil {
		return OverlayVerdict{reasonInvalid, err.Error()}
	}
	matches := make([]map[string][]model.Offering, len(e.pools))
	for i := range e.pools {
		matches[i] = x.matches(&e.pools[i])
		if conflict := e.conflict(i, x, matches[i]); conflict != "" {
			return OverlayVerdict{reasonConflict, "conflict with another overlay: " + conflict}
		}
	}
	for i := range e.pools {
		e.state(i, x, matches[i])
	}
	return OverlayVerdict{}
}

// conflict describes what the overlay sets for a pool that another of its weight has set; "" if nothing.
func (e *evaluation) conflict(i int, x *overlay, matches map[string][]model.Offering) string {
	said := &e.said[i]
	what := func(by, thing, typ string) string {
		return fmt.Sprintf("NodeOverlay %q of the same weight sets %s of %s in NodePool %q; give them different weights "+
			"or requirements that exclude each other",
			by, thing, typ, e.pools[i].Name)
	}
	for _, typ := range slices.Sorted(maps.Keys(matches)) {
		for _, f := range matches[typ] {
			was, ok := said.prices[model.OfferingKey{Type: typ, Zone: f.Zone, CapacityType: f.CapacityType}]
			if x.price != nil && ok && was.weight == x.weight {
				return what(was.by, "the price", typ)
			}
		}
		for _, r := range slices.Sorted(maps.Keys(x.capacity)) {
			if was, ok := said.capacity[resourceKey{typ, r}]; ok && was.weight == x.weight {
				return what(was.by, e.names.List()[r], typ)
			}
		}
	}
	return ""
}

// state records what the overlay sets for a pool; values set earlier stand.
func (e *evaluation) state(i int, x *overlay, matches map[string][]model.Offering) {
	said := &e.said[i]
	if said.prices == nil {
		said.prices, said.capacity = map[model.OfferingKey]statement[model.Price]{}, map[resourceKey]statement[int64]{}
	}
	for typ, offerings := range matches {
		for _, f := range offerings {
			if x.price == nil {
				break
			}
			key := model.OfferingKey{Type: typ, Zone: f.Zone, CapacityType: f.CapacityType}
			s := statement[model.Price]{value: x.price(f.Price-f.SidePrice) + f.SidePrice, by: x.name, weight: x.weight}
			if was, ok := said.prices[key]; ok {
				s.value = was.value
			}
			said.prices[key] = s
		}
		for r, amount := range x.capacity {
			s := statement[int64]{value: amount, by: x.name, weight: x.weight}
			if was, ok := said.capacity[resourceKey{typ, r}]; ok {
				s.value = was.value
			}
			said.capacity[resourceKey{typ, r}] = s
		}
	}
}

// matches returns the offerings that the overlay applies to, by type: the labels of type, pool and offering must
// satisfy its requirements.
func (x *overlay) matches(p *overlaidPool) map[string][]model.Offering {
	own := translate.Labels(p.Labels).And(model.Requirements{model.OneOf(karpv1.NodePoolLabelKey, p.Name)})
	out := map[string][]model.Offering{}
	for i := range p.Types {
		t := &p.Types[i]
		if own.And(t.Requirements).Conflict(x.ofType, nil) != "" {
			continue
		}
		for _, f := range t.Offerings {
			if x.zone.Has(f.Zone) && x.capacityType.Has(f.CapacityType) {
				out[t.Name] = append(out[t.Name], f)
			}
		}
	}
	return out
}

// effect applies the recorded values to a pool's types; nil if there are none.
func (e *evaluation) effect(i int) *OverlayEffect {
	said := &e.said[i]
	if len(said.prices)+len(said.capacity) == 0 {
		return nil
	}
	f := &OverlayEffect{
		Types: slices.Clone(e.pools[i].Types), Prices: map[model.OfferingKey]model.Price{},
		Capacity: map[string]model.Resources{},
	}
	for key, s := range said.prices {
		f.Prices[key] = s.value
	}
	for key, s := range said.capacity {
		more := f.Capacity[key.typ]
		more[key.resource] = s.value
		f.Capacity[key.typ] = more
	}
	for k := range f.Types {
		t := &f.Types[k]
		if more, ok := f.Capacity[t.Name]; ok {
			t.Capacity, t.Allocatable = e.with(t.Capacity, more), e.with(t.Allocatable, more)
			t.Allocatable[model.Memory] = max(t.Allocatable[model.Memory]-e.hugePages(more), 0)
		}
		t.Offerings = priced(t.Name, t.Offerings, f.Prices)
	}
	return f
}

// priced returns the offerings with their new prices; the same slice if there are none.
func priced(typ string, offerings []model.Offering, prices map[model.OfferingKey]model.Price) []model.Offering {
	out := offerings
	for i, f := range offerings {
		price, ok := prices[model.OfferingKey{Type: typ, Zone: f.Zone, CapacityType: f.CapacityType}]
		if !ok {
			continue
		}
		if &out[0] == &offerings[0] {
			out = slices.Clone(offerings)
		}
		out[i].Price = price
	}
	return out
}

// validate runs the contract's own checks of keys, operators and values.
func validate(o *v1alpha1.NodeOverlay) error { return o.RuntimeValidate(context.Background()) }
