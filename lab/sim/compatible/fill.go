package compatible

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/nodeless/nodeless/engine/model"
)

// dims are the resources taken into account.
var dims = [...]int{model.CPU, model.Memory, model.Pods, model.NvidiaGPU}

type vector [len(dims)]int64

func vectorOf(r *model.Resources) (v vector) {
	for i, d := range dims {
		v[i] = r[d]
	}
	return v
}

func (v vector) plus(o vector) vector {
	for i := range v {
		v[i] += o[i]
	}
	return v
}

func (v vector) minus(o vector) vector {
	for i := range v {
		v[i] -= o[i]
	}
	return v
}

// fits reports whether v can be subtracted from free. A resource that is not requested never falls short.
func (v *vector) fits(free *vector) bool {
	for i := range v {
		if v[i] > free[i] && v[i] > 0 {
			return false
		}
	}
	return true
}

// offer is a type with its cheapest offering.
type offer struct {
	typ   *model.InstanceType
	at    *model.Offering
	net   vector // for pods: allocatable less daemons
	price model.Price
}

// offersOf returns the pool's available types, cheapest first.
func offersOf(p *model.Pool, daemons vector) []offer {
	var out []offer
	for i := range p.Types {
		t := &p.Types[i]
		var best *model.Offering
		for k := range t.Offerings {
			if o := &t.Offerings[k]; o.Available && (best == nil || o.Price < best.Price) {
				best = o
			}
		}
		if best == nil {
			continue
		}
		out = append(out, offer{typ: t, at: best, net: vectorOf(&t.Allocatable).minus(daemons), price: best.Price})
	}
	slices.SortFunc(out, func(a, b offer) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.typ.Name, b.typ.Name))
	})
	return out
}

// market holds the offers of a pool. The latest one is cached, since a simulation needs the same one again and again.
type market struct {
	types   *model.InstanceType
	count   int
	daemons vector
	offers  []offer
}

var (
	lastMarket market
	marketLock sync.Mutex
)

func marketOf(s *model.Snapshot) []offer {
	if len(s.Pools) == 0 || len(s.Pools[0].Types) == 0 {
		return nil
	}
	p := &s.Pools[0]
	marketLock.Lock()
	defer marketLock.Unlock()
	var daemons vector
	for i := range s.Daemons {
		daemons = daemons.plus(vectorOf(&s.Daemons[i].Shape.Requests))
	}
	if m := &lastMarket; m.types != &p.Types[0] || m.count != len(p.Types) || m.daemons != daemons {
		lastMarket = market{types: &p.Types[0], count: len(p.Types), daemons: daemons, offers: offersOf(p, daemons)}
	}
	return lastMarket.offers
}

// item is a pod that needs a node.
type item struct {
	key  model.PodKey
	ask  vector
	at   int64 // created
	from string
}

// claim is a planned node.
type claim struct {
	load  vector
	types []int32 // indices of the offers that fit the load, cheapest first
	pods  []int32 // items
}

// filling packs items onto nodes and claims.
type filling struct {
	offers []offer
	nodes  []room
	claims []*claim
	places []int32 // by item: index of the node, -1 if none
	none   []int32 // items that fit nowhere
}

// room is the free capacity of a node.
type room struct {
	name string
	free vector
	// inFlight means that the node is not ready yet.
	inFlight bool
}

// fill assigns each item to a node or claim: largest CPU first, then largest memory, then oldest.
func fill(offers []offer, nodes []room, items []item) *filling {
	f := &filling{offers: offers, nodes: nodes, places: make([]int32, len(items))}
	order := make([]int32, len(items))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := &items[a], &items[b]
		return cmp.Or(cmp.Compare(y.ask[0], x.ask[0]), cmp.Compare(y.ask[1], x.ask[1]), cmp.Compare(x.at, y.at),
			cmp.Compare(x.key.Name, y.key.Name))
	})
	for _, i := range order {
		f.places[i] = -1
		if !f.onNode(i, &items[i]) && !f.onClaim(i, &items[i]) {
			f.none = append(f.none, i)
		}
	}
	return f
}

func (f *filling) onNode(i int32, it *item) bool {
	for n := range f.nodes {
		if it.ask.fits(&f.nodes[n].free) {
			f.nodes[n].free = f.nodes[n].free.minus(it.ask)
			f.places[i] = int32(n)
			return true
		}
	}
	return false
}

// onClaim adds the item to the claim with the fewest pods that has a type for both, else to a new claim.
func (f *filling) onClaim(i int32, it *item) bool {
	slices.SortStableFunc(f.claims, func(a, b *claim) int { return cmp.Compare(len(a.pods), len(b.pods)) })
	for _, c := range f.claims {
		if f.grow(c, i, it) {
			return true
		}
	}
	all := make([]int32, len(f.offers))
	for k := range all {
		all[k] = int32(k)
	}
	c := &claim{types: all}
	if !f.grow(c, i, it) {
		return false
	}
	f.claims = append(f.claims, c)
	return true
}

func (f *filling) grow(c *claim, i int32, it *item) bool {
	load := c.load.plus(it.ask)
	holds := func(k int32) bool { return load.fits(&f.offers[k].net) }
	if !slices.ContainsFunc(c.types, holds) {
		return false
	}
	c.types = slices.DeleteFunc(c.types, func(k int32) bool { return !holds(k) })
	c.load, c.pods = load, append(c.pods, i)
	return true
}

// maxTypes is the maximum number of types in a launch.
const maxTypes = 60

// launch returns the claim as a launch of the cheapest type that fits it.
func (f *filling) launch(c *claim, items []item, pool *model.Pool) model.Launch {
	best := &f.offers[c.types[0]]
	l := model.Launch{
		Pool: pool.Name, Requirements: pool.Requirements,
		Chosen: model.Candidate{OfferingKey: model.OfferingKey{
			Type: best.typ.Name, Zone: best.at.Zone,
			CapacityType: best.at.CapacityType,
		}, Price: best.price},
	}
	for _, k := range c.types[:min(len(c.types), maxTypes)] {
		l.Types = append(l.Types, f.offers[k].typ.Name)
	}
	for _, i := range c.pods {
		l.Pods = append(l.Pods, items[i].key)
	}
	l.ID = fmt.Sprintf("%s for %s and %d more", best.typ.Name, l.Pods[0].Name, len(l.Pods)-1)
	return l
}
