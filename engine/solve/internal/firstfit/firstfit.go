// Package firstfit places pods one by one, largest first: on the first existing node that has room, else on the planned
// node with the fewest pods that can take one more, else on a new planned node of the first pool that can launch one.
// This is first-fit decreasing for vector bin packing as Karpenter v1.14 applies it
// (sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling), on integers and bit sets.
//
// A planned node is not one offering but the set of instance types that still hold its load, with the zones, capacity
// types and custom labels that its pods leave it. Each pod that joins narrows these. A pod is tried with all its
// preferences first, then with one less at a time (relaxation): each step is a variant of its shape.
//
// Invariants:
//   - What narrows never widens. A refusal that no later pod can lift is therefore final, and is remembered by variant:
//     in variant.nodes for existing nodes and in variant.refused for planned ones.
//   - The State sees every pod that goes to an existing node; pods of planned nodes are counted in fleet.counts, as
//     certain where the node has one domain left, and as possible where it has several. An affinity or spread counts
//     certain pods only, an anti-affinity both.
//   - fleet.version changes whenever a count does. What a variant knows of topologies is valid for one version.
//
// Where Karpenter and kube-scheduler differ, the package does what kube-scheduler allows: one pod must match all
// affinity terms, only the first pod of a group need not be near any pod, and pods on a node whose zone is decided
// later are counted then.
package firstfit

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// ShapeCount is a number of pods of a shape.
type ShapeCount struct{ Shape, N int }

// Node is a planned node, with what it may still become.
type Node struct {
	View   int
	Shapes []ShapeCount // in the order in which they were added; a shape may occur again
	Types  rules.Bits   // that hold the load and the daemons
	rules.OfferSet
	Custom  model.Requirements // on labels that neither type nor offering decides
	Load    model.Resources    // of the pods
	Relaxed bool               // minValues need not be kept
}

// Placement says where one pending pod goes: to an existing or a planned node, the other index being -1, or to none,
// with the rule that is the reason.
type Placement struct {
	Node, Planned int
	Turn          int // pods can be bound in this order
	Rule          model.Rule
}

func refused(rule model.Rule) Placement { return Placement{Node: -1, Planned: -1, Rule: rule} }

// Packer places pods. While it is in use, nothing may be unbound from its State.
type Packer struct {
	s        *model.Snapshot
	policy   *model.Policy
	state    *rules.State
	nodes    []int // existing ones with room for some pod, in order of preference
	fleet    *fleet
	joiner   *joiner
	variants *variants
}

// New prepares a packer for the pools' views. rooms says what their limits leave.
func New(
	s *model.Snapshot, policy model.Policy, state *rules.State, views []*rules.View, rooms []rules.Headroom,
) *Packer {
	nodes, soft := state.ByReadiness()
	least := leastRequest(s)
	pools := &poolSet{state: state, rooms: slices.Clone(rooms)}
	for _, v := range views {
		pools.list = append(pools.list, newPool(v))
		soft = soft || rules.HasPreferNoSchedule(v.Pool.Taints)
	}
	p := &Packer{s: s, policy: &policy, state: state, nodes: state.WithRoom(slices.Clone(nodes), least)}
	p.fleet = newFleet(s, state, pools, least)
	p.joiner = &joiner{fleet: p.fleet}
	p.variants = &variants{
		s: s, policy: &policy, state: state, pools: pools, soft: soft, nodes: len(p.nodes),
		byShape: make([]*relaxation, len(s.Shapes)),
	}
	return p
}

// leastRequest returns the least that any pending pod requests of each resource: nodes with less take no pod.
func leastRequest(s *model.Snapshot) (least model.Resources) {
	first := true
	seen := make([]bool, len(s.Shapes))
	for i := range s.Pending {
		shape := s.Pending[i].Shape
		if shape < 0 || shape >= len(seen) || seen[shape] {
			continue
		}
		seen[shape] = true
		for r, amount := range s.Shapes[shape].Requests.NonNegative() {
			if first || amount < least[r] {
				least[r] = amount
			}
		}
		first = false
	}
	return least
}

// Place places up to n pods of the shape, one after the other. It returns their placements, and the rule that keeps
// the others unplaced.
func (p *Packer) Place(shape, n int) (places []Placement, rule model.Rule) {
	if shape < 0 || shape >= len(p.s.Shapes) {
		return nil, model.RuleUnmodelled
	}
	for range n {
		at := p.one(shape, true)
		if at.Rule != "" {
			return places, at.Rule
		}
		places = append(places, at)
	}
	return places, ""
}

