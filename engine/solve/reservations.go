package solve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// reservedNode is an instance of a capacity reservation as a node in flight that a plan may fill.
type reservedNode struct {
	node        model.Node
	reservation *model.Reservation
	typ         *model.InstanceType
}

// withReservations returns the cluster with free instances of capacity reservations added as nodes in flight. It adds
// those that pending pods use if they are offered them before any purchase, since they are already paid for. It
// respects the limits of pools and the free instances of reservations; heavier pools choose first, and the instances
// that their limits refuse are left to others. None is used for pods that only templates tell of. The second result is
// these nodes.
func withReservations(s *model.Snapshot, policy model.Policy) (*model.Snapshot, []reservedNode) {
	all := reservedNodes(s, &policy)
	if len(all) == 0 {
		return s, nil
	}
	uncertain := s.FromTemplates()
	for {
		used := map[string]bool{}
		for _, p := range Placements(withNodes(s, all), policy) {
			used[p.Node] = used[p.Node] || !uncertain[p.Pod]
		}
		chosen := slices.DeleteFunc(slices.Clone(all), func(x reservedNode) bool { return !used[x.node.Name] })
		left := *s
		left.Pools, left.Subnets = slices.Clone(s.Pools), slices.Clone(s.Subnets)
		allowed := allowedNodes(&left, slices.Clone(chosen))
		switch {
		case len(chosen) == 0:
			return s, nil
		case len(allowed) == len(chosen):
			return withNodes(&left, allowed), allowed
		}
		all = withoutRefused(all, chosen, allowed)
	}
}

// withoutRefused returns the nodes less those that were chosen but not allowed. It removes all others of the same pool
// and reservation too, except the allowed ones: the same would refuse them.
func withoutRefused(all, chosen, allowed []reservedNode) []reservedNode {
	type kind struct{ pool, reservation string }
	kindOf := func(x *reservedNode) kind { return kind{x.node.Pool, x.reservation.ID} }
	keep, refused := map[string]bool{}, map[kind]bool{}
	for i := range allowed {
		keep[allowed[i].node.Name] = true
	}
	for i := range chosen {
		if !keep[chosen[i].node.Name] {
			refused[kindOf(&chosen[i])] = true
		}
	}
	return slices.DeleteFunc(all, func(x reservedNode) bool { return refused[kindOf(&x)] && !keep[x.node.Name] })
}

// withNodes returns the snapshot with these nodes, whose names sort last.
func withNodes(s *model.Snapshot, more []reservedNode) *model.Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for i := range more {
		out.Nodes = append(out.Nodes, more[i].node)
	}
	return &out
}

