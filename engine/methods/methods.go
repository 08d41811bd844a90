// Package methods holds the ways in which a machine turns out not to be worth its price, one file per method. A method
// proposes Removals within the budgets and says of every other machine why it stays.
package methods

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// Run asks the methods in their order: emptiness first, which costs nobody anything, then drift. needed names the
// machines on which pending pods would be placed.
func Run(s *model.Snapshot, needed map[string]bool) model.Plan {
	r := &run{s: s, needed: needed, pools: map[string]*model.Pool{}, gone: map[string]int{}, reasons: map[string]model.Reason{}}
	for i := range s.Pools {
		r.pools[s.Pools[i].Name] = &s.Pools[i]
	}
	candidates := r.candidates()
	candidates = r.each(candidates, r.empty)
	r.each(candidates, r.drifted)
	return r.plan()
}

type run struct {
	s        *model.Snapshot
	needed   map[string]bool
	pools    map[string]*model.Pool
	gone     map[string]int // removals so far, by pool
	reasons  map[string]model.Reason
	removals []model.Removal
}

// method proposes to remove the machine, or says why not.
type method func(*model.Node, *model.Pool) (model.Method, model.Reason)

// candidates are the machines that we manage and that are not going already: dearest first, so that a budget saves most.
// Those which no method may touch get their reason at once.
func (r *run) candidates() []*model.Node {
	var out []*model.Node
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if n.Claim == "" || n.Deleting {
			continue
		}
		if reason := r.untouchable(n); reason.Rule != "" {
			r.reasons[n.Name] = reason
			continue
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *model.Node) int {
		return cmp.Or(cmp.Compare(b.Price, a.Price), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (r *run) untouchable(n *model.Node) model.Reason {
	switch {
	case r.pools[n.Pool] == nil:
		return model.Reason{Rule: model.RuleNoPool, Object: n.Pool}
	case r.pools[n.Pool].Static:
		return model.Reason{Rule: model.RuleStatic, Object: n.Pool, Detail: strconv.FormatInt(r.pools[n.Pool].Replicas, 10)}
	case n.State != model.Initialized:
		return model.Reason{Rule: model.RuleNotInitialized}
	case n.DoNotDisrupt:
		return model.Reason{Rule: model.RuleDoNotDisrupt, Object: "node " + n.Name}
	}
	for _, p := range n.Pods {
		if p.DoNotDisrupt && !p.Terminal {
			return model.Reason{Rule: model.RuleDoNotDisrupt, Object: "pod " + p.Namespace + "/" + p.Name}
		}
	}
	if r.needed[n.Name] || r.s.Now.Before(n.NominatedUntil) {
		return model.Reason{Rule: model.RuleNeeded}
	}
	return model.Reason{}
}

// each asks the method about each machine and gives back those that stay. The reason of an earlier method stands unless
// the later one is about this machine in particular.
func (r *run) each(nodes []*model.Node, ask method) []*model.Node {
	var stay []*model.Node
	for _, n := range nodes {
		how, reason := ask(n, r.pools[n.Pool])
		if how == "" {
			if reason.Rule != "" {
				r.reasons[n.Name] = reason
			}
			stay = append(stay, n)
			continue
		}
		r.gone[n.Pool]++
		delete(r.reasons, n.Name)
		r.removals = append(r.removals, model.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Method: how, Saves: n.Price})
	}
	return stay
}

func (r *run) plan() model.Plan {
	var p model.Plan
	p.Removals = r.removals
	slices.SortFunc(p.Removals, func(a, b model.Removal) int { return cmp.Compare(a.Node, b.Node) })
	for i := range r.s.Nodes {
		if reason, ok := r.reasons[r.s.Nodes[i].Name]; ok {
			p.Kept = append(p.Kept, model.Kept{Node: r.s.Nodes[i].Name, Reason: reason})
		}
	}
	return p
}

// occupants is the number of pods that would have to move if the machine went.
func occupants(n *model.Node) int {
	count := 0
	for _, p := range n.Pods {
		if !p.Daemon && !p.Terminal {
			count++
		}
	}
	return count
}