// PlaceAll places all pending pods except those already placed (by index, nil for none). An unplaced pod is tried
// again as long as others get placed. The results are by index into Snapshot.Pending. Pods below the policy's
// priority cutoff use only nodes that have been launched.
func (p *Packer) PlaceAll(placed []bool) []Placement {
	out := make([]Placement, len(p.s.Pending))
	queue := slices.DeleteFunc(p.queue(), func(i int) bool { return placed != nil && placed[i] })
	turn := 0
	for {
		var left []int
		for _, i := range queue {
			if out[i] = p.placeOne(&p.s.Pending[i]); out[i].Rule != "" {
				left = append(left, i)
				continue
			}
			out[i].Turn = turn
			turn++
		}
		if len(left) == len(queue) {
			return out
		}
		queue = left
	}
}

func (p *Packer) placeOne(pod *model.Pod) Placement {
	if pod.Shape < 0 || pod.Shape >= len(p.s.Shapes) {
		return refused(model.RuleUnmodelled)
	}
	if !p.policy.LaunchesFor(pod) {
		at := p.one(pod.Shape, false)
		if at.Rule != "" {
			at.Rule = model.RulePriority
		}
		return at
	}
	return p.one(pod.Shape, true)
}

// queue returns the pending pods in the order in which they are placed: virtual ones last, then by CPU, memory and age.
func (p *Packer) queue() []int {
	out := make([]int, len(p.s.Pending))
	for i := range out {
		out[i] = i
	}
	none := model.Resources{}
	requests := func(pod *model.Pod) *model.Resources {
		if pod.Shape >= 0 && pod.Shape < len(p.s.Shapes) {
			return &p.s.Shapes[pod.Shape].Requests
		}
		return &none
	}
	slices.SortStableFunc(out, func(i, j int) int {
		a, b := &p.s.Pending[i], &p.s.Pending[j]
		if a.Virtual != b.Virtual {
			if a.Virtual {
				return 1
			}
			return -1
		}
		x, y := requests(a), requests(b)
		if d := cmp.Compare(y[model.CPU], x[model.CPU]); d != 0 {
			return d
		}
		if d := cmp.Compare(y[model.Memory], x[model.Memory]); d != 0 {
			return d
		}
		if d := a.Created.Compare(b.Created); d != 0 {
			return d
		}
		return cmp.Compare(a.UID, b.UID)
	})
	return out
}

// one places one pod, only on a node that has been launched unless launch is set.
func (p *Packer) one(shape int, launch bool) Placement {
	switch s := &p.s.Shapes[shape]; {
	case len(s.Unmodelled) > 0:
		return refused(model.RuleUnmodelled)
	case s.Blocked != "":
		return refused(model.RuleBlocked)
	case p.fleet.usedAlone(shape):
		return refused(model.RuleVolumeInUse)
	}
	steps := []func(*variant) Placement{p.toNode, p.toPlanned, p.toNew}
	switch {
	case !launch:
		return p.relax(shape, []func(*variant) Placement{p.toLaunched})
	case p.policy.Preferences != model.Priced:
		return p.relax(shape, steps)
	}
	// A priced preference is not worth a node of its own: it is kept only on existing and planned nodes.
	if at := p.relax(shape, steps[:2]); at.Rule == "" {
		return at
	}
	return p.relax(shape, steps[2:])
}

// relax tries the steps with all preferences, then with fewer and fewer.
func (p *Packer) relax(shape int, steps []func(*variant) Placement) (at Placement) {
	for i := range p.variants.of(shape).steps {
		v := p.variants.variant(shape, i)
		p.fleet.prepare(v)
		for _, step := range steps {
			if at = step(v); at.Rule == "" {
				return at
			}
		}
	}
	return at
}

// toNode takes the first existing node that allows the pod.
func (p *Packer) toNode(v *variant) Placement { return p.toExisting(v, true) }

// toLaunched is toNode without the nodes that are not launched yet.
func (p *Packer) toLaunched(v *variant) Placement { return p.toExisting(v, false) }

func (p *Packer) toExisting(v *variant, unlaunched bool) Placement {
	rule := model.RuleResource
	for i := range v.nodes.All() {
		node := p.nodes[i]
		if !unlaunched && p.state.Node(node).Unlaunched {
			continue
		}
		if p.admits(v, node) != "" {
			v.nodes.Remove(i)
			continue
		}
		if no := p.fleet.onNode(v, node); no != "" {
			rule = no
			continue
		}
		p.state.Bind(v.shape, node)
		if len(p.state.PodCounters(v.shape)) > 0 || len(p.state.OwnerCounters(v.shape)) > 0 {
			p.fleet.version++
		}
		return Placement{Node: node, Planned: -1}
	}
	return refused(rule)
}

