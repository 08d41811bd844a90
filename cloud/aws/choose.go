package aws

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// maxTypes is how many instance types one launch names (karpenter.md §6.6).
const maxTypes = 60

// maxOverrides is how many overrides EC2 takes in one CreateFleet (EC2 API reference, fleet quotas).
const maxOverrides = 300

// capacityOrder is in which order capacity types are tried, one per call. Reserved capacity has no offerings yet.
var capacityOrder = []string{model.Spot, model.OnDemand}

// choice is an offering that would do.
type choice struct {
	model.OfferingKey
	price model.Price
	tie   int // which of two of the same price comes first: by type, then by the token's turn of zones
}

// choices are the offerings that satisfy a request, cheapest first, ties by type and the token's turn of zones: of
// types that hold what is asked; without GPU, accelerator and bare-metal instances if others remain; without spot that
// costs more than the cheapest on-demand.
func (c *classCatalog) choices(req *cloud.LaunchRequest) []choice {
	var plain, rare []*model.InstanceType
	for _, t := range c.candidates(req) {
		if exotic(t) {
			rare = append(rare, t)
		} else {
			plain = append(plain, t)
		}
	}
	all := c.offered(plain, req)
	if len(all) == 0 {
		all = c.offered(rare, req)
	}
	cheapest := model.Price(0)
	for _, o := range all {
		if o.CapacityType == model.OnDemand && (cheapest == 0 || o.price < cheapest) {
			cheapest = o.price
		}
	}
	all = slices.DeleteFunc(all, func(o choice) bool {
		return o.CapacityType == model.Spot && cheapest > 0 && o.price > cheapest
	})
	slices.SortFunc(all, func(a, b choice) int { return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.tie, b.tie)) })
	return all
}

// offered are the offerings of types, which are in the order of their names, that a request allows.
func (c *classCatalog) offered(types []*model.InstanceType, req *cloud.LaunchRequest) []choice {
	most := 0
	for _, t := range types {
		most += len(t.Offerings)
	}
	out := make([]choice, 0, most)
	places, turn := placesOf(req.Requirements), turns(req.Token, c.zoneIDs)
	for n, t := range types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			key := model.OfferingKey{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}
			if o.Available && !req.Unavailable[key] && places.allow(o, c.zoneIDs[o.Zone]) {
				price := o.Price
				if other, ok := req.Prices[key]; ok {
					price = other
				}
				out = append(out, choice{key, price, n*len(turn) + turn[o.Zone]})
			}
		}
	}
	return out
}

// turns order zones from 0 by a draw from the token: where zones cost the same, instances spread over them, and the
// loss of one zone is not the loss of all. The same token has the same order after a restart, so that its calls are the
// same; a zone that leaves does not change the order of the others.
func turns(token string, zones map[string]string) map[string]int {
	draws := make(map[string][sha256.Size]byte, len(zones))
	for zone := range zones {
		draws[zone] = sha256.Sum256([]byte(zone + "/" + token))
	}
	order := slices.SortedFunc(maps.Keys(zones), func(a, b string) int {
		x, y := draws[a], draws[b]
		return bytes.Compare(x[:], y[:])
	})
	out := make(map[string]int, len(order))
	for i, zone := range order {
		out[zone] = i
	}
	return out
}

// candidates are the types that satisfy a request but for zone and capacity type.
func (c *classCatalog) candidates(req *cloud.LaunchRequest) []*model.InstanceType {
	var wants model.Requirements
	for _, r := range req.Requirements {
		if c.typeKeys[r.Key] {
			wants = append(wants, r)
		}
	}
	var out []*model.InstanceType
	consider := func(t *model.InstanceType) {
		if req.Requests.Fits(t.Allocatable) && t.Requirements.Conflict(wants, nil) == "" {
			out = append(out, t)
		}
	}
	if named, ok := wants.Get(model.LabelInstanceType); ok && !named.Complement {
		for _, name := range named.Values {
			if i, ok := c.index[name]; ok {
				consider(&c.types[i])
			}
		}
		return out
	}
	for i := range c.types {
		consider(&c.types[i])
	}
	return out
}

// places are the requirements on where and how an instance runs; those that are not made hold for everything.
type places struct{ zone, zoneID, capacityType model.Requirement }

func placesOf(rs model.Requirements) places {
	get := func(key string) model.Requirement {
		if r, ok := rs.Get(key); ok {
			return r
		}
		return model.Requirement{Key: key, Complement: true}
	}
	return places{get(model.LabelZone), get(ec2v1.LabelTopologyZoneID), get(model.LabelCapacityType)}
}

func (p places) allow(o *model.Offering, zoneID string) bool {
	return p.capacityType.Has(o.CapacityType) && p.zone.Has(o.Zone) && p.zoneID.Has(zoneID)
}

// exotic instances are dear and few: they are for pods that ask for them.
func exotic(t *model.InstanceType) bool {
	for _, i := range []int{model.NvidiaGPU, model.AMDGPU, model.Neuron, model.NeuronCore, model.Gaudi} {
		if t.Capacity[i] > 0 {
			return true
		}
	}
	_, size, _ := strings.Cut(t.Name, ".")
	return strings.HasPrefix(size, "metal")
}

// near are the first choices and those that cost at most a tenth more. EC2 weighs free capacity before the priorities
// that it is given, so that of choices with prices of our own, which EC2 does not know, only such may be named
// together.
func near(choices []choice) []choice {
	for i, o := range choices {
		if o.price > choices[0].price+choices[0].price/10 {
			return choices[:i]
		}
	}
	return choices
}

// next is what the next call should name: the untried choices of the first capacity type that has any, of its cheapest
// types.
func next(choices []choice, tried map[model.OfferingKey]bool) []choice {
	for _, kind := range capacityOrder {
		var out []choice
		types := map[string]bool{}
		for _, o := range choices {
			if o.CapacityType != kind || tried[o.OfferingKey] || (!types[o.Type] && len(types) == maxTypes) {
				continue
			}
			types[o.Type] = true
			if out = append(out, o); len(out) == maxOverrides {
				break
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}
