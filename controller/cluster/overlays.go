package cluster

import (
	"reflect"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// overlaid is the effect of NodeOverlays on pools. It is evaluated anew when an overlay, a pool or a catalogue
// changes.
type overlaid struct {
	*hub
	objects   *objects
	nodes     *nodes
	names     *translate.Names
	catalogs  map[cloud.ClassRef]catalog
	offerings *offerings

	known    table[*v1alpha1.NodeOverlay]
	stale    bool
	effects  map[string]*OverlayEffect // by pool
	marked   map[string]catalog        // by pool
	verdicts map[string]OverlayVerdict // by overlay
}

// invalidate makes the effects of overlays be evaluated again.
func (ov *overlaid) invalidate() {
	ov.stale = true
	ov.poke()
}

// overlay brings the effects of overlays up to date.
func (ov *overlaid) overlay() {
	if !ov.stale {
		return
	}
	ov.stale = false
	before := ov.effects
	ov.effects, ov.verdicts, ov.marked = nil, nil, map[string]catalog{}
	if len(ov.known.live) > 0 {
		var pools []overlaidPool
		for _, np := range ov.objects.pools.byName() {
			if c, ok := ov.catalogs[ClassRef(np.Spec.Template.Spec.NodeClassRef)]; ok {
				pools = append(pools, overlaidPool{Name: np.Name, Labels: np.Spec.Template.Labels, Types: c.types})
			}
		}
		ov.effects, ov.verdicts = evaluateOverlays(ov.names, pools, ov.known.byName())
	}
	if len(before)+len(ov.effects) > 0 && !reflect.DeepEqual(before, ov.effects) {
		ov.nodes.touchAll() // their prices may have changed
	}
}

// overlaidTypes returns the types that a pool of a class is offered, with overlays applied and exhausted offerings
// marked; false if no overlay applies to the pool.
func (ov *overlaid) overlaidTypes(pool string, class cloud.ClassRef, now time.Time) ([]model.InstanceType, bool) {
	f := ov.effects[pool]
	if f == nil {
		return nil, false
	}
	c, ok := ov.marked[pool]
	if !ok || c.version != ov.offerings.version {
		c = catalog{types: f.Types, marked: ov.offerings.mark(class, f.Types, now), version: ov.offerings.version}
		ov.marked[pool] = c
	}
	return c.marked, true
}

// OverlayVerdicts returns the verdict on each NodeOverlay as of the newest snapshot. The map is shared: do not change
// it.
func (ov *overlaid) OverlayVerdicts() map[string]OverlayVerdict {
	ov.mu.Lock()
	defer ov.mu.Unlock()
	return ov.verdicts
}

// Overlaid returns the effect of overlays on a pool's types, nil if there is none. It is shared: do not change it.
func (ov *overlaid) Overlaid(pool string) *OverlayEffect {
	ov.mu.Lock()
	defer ov.mu.Unlock()
	ov.overlay()
	return ov.effects[pool]
}

// OverlayAnnotations returns the annotations of a claim for one of these types of a pool, as Karpenter writes them.
func (ov *overlaid) OverlayAnnotations(pool string, types []string) map[string]string {
	f := ov.Overlaid(pool)
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

// overlaidPrice returns the price that an overlay sets for a node, and whether one does.
func (ov *overlaid) overlaidPrice(n *model.Node, claim *karpv1.NodeClaim) (model.Price, bool) {
	pool := n.Pool
	if claim != nil {
		pool = claim.Labels[karpv1.NodePoolLabelKey]
	}
	f := ov.effects[pool]
	if f == nil {
		return 0, false
	}
	price, ok := f.Prices[model.OfferingKey{Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType}]
	return price, ok
}
