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

// maxTypes limits the instance types that one launch names
// (github.com/aws/karpenter-provider-aws/pkg/providers/instance).
const maxTypes = 60

// maxOverrides limits the overrides of one CreateFleet (EC2 API reference, fleet quotas).
const maxOverrides = 300

// capacityOrder is the order in which capacity types are tried, one per call. Reserved capacity precedes these.
var capacityOrder = []string{model.Spot, model.OnDemand}

// choice is an offering that satisfies a request.
type choice struct {
	model.OfferingKey
	price model.Price
	tie   int    // orders choices of the same price: by type, then by zoneOrder
	from  source // of the capacity type reserved
}

// choices returns the offerings that satisfy a request, cheapest first, ties by type and zoneOrder. It omits GPU,
// accelerator and bare-metal instances if others remain, and spot that costs more than the cheapest on-demand.
func (c *classCatalog) choices(req *cloud.LaunchRequest) []choice {
	var plain, rare []*model.InstanceType
	for _, t := range c.candidates(req) {
		if specialized(t) {
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

// offered returns the offerings of types, which are sorted by name, that a request allows.
func (c *classCatalog) offered(types []*model.InstanceType, req *cloud.LaunchRequest) []choice {
	size := 0
	for _, t := range types {
		size += len(t.Offerings)
	}
	out := make([]choice, 0, size)
	allowed, order := placementOf(req.Requirements), zoneOrder(req.Token, c.zoneIDs)
	for n, t := range types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			key := model.OfferingKey{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}
			if o.Available && !req.Unavailable[key] && allowed.allow(o, c.zoneIDs[o.Zone]) {
				price := o.Price
				if other, ok := req.Prices[key]; ok {
					price = other
				}
				out = append(out, choice{OfferingKey: key, price: price, tie: n*len(order) + order[o.Zone]})
			}
		}
	}
	return out
}

// zoneOrder numbers zones from 0 in an order derived from the token: instances spread over zones of the same price,
// so that the loss of one zone is not the loss of all. A token has the same order after a restart, so that its calls
// are the same; a zone that disappears does not change the order of the others.
func zoneOrder(token string, zones map[string]string) map[string]int {
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

// candidates returns the types that satisfy a request, regardless of zone and capacity type.
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

// placement holds a request's requirements on zone and capacity type; missing ones allow everything.
type placement struct{ zone, zoneID, capacityType model.Requirement }

func placementOf(rs model.Requirements) placement {
	get := func(key string) model.Requirement {
		if r, ok := rs.Get(key); ok {
			return r
		}
		return model.Requirement{Key: key, Complement: true}
	}
	return placement{get(model.LabelZone), get(ec2v1.LabelTopologyZoneID), get(model.LabelCapacityType)}
}

func (p placement) allow(o *model.Offering, zoneID string) bool {
	return p.capacityType.Has(o.CapacityType) && p.zone.Has(o.Zone) && p.zoneID.Has(zoneID)
}

// specialized reports whether a type is expensive and scarce, and thus only for pods that need it.
func specialized(t *model.InstanceType) bool {
	for _, i := range []int{model.NvidiaGPU, model.AMDGPU, model.Neuron, model.NeuronCore, model.Gaudi} {
		if t.Capacity[i] > 0 {
			return true
		}
	}
	_, size, _ := strings.Cut(t.Name, ".")
	return strings.HasPrefix(size, "metal")
}

// closeInPrice returns the choices that cost at most a tenth more than the first. EC2 weighs free capacity before the
// priorities in a call. So a call with prices of our own, which EC2 does not know, names only such choices.
func closeInPrice(choices []choice) []choice {
	for i, o := range choices {
		if o.price > choices[0].price+choices[0].price/10 {
			return choices[:i]
		}
	}
	return choices
}

// nextChoices returns the choices that the next call names: the untried ones of the first capacity type that has any,
// limited to its cheapest types.
func nextChoices(choices []choice, tried map[model.OfferingKey]bool) []choice {
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
