package firstfit

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
	rooms  []rules.Headroom
	nodes  []int // those with room for some pod, in order of preference

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
func New(s *model.Snapshot, policy model.Policy, st *rules.State, views []*rules.View, rooms []rules.Headroom) *Packer {
	p := &Packer{
		s: s, policy: &policy, st: st, rooms: slices.Clone(rooms),
		chains: make([]*chain, len(s.Shapes)), alone: map[string]bool{}, drivers: map[string]string{}, inUse: map[string]bool{},
	}
	for _, v := range views {
		p.pools = append(p.pools, newPool(v, p.policy))
		p.soft = p.soft || rules.HasPreferNoSchedule(v.Pool.Taints)
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
	least := p.everyAsk()
	p.least = asksOf(least)
	nodes, soft := st.ByReadiness()
	p.nodes, p.soft = st.WithRoom(slices.Clone(nodes), least), p.soft || soft
	return p
}

// everyAsk is what every pod that waits asks at least: nodes and machines that have less are closed to all.
func (p *Packer) everyAsk() (least model.Resources) {
	any := false
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
	return least
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
