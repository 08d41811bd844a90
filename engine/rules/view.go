package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// MaxPrice is the highest hourly price that arithmetic must handle; more expensive offerings count as this price.
const MaxPrice model.Price = 1 << 40

// Offer is an offering that a pool allows, with indices into its View.
type Offer struct {
	Zone, Capacity int
	Price          model.Price // for comparisons: see ApplyPolicy
	Real           model.Price // actual price
	Available      bool
	Dry            bool // it is not available because no subnet of its zone has the addresses: see ApplySubnets
	Refused        bool // it is not available because its nodes would have too few addresses: see ApplyPreflight
	Shifted        bool // it is not available because traffic is shifted away from its zone
}

// DaemonPorts are the host ports that a daemon occupies on nodes of some types.
type DaemonPorts struct {
	Types Bits
	Ports []model.HostPort
}

// View is a pool prepared for one call: what it allows of its types, and what daemons leave of them.
type View struct {
	Pool         *model.Pool
	Requirements model.Requirements // the pool's, with its own label
	Zones        []string
	Capacities   []string
	Offers       [][]Offer // by type: allowed ones, by zone and capacity type
	Net          []model.Resources
	Overhead     []model.Resources // what daemons request, by type
	Eligible     Bits              // types that the pool's requirements allow, with an allowed offering
	MinValues    []model.Requirement
	DaemonPorts  []DaemonPorts
	BestEffort   bool // minValues may be relaxed: see ApplyPolicy
	Enforced     bool // see ApplyPreflight

	typeKeys map[string]bool // labels that types decide: see OfTypes
	several  map[string]bool // those of several values: see chosenAtLaunch
	shifted  bool            // some of its offers are Shifted
	blamed   *blamed         // cache of blamePool
	limited  bool            // addresses limit what it offers: see ApplySubnets
	subnets  []model.Subnet
}

// NewView prepares a pool.
func NewView(p *model.Pool, daemons []model.Daemon) *View {
	v := &View{
		Pool:         p,
		Requirements: p.Requirements,
		Offers:       make([][]Offer, len(p.Types)),
		Net:          make([]model.Resources, len(p.Types)),
		Overhead:     make([]model.Resources, len(p.Types)),
		Eligible:     NewBits(len(p.Types)),
		typeKeys:     map[string]bool{},
		several:      map[string]bool{},
	}
	if _, ok := p.Requirements.Get(model.LabelPool); !ok {
		v.Requirements = p.Requirements.And(model.Requirements{model.OneOf(model.LabelPool, p.Name)})
	}
	for _, r := range v.Requirements {
		if r.MinValues > 0 {
			v.MinValues = append(v.MinValues, r)
		}
	}
	v.indexOffers()
	v.narrowTypes()
	v.addDaemons(daemons)
	return v
}

// ApplyPolicy makes the view compare offerings by the policy's effective prices and treat minValues as the policy
// says.
func (v *View) ApplyPolicy(policy *model.Policy) {
	v.BestEffort = policy.MinValues == model.BestEffort
	if policy.Preflight == model.Enforce {
		v.ApplyPreflight()
	}
	if policy.NodeFee <= 0 {
		return
	}
	for t := range v.Offers {
		for i := range v.Offers[t] {
			f := &v.Offers[t][i]
			f.Price = policy.Effective(f.Real)
		}
	}
}

func (v *View) indexOffers() {
	zone, hasZone := v.Requirements.Get(model.LabelZone)
	capacity, hasCapacity := v.Requirements.Get(model.LabelCapacityType)
	zones, capacities := map[string]int{}, map[string]int{}
	index := func(names *[]string, seen map[string]int, r model.Requirement, has bool, value string) int {
		i, ok := seen[value]
		if !ok {
			i = -1
			if !has || r.Has(value) {
				i = len(*names)
				*names = append(*names, value)
			}
			seen[value] = i
		}
		return i
	}
	for t := range v.Pool.Types {
		offerings := v.Pool.Types[t].Offerings
		offers := make([]Offer, 0, len(offerings))
		for _, o := range offerings {
			z := index(&v.Zones, zones, zone, hasZone, o.Zone)
			c := index(&v.Capacities, capacities, capacity, hasCapacity, o.CapacityType)
			if z >= 0 && c >= 0 {
				price := min(max(o.Price, 0), MaxPrice)
				offers = append(offers, Offer{
					Zone: z, Capacity: c, Price: price, Real: price, Available: o.Available, Shifted: o.Shifted,
				})
				v.shifted = v.shifted || o.Shifted
			}
		}
		v.Offers[t] = offers
	}
}

func (v *View) narrowTypes() {
	for t := range v.Pool.Types {
		ok := len(v.Offers[t]) > 0
		for i := 0; ok && i < len(v.Requirements); i++ {
			ok = v.TypeAllows(t, v.Requirements[i])
		}
		if ok {
			v.Eligible.Set(t)
		}
	}
}

// OfTypes reports whether the instance type decides the label: some type of the pool has it, so that a type without
// it makes nodes without it.
func (v *View) OfTypes(key string) bool {
	if key == model.LabelInstanceType {
		return true
	}
	if ofOffering(key) || key == model.LabelPool {
		return false
	}
	known, ok := v.typeKeys[key]
	if !ok {
		known = slices.ContainsFunc(v.Pool.Types, func(t model.InstanceType) bool {
			_, has := t.Requirements.Get(key)
			return has
		})
		v.typeKeys[key] = known
	}
	return known
}

// ofOffering reports whether the offering decides the label.
func ofOffering(key string) bool { return key == model.LabelZone || key == model.LabelCapacityType }

// TypeAllows reports whether nodes of type t can satisfy the requirement. Labels that types do not decide always can.
func (v *View) TypeAllows(t int, want model.Requirement) bool {
	if !v.OfTypes(want.Key) {
		return true
	}
	have, ok := TypeLabel(&v.Pool.Types[t], want.Key)
	if !ok {
		return want.AllowsAbsence()
	}
	if len(have.Values) != 1 || have.Complement {
		if of, ok := v.Requirements.Get(want.Key); ok {
			have = have.And(of)
		}
	}
	return have.Overlaps(want)
}

// TypeLabel returns what an instance type says about a label, and whether it says anything. The instance type label
// defaults to the name of the type.
func TypeLabel(t *model.InstanceType, key string) (model.Requirement, bool) {
	r, ok := t.Requirements.Get(key)
	if !ok && key == model.LabelInstanceType {
		return model.Requirement{Key: key, Values: []string{t.Name}}, true
	}
	return r, ok
}

// Candidate returns an offering of type t at its real price.
func (v *View) Candidate(t int, o *Offer) model.Candidate {
	return model.Candidate{Price: o.Real, OfferingKey: model.OfferingKey{
		Type: v.Pool.Types[t].Name, Zone: v.Zones[o.Zone], CapacityType: v.Capacities[o.Capacity],
	}}
}
