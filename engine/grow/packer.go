package grow

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Packer places pods. Its State sees each pod that goes to a node; while a Packer is at work nothing may be taken back from
// the State.
type Packer struct {
	s      *model.Snapshot
	policy *model.Policy
	st     *rules.State
	pools  []*pool
	rooms  []rules.Room
	nodes  []int // in order of preference

	machines []*machine
	order    []int // machines that may still take something, fewest pods first
	chains   []*chain
	active   []int // resources that some shape asks for
	least    []ask // what every pod that waits asks at least
	counts   []counts
	alone    map[string]bool   // volumes for one pod only
	drivers  map[string]string // of volumes, as the first shape says
	inUse    map[string]bool   // of them, those whose pod is on a machine
	soft     bool              // some taint is PreferNoSchedule

	version int // changes whenever a count does
	try     trial
	domains []int32 // scratch
}

type ask struct {
	resource int
	amount   int64
}

// New prepares a packer for the pools' views, of which rooms says what the limits leave.
func New(s *model.Snapshot, policy model.Policy, st *rules.State, views []*rules.View, rooms []rules.Room) *Packer {
	p := &Packer{
		s: s, policy: &policy, st: st, rooms: slices.Clone(rooms),
		chains: make([]*chain, len(s.Shapes)), alone: map[string]bool{}, drivers: map[string]string{}, inUse: map[string]bool{},
	}
	p.nodes = make([]int, 0, st.Nodes())
	for _, ready := range []bool{true, false} {
		for i := range st.Nodes() {
			if n := st.Node(i); (n.State == model.Initialized) == ready {
				p.nodes = append(p.nodes, i)
				p.soft = p.soft || hasSoft(n.Taints)
			}
		}
	}
	if !slices.IsSortedFunc(p.nodes, p.byReadiness) { // nodes come by name, but those that joined
		slices.SortStableFunc(p.nodes, p.byReadiness)
	}
	for _, v := range views {
		p.pools = append(p.pools, newPool(v, p.policy))
		p.soft = p.soft || hasSoft(v.Pool.Taints)
	}
	var asked model.Resources
	for i := range s.Shapes {
		asked = asked.Max(s.Shapes[i].Requests)
		for _, v := range s.Shapes[i].Volumes {
			p.alone[v.ID] = p.alone[v.ID] || v.Alone
			if _, known := p.drivers[v.ID]; !known {
				p.drivers[v.ID] = v.Driver
			}
		}
	}
	for _, a := range asksOf(asked) {
		p.active = append(p.active, a.resource)
	}
	p.findLeast()
	return p
}

// byReadiness puts initialized nodes first, then goes by name.
func (p *Packer) byReadiness(a, b int) int {
	x, y := p.st.Node(a), p.st.Node(b)
	if (x.State == model.Initialized) != (y.State == model.Initialized) {
		if x.State == model.Initialized {
			return -1
		}
		return 1
	}
	switch {
	case x.Name < y.Name:
		return -1
	case x.Name > y.Name:
		return 1
	}
	return 0
}

// findLeast makes it possible to close machines that nobody can join.
func (p *Packer) findLeast() {
	least, any := model.Resources{}, false
	seen := make([]bool, len(p.s.Shapes))
	for i := range p.s.Pending {
		shape := p.s.Pending[i].Shape
		if shape < 0 || shape >= len(seen) || seen[shape] {
			continue
		}
		seen[shape] = true
		for r, amount := range p.s.Shapes[shape].Requests.NonNegative() {
			if !any || amount < least[r] {
				least[r] = amount
			}
		}
		any = true
	}
	p.least = asksOf(least)
}

func asksOf(r model.Resources) []ask {
	var out []ask
	for i, amount := range r {
		if amount > 0 {
			out = append(out, ask{i, amount})
		}
	}
	return out
}

func hasSoft(taints []model.Taint) bool {
	return slices.ContainsFunc(taints, func(t model.Taint) bool { return t.Effect == model.PreferNoSchedule })
}
