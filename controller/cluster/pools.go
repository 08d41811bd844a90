package cluster

import (
	"cmp"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// catalog is what a node class offers.
type catalog struct {
	given    []model.InstanceType
	types    []model.InstanceType // given with what complete adds
	notReady string
	stale    bool // the class has changed since: see ClassChanged

	marked  []model.InstanceType // with exhausted offerings marked
	version int                  // of offerings; 0 = not marked yet
}

// pools are the NodePools with what they may launch now.
type pools struct {
	*hub
	objects      *objects
	nodes        *nodes
	names        *translate.Names
	catalogs     map[cloud.ClassRef]catalog
	reservations map[cloud.ClassRef]reservations
	groups       map[cloud.ClassRef]imposed
	placements   map[cloud.ClassRef]model.Requirements
	offerings    *offerings
	failures     *failures
	pauses       *pauses
	overlaid     *overlaid
	subnets      *subnets
	devices      *devices
	noStatic     bool
}

// usage sums up the nodes of a pool.
type usage struct {
	resources       model.Resources
	nodes           int64
	budgeted, going int
}

func (pl *pools) poolChanged(o *karpv1.NodePool) {
	delete(pl.failures.byPool, o.Name) // its next launch may succeed
	pl.overlaid.invalidate()
}

// price returns the price of a node from an overlay, else from the catalogue of its claim's node class, else of its
// pool's; 0 if unknown.
func (pl *pools) price(n *model.Node, claim *karpv1.NodeClaim) model.Price {
	if price, other := pl.overlaid.overlaidPrice(n, claim); other {
		return price
	}
	var class cloud.ClassRef
	if claim != nil {
		class = ClassRef(claim.Spec.NodeClassRef)
	} else if np := pl.objects.pools.live[clusterKey(n.Pool)]; np != nil {
		class = ClassRef(np.Spec.Template.Spec.NodeClassRef)
	}
	types := pl.catalogs[class].types
	i, ok := slices.BinarySearchFunc(types, n.Type,
		func(t model.InstanceType, name string) int { return cmp.Compare(t.Name, name) })
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

// renderPools translates the pools with the usage of their nodes.
func (pl *pools) renderPools(use map[string]usage, now time.Time) []model.Pool {
	pl.offerings.tick(now)
	out := make([]model.Pool, 0, len(pl.objects.pools.live))
	for _, np := range pl.objects.pools.live {
		class := ClassRef(np.Spec.Template.Spec.NodeClassRef)
		c, known := pl.catalogs[class]
		notReady := c.notReady
		if !known {
			notReady = "its node class " + class.Name + " is not known yet"
		}
		if known && (c.marked == nil || c.version != pl.offerings.version) {
			c.marked, c.version = pl.offerings.mark(class, c.types, now), pl.offerings.version
			pl.catalogs[class] = c
		}
		if notReady == "" && c.stale {
			notReady = "its node class " + class.Name + " has changed, and what it offers now is not known yet"
		}
		network, lacks := pl.subnets.networkOf(np)
		notReady = cmp.Or(notReady, lacks, pl.subnets.windows.lacks(c.types))
		if notReady == "" {
			notReady = pl.failures.backsOff(np, class, now)
		}
		types, other := pl.overlaid.overlaidTypes(np.Name, class, now)
		if !other {
			types = c.marked
		}
		u := use[np.Name]
		p, _ := pl.names.Pool(np, translate.PoolState{
			Now: now, Types: types, NotReady: notReady, Usage: u.resources, Nodes: u.nodes, Budgeted: u.budgeted, Going: u.going,
		}) // a pool that cannot be translated says so in NotReady
		if off := pl.StaticOff(np); off != "" {
			p.NotReady = off
			p.Replicas = max(p.Replicas, p.NodeCount)
		}
		pl.impose(&p, class)
		p.Subnets, p.Reservations, p.Unread = network, pl.free(class), !known
		if pl.pauses.rests(np.Name, now) {
			p.Disruption.AllowedDrifted, p.Disruption.AllowedUnderused = 0, 0
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b model.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// StaticOff says why a pool with spec.replicas neither gains nor loses nodes; "" if that is not so.
func (pl *pools) StaticOff(np *karpv1.NodePool) string {
	if np.Spec.Replicas == nil || !pl.noStatic {
		return ""
	}
	return "spec.replicas is set, but the feature gate StaticCapacity is off"
}

// ClassRef names the node class of a NodePool's template or of a NodeClaim; the zero value if there is none.
func ClassRef(ref *karpv1.NodeClassReference) cloud.ClassRef {
	if ref == nil {
		return cloud.ClassRef{}
	}
	return cloud.ClassRef{Group: ref.Group, Kind: ref.Kind, Name: ref.Name}
}

// SetCatalog sets what a node class offers. notReady says why the class is not ready, "" if it is; pods that wait for
// it are shown the reason. The slice is kept: do not change it.
func (pl *pools) SetCatalog(class cloud.ClassRef, types []model.InstanceType, notReady string) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	old, known := pl.catalogs[class]
	if known && !old.stale && old.notReady == notReady && sameSlice(old.given, types) {
		return
	}
	pl.catalogs[class] = catalog{
		given: types, types: pl.complete(class, types), notReady: notReady,
	}
	pl.nodes.touchAll()
	pl.overlaid.invalidate()
}

// complete adds what a class's types have beside its catalogue: capacity reservations, the resources of a group,
// devices, and what nodes take from subnets.
func (pl *pools) complete(class cloud.ClassRef, given []model.InstanceType) []model.InstanceType {
	types := pl.equip(class, model.WithReserved(given, pl.reservations[class].list))
	return pl.subnets.address(class, pl.devices.expect(types))
}

// recomplete recomputes what complete adds to the types of a class whose reservations or group have changed.
func (pl *pools) recomplete(class cloud.ClassRef) {
	if c, known := pl.catalogs[class]; known {
		c.types, c.marked = pl.complete(class, c.given), nil
		pl.catalogs[class] = c
	}
	pl.nodes.touchAll()
	pl.overlaid.invalidate()
}

// readdress recomputes what complete adds to the types, such as devices and addresses.
func (pl *pools) readdress() {
	for class, c := range pl.catalogs {
		c.types, c.marked = pl.complete(class, c.given), nil
		pl.catalogs[class] = c
	}
	pl.overlaid.invalidate()
}