// admits returns the rule by which the node itself refuses the variant; a refusal is final.
func (p *Packer) admits(v *variant, node int) model.Rule {
	if rule := p.state.Admits(v.shape, node); rule != "" {
		return rule
	}
	n := p.state.Node(node)
	if len(n.Taints) > 0 && !v.toleratesSoft(n.Taints) {
		return model.RuleTaint
	}
	satisfied := func(w model.Requirements) bool { return p.state.Satisfies(node, w) }
	if v.wants != nil && !slices.ContainsFunc(v.wants, satisfied) {
		return model.RuleRequirement
	}
	return ""
}

// toPlanned takes the planned node with the fewest pods that can take one more.
func (p *Packer) toPlanned(v *variant) Placement {
	if v.dead {
		return refused(v.topologyRule())
	}
	f, rule := p.fleet, model.RuleResource
	for len(v.refused)*64 < len(f.nodes) {
		v.refused = append(v.refused, 0)
	}
	for at, i := range f.order {
		if v.refused.Has(i) {
			continue
		}
		n := f.nodes[i]
		options := v.options[n.view]
		final := true
		for x := range options {
			o := &options[x]
			if !o.possible || n.excludes(v.relaxation.demands, o) {
				final = final && (len(v.all) == 0 || n.tooFull(v.relaxation.demands))
				continue
			}
			no, forGood := p.joiner.join(v, i, n, o)
			if no == "" {
				f.commit(v.shape, i, at, &p.joiner.trial)
				return Placement{Node: -1, Planned: i}
			}
			final = final && forGood
			rule = no
		}
		if final {
			v.refused.Set(i)
		}
	}
	return refused(rule)
}

// toNew plans a node of the first pool that can launch one.
func (p *Packer) toNew(v *variant) Placement {
	f := p.fleet
	if v.failedAt == [2]int{f.version, len(f.nodes)} {
		return refused(v.rule)
	}
	rule := model.RuleNoPool
	for view, pool := range f.pools.list {
		closed := f.pools.closed(v, view)
		for x := range v.options[view] {
			if closed != "" {
				break
			}
			o := &v.options[view][x]
			if !o.possible {
				rule = nearer(rule, v.topologyRule())
				continue
			}
			n := &node{view: view, types: f.pools.allowed(view), zones: pool.zones, capacity: pool.capacity}
			no, _ := p.joiner.join(v, len(f.nodes), n, o)
			if no == model.RuleMinValues && pool.view.BestEffort {
				n.relaxed = true
				no, _ = p.joiner.join(v, len(f.nodes), n, o)
			}
			if no == "" {
				return Placement{Node: -1, Planned: f.launch(v.shape, n, &p.joiner.trial)}
			}
			rule = nearer(rule, no)
		}
		rule = nearer(rule, closed)
	}
	v.failedAt, v.rule = [2]int{f.version, len(f.nodes)}, rule
	return refused(rule)
}

// rulesByProgress are the rules in the order in which a pod meets them on its way to a new node.
var rulesByProgress = []model.Rule{
	model.RuleNoPool, model.RulePoolNotReady, model.RuleTaint, model.RuleRequirement, model.RuleLimit, model.RuleResource,
	model.RuleVolumeLimit, model.RuleHostPort, model.RuleZonalShift, model.RuleCapacity, model.RulePreflight,
	model.RuleAddresses, model.RuleMinValues, model.RuleAffinity, model.RuleAntiAffinity, model.RuleSpread,
}

// nearer returns the rule that is met later on the way to a node.
func nearer(a, b model.Rule) model.Rule {
	if slices.Index(rulesByProgress, b) > slices.Index(rulesByProgress, a) {
		return b
	}
	return a
}

// Open adds a node that was planned elsewhere, within the limits of its pool; pods may join it, and it may become any
// of its Types. Its index is the number of planned nodes before the call.
func (p *Packer) Open(n Node) { p.fleet.open(n) }

// Planned returns the planned nodes, opened from outside or by the packer, by index. A node whose pods have
// anti-affinity by a label gets one value of it, one of those that all others were kept out of.
func (p *Packer) Planned() []Node {
	out := make([]Node, len(p.fleet.nodes))
	for i := range p.fleet.nodes {
		p.joiner.settle(i)
	}
	for i, n := range p.fleet.nodes {
		out[i] = Node{
			View: n.view, Shapes: slices.Clone(n.shapes), Types: slices.Clone(n.types),
			OfferSet: rules.OfferSet{Zones: slices.Clone(n.zones), Capacity: slices.Clone(n.capacity)}, Custom: n.custom,
			Load: n.load, Relaxed: n.relaxed,
		}
	}
	return out
}
