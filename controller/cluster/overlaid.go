package cluster

import (
	"reflect"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/controller/overlays"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// overlaid is what NodeOverlays make of pools. It is found out anew when an overlay, a pool or a catalogue changes.
type overlaid struct {
	objects  table[*v1alpha1.NodeOverlay]
	stale    bool
	effects  map[string]*overlays.Effect // by pool
	marked   map[string]catalog          // by pool
	verdicts map[string]overlays.Verdict // by overlay
}

func (w *World) updateOverlay(o *v1alpha1.NodeOverlay, now time.Time) {
	old := w.overlaid.objects.live[keyOf(o)]
	if w.overlaid.objects.put(o, now) && (old == nil || old.UID != o.UID || old.Generation != o.Generation || o.Generation == 0) {
		w.overlaid.stale = true
		w.poke()
	}
}

func (w *World) deleteOverlay(o *v1alpha1.NodeOverlay, now time.Time) {
	if w.overlaid.objects.drop(o, now) {
		w.overlaid.stale = true
		w.poke()
	}
}

// overlay brings the effects of overlays up to date.
func (w *World) overlay() {
	v := &w.overlaid
	if !v.stale {
		return
	}
	v.stale = false
	before := v.effects
	v.effects, v.verdicts, v.marked = nil, nil, map[string]catalog{}
	if len(v.objects.live) > 0 {
		var pools []overlays.Pool
		for _, np := range byName(w.pools.live) {
			if c, ok := w.catalogs[translate.ClassRef(np.Spec.Template.Spec.NodeClassRef)]; ok {
				pools = append(pools, overlays.Pool{Name: np.Name, Labels: np.Spec.Template.Labels, Types: c.types})
			}
		}
		v.effects, v.verdicts = overlays.Evaluate(w.names, pools, byName(v.objects.live))
	}
	if len(before)+len(v.effects) > 0 && !reflect.DeepEqual(before, v.effects) {
		w.machines.touchAll() // their prices
	}
}

// overlaidTypes are what a pool is offered, with overlays applied and exhausted offerings marked; false if no overlay is about
// the pool.
func (w *World) overlaidTypes(pool string, now time.Time) ([]model.InstanceType, bool) {
	f := w.overlaid.effects[pool]
	if f == nil {
		return nil, false
	}
	c, ok := w.overlaid.marked[pool]
	if !ok || c.version != w.offers.version {
		c = catalog{types: f.Types, marked: w.offers.mark(f.Types, now), version: w.offers.version}
		w.overlaid.marked[pool] = c
	}
	return c.marked, true
}

// OverlayVerdicts says of each NodeOverlay what is wrong with it, as of the newest snapshot. The map is shared: do not change it.
func (w *World) OverlayVerdicts() map[string]overlays.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.overlaid.verdicts
}

// Overlaid is what overlays say of a pool's types beside the cloud, nil if nothing. It is shared: do not change it.
func (w *World) Overlaid(pool string) *overlays.Effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.overlay()
	return w.overlaid.effects[pool]
}

// OverlayAnnotations are those of a claim for one of these types of a pool, as Karpenter writes them.
func (w *World) OverlayAnnotations(pool string, types []string) map[string]string {
	f := w.Overlaid(pool)
	if f == nil {
		return nil
	}
	out, candidate := map[string]string{}, map[string]bool{}
	for _, t := range types {
		candidate[t] = true
		if _, more := f.Capacity[t]; more {
			out[v1alpha1.CapacityOverlayAppliedAnnotationKey] = "true"
		}
	}
	for key := range f.Prices {
		if candidate[key.Type] {
			out[v1alpha1.PriceOverlayAppliedAnnotationKey] = "true"
		}
	}
	return out
}

// overlaidPrice is what an overlay says that a machine costs, and whether one does.
func (w *World) overlaidPrice(n *model.Node, claim *karpv1.NodeClaim) (model.Price, bool) {
	pool := n.Pool
	if claim != nil {
		pool = claim.Labels[karpv1.NodePoolLabelKey]
	}
	f := w.overlaid.effects[pool]
	if f == nil {
		return 0, false
	}
	price, ok := f.Prices[model.OfferingKey{Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType}]
	return price, ok
}