// reservedNodes returns, for each pool and reservation, as many nodes as there are free instances, but no more than
// pending pods. Their names sort after all others, in the order in which the nodes are to be filled: those of the
// heaviest pool first, then the cheapest on demand, so that large instances are left to the pods that need them.
func reservedNodes(s *model.Snapshot, policy *model.Policy) []reservedNode {
	var out []reservedNode
	for i := range s.Pools {
		p := &s.Pools[i]
		free := slices.ContainsFunc(p.Reservations, func(r model.Reservation) bool { return r.Free > 0 })
		if p.NotReady != "" || p.Static || !free || len(s.Pending) == 0 {
			continue
		}
		v := rules.NewView(p, s.Daemons)
		v.ApplyPolicy(policy)
		if rules.SeveralValues(v) != nil {
			continue // a reservation is of one type
		}
		labels := customLabels(v, s)
		for _, r := range bySize(p) {
			for _, own := range labels {
				x, ok := reservedNodeOf(v, r, own)
				if !ok {
					continue
				}
				for range min(r.Free, int64(len(s.Pending))) {
					x.node.Name = fmt.Sprintf("~%06d reserved %s", len(out), r.ID)
					x.node.Claim = x.node.Name
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// maxCustomLabels bounds the result of customLabels.
const maxCustomLabels = 8

// customLabels returns the labels that pending pods require and the pool leaves open, each with one value, in the order
// of the pods; at last none. A pod fits a node in flight only if it fits all values that a label may have.
func customLabels(v *rules.View, s *model.Snapshot) []model.Requirements {
	var out []model.Requirements
	shapes, known := map[int]bool{}, map[string]bool{"": true}
	for i := range s.Pending {
		shape := s.Pending[i].Shape
		if shapes[shape] {
			continue
		}
		shapes[shape] = true
		for _, wants := range rules.Alternatives(s.Shapes[shape].Required, s.Shapes[shape].AnyOf) {
			var own model.Requirements
			for _, w := range wants {
				have, ok := v.Requirements.Get(w.Key)
				if ok && !have.SubsetOf(w) && w.Key != model.LabelZone && w.Key != model.LabelCapacityType && !v.OfTypes(w.Key) {
					own = append(own, oneValue(v, have.And(w)))
				}
			}
			impossible := slices.ContainsFunc(own, model.Requirement.Impossible)
			if key := own.String(); !impossible && !known[key] && len(out) < maxCustomLabels {
				known[key] = true
				out = append(out, own)
			}
		}
	}
	return append(out, nil)
}

// bySize returns the pool's reservations by what their types cost on demand, then ID.
func bySize(p *model.Pool) []*model.Reservation {
	out := make([]*model.Reservation, len(p.Reservations))
	dearness := map[*model.Reservation]model.Price{}
	for i := range p.Reservations {
		r := &p.Reservations[i]
		out[i] = r
		t := slices.IndexFunc(p.Types, func(t model.InstanceType) bool { return t.Name == r.Type })
		for k := 0; t >= 0 && k < len(p.Types[t].Offerings); k++ {
			if o := &p.Types[t].Offerings[k]; o.CapacityType == model.OnDemand {
				dearness[r] = max(dearness[r], o.Price)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *model.Reservation) int {
		return cmp.Or(cmp.Compare(dearness[a], dearness[b]), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// reservedNodeOf returns a node of the reservation in the pool with these labels of its own, if the pool allows it and
// its daemons fit.
func reservedNodeOf(v *rules.View, r *model.Reservation, own model.Requirements) (x reservedNode, ok bool) {
	t := slices.IndexFunc(v.Pool.Types, func(t model.InstanceType) bool { return t.Name == r.Type })
	if t < 0 || !v.Overhead[t].Fits(v.Pool.Types[t].Allocatable) {
		return x, false
	}
	at := slices.IndexFunc(v.Offers[t], func(f rules.Offer) bool {
		return v.Zones[f.Zone] == r.Zone && v.Capacities[f.Capacity] == model.Reserved && !f.Refused
	})
	if at < 0 || slices.ContainsFunc(v.Requirements, func(want model.Requirement) bool {
		have, ok := r.Labels.Get(want.Key)
		return ok && !have.Overlaps(want) || !ok && !v.TypeAllows(t, want)
	}) {
		return x, false
	}
	labels := model.NewRequirements(model.OneOf(model.LabelInstanceType, r.Type), model.OneOf(model.LabelZone, r.Zone),
		model.OneOf(model.LabelCapacityType, model.Reserved)).And(r.Labels).And(v.Requirements).And(own)
	x = reservedNode{reservation: r, typ: &v.Pool.Types[t]}
	x.node = model.Node{
		Pool: v.Pool.Name, Type: r.Type, Zone: r.Zone, CapacityType: model.Reserved, State: model.InFlight,
		Labels: labels, Taints: v.Pool.Taints, Price: v.Offers[t][at].Real, AttachLimits: v.Pool.Types[t].AttachLimits,
		Capacity: v.Pool.Types[t].Capacity, Allocatable: v.Pool.Types[t].Allocatable, Used: v.Overhead[t],
		DaemonPorts: rules.PortsOfDaemons(v, t), Unlaunched: true,
	}
	return x, true
}

// allowedNodes returns the nodes, in order, that the limits of their pools, the free addresses of subnets and the
// reservations' free instances allow together, and charges them to the snapshot's Pools, their reservations, and
// Subnets. A node is charged the addresses that it takes when it is full.
func allowedNodes(s *model.Snapshot, all []reservedNode) []reservedNode {
	taken := map[string]int64{}
	allowed := slices.DeleteFunc(all, func(x reservedNode) bool {
		p := s.Pool(x.node.Pool)
		room := (&rules.View{Pool: p}).Headroom()
		subnet, addresses := rules.MostFree(p, x.node.Zone, s.Subnets), x.typ.AddressesFor(x.typ.Allocatable[model.Pods])
		if taken[x.reservation.ID] >= x.reservation.Free || !room.Allows(&p.Limits, &x.node.Capacity) ||
			p.Subnets != nil && (subnet < 0 || s.Subnets[subnet].FreeFor(x.typ) < addresses) {
			return true
		}
		taken[x.reservation.ID]++
		p.Usage = p.Usage.Plus(x.node.Capacity.NonNegative())
		p.NodeCount = max(p.NodeCount, 0) + 1
		if p.Subnets != nil {
			s.Subnets[subnet].Free -= addresses
		}
		return false
	})
	for i := range s.Pools {
		s.Pools[i].Reservations = slices.Clone(s.Pools[i].Reservations)
		for k := range s.Pools[i].Reservations {
			r := &s.Pools[i].Reservations[k]
			r.Free -= taken[r.ID]
		}
	}
	return allowed
}

// launch returns the launch of the node, without pods.
func (x *reservedNode) launch() model.Launch {
	return model.Launch{
		Pool: x.node.Pool, Requirements: x.node.Labels, Types: []string{x.node.Type}, Requests: x.node.Used,
		Chosen: model.Candidate{Price: x.node.Price, OfferingKey: model.OfferingKey{
			Type: x.node.Type, Zone: x.node.Zone, CapacityType: x.node.CapacityType,
		}},
	}
}

// launchReserved turns placements on these nodes into launches. Nodes without pods are dropped.
func (d *Draft) launchReserved(s *model.Snapshot, policy model.Policy, nodes []reservedNode) {
	if len(nodes) == 0 {
		return
	}
	byName, shapes := map[string]int{}, map[model.PodKey]int{}
	launches := make([]model.Launch, len(nodes))
	for i := range nodes {
		byName[nodes[i].node.Name] = i
		launches[i] = nodes[i].launch()
	}
	for i := range s.Pending {
		shapes[s.Pending[i].PodKey] = s.Pending[i].Shape
	}
	d.Plan.Placements = slices.DeleteFunc(d.Plan.Placements, func(p model.Placement) bool {
		i, reserved := byName[p.Node]
		if reserved {
			launches[i].Pods = append(launches[i].Pods, p.Pod)
			launches[i].Requests = launches[i].Requests.Plus(s.Shapes[shapes[p.Pod]].Requests.NonNegative())
		}
		return reserved
	})
	launches = slices.DeleteFunc(launches, func(l model.Launch) bool { return len(l.Pods) == 0 })
	for i := range launches {
		launches[i].ID = digest(identityOf(&launches[i]), launches[i].Pods)
	}
	addLaunches(&d.Plan, policy, launches)
}
