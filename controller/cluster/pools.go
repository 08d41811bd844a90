package cluster

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// catalog is what a node class offers.
type catalog struct {
	types    []model.InstanceType
	notReady string

	marked  []model.InstanceType // with exhausted offerings marked
	version int                  // of offerings; 0 = not marked yet
}

// usage is what a pool's machines add up to.
type usage struct {
	resources       model.Resources
	nodes           int64
	budgeted, going int
}

func (w *World) updatePool(o *karpv1.NodePool, now time.Time) {
	old := w.pools.live[keyOf(o)]
	if w.pools.put(o, now) && (old == nil || poolMatters(old, o)) {
		delete(w.failing, o.Name) // it is another one now
		w.overlaid.stale = true
		w.poke()
	}
}

func (w *World) updateDaemonSet(o *appsv1.DaemonSet, now time.Time) {
	old := w.daemonSets.live[keyOf(o)]
	if w.daemonSets.put(o, now) && (old == nil || old.UID != o.UID || old.Generation != o.Generation || o.Generation == 0) {
		w.daemonsChanged()
	}
}

// daemonsChanged makes every machine count the daemons to come again.
func (w *World) daemonsChanged() {
	w.out.daemons = w.out.daemons[:0:0]
	for _, ds := range w.daemonSets.live {
		if ds.DeletionTimestamp == nil {
			w.out.daemons = append(w.out.daemons, w.names.Daemon(ds, w.limitRangesOf(ds.Namespace)))
		}
	}
	slices.SortFunc(w.out.daemons, func(a, b model.Daemon) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for node := range w.machines.nodes {
		w.machines.touchPods(node)
	}
	for _, m := range w.machines.flying {
		m.stalePods, w.machines.stale = true, true
	}
	w.poke()
}

func (w *World) updateLimitRange(o *corev1.LimitRange, now time.Time) {
	if w.limitRanges.put(o, now) {
		w.daemonsChanged()
	}
}

// limitRangesOf are a namespace's, by name: the first that says something is the one that counts.
func (w *World) limitRangesOf(namespace string) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for _, r := range w.limitRanges.live {
		if r.Namespace == namespace {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// price finds what a machine costs by an overlay, else in the catalog of its claim's node class, else of its pool's; 0 if unknown.
func (w *World) price(n *model.Node, claim *karpv1.NodeClaim) model.Price {
	if price, other := w.overlaidPrice(n, claim); other {
		return price
	}
	var class cloud.ClassRef
	if claim != nil {
		class = translate.ClassRef(claim.Spec.NodeClassRef)
	} else if np := w.pools.live[clusterKey(n.Pool)]; np != nil {
		class = translate.ClassRef(np.Spec.Template.Spec.NodeClassRef)
	}
	types := w.catalogs[class].types
	i, ok := slices.BinarySearchFunc(types, n.Type, func(t model.InstanceType, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return 0
	}
	for _, o := range types[i].Offerings {
		if o.Zone == n.Zone && o.CapacityType == n.CapacityType {
			return o.Price
		}
	}
	return 0
}

// renderPools translates the pools with what their machines add up to.
func (w *World) renderPools(now time.Time) []model.Pool {
	w.offers.tick(now)
	out := make([]model.Pool, 0, len(w.pools.live))
	for _, np := range w.pools.live {
		class := translate.ClassRef(np.Spec.Template.Spec.NodeClassRef)
		c, known := w.catalogs[class]
		notReady := c.notReady
		if !known {
			notReady = "its node class " + class.Name + " is not known yet"
		}
		if known && (c.marked == nil || c.version != w.offers.version) {
			c.marked, c.version = w.offers.mark(c.types, now), w.offers.version
			w.catalogs[class] = c
		}
		if notReady == "" {
			notReady = w.backsOff(np, class, now)
		}
		types, other := w.overlaidTypes(np.Name, now)
		if !other {
			types = c.marked
		}
		u := w.out.usage[np.Name]
		p, _ := w.names.Pool(np, translate.PoolState{
			Now: now, Types: types, NotReady: notReady, Usage: u.resources, Nodes: u.nodes, Budgeted: u.budgeted, Going: u.going,
		}) // a pool that cannot be translated says so in NotReady
		if p.Static && w.noStatic {
			p.NotReady = "spec.replicas is set, but the feature gate StaticCapacity is off"
			p.Replicas = max(p.Replicas, p.NodeCount)
		}
		if w.rests(np.Name, now) {
			p.Disruption.AllowedDrifted, p.Disruption.AllowedUnderused = 0, 0
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b model.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name))
	})
	return out
}
