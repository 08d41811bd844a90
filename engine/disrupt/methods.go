// Package disrupt holds the ways in which a machine turns out not to be worth its price, one file per method. A method
// proposes Removals and Commands within the budgets and says of every other machine why it stays.
package disrupt

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Run asks the methods in karpenter.sh's order: emptiness first, which costs nobody anything, then what static pools have too
// much or in an old form, then drift, then what costs less elsewhere. What an earlier method takes no later one does, and each
// counts with the cluster as the earlier ones leave it.
func Run(s *model.Snapshot, policy model.Policy) model.Plan {
	return NewSearch(s, policy).From(policy.After)
}

// What one call tries: so many plans, one that may launch something counting as several.
const (
	defaultWhatIfs = 100
	launchSteps    = 5
)

type run struct {
	s      *model.Snapshot
	policy model.Policy
	pools  map[string]*model.Pool
	world  *world
	known  *known

	leastPercent int                    // see model.Policy.LeastSaving
	costs        map[string]model.Price // of that; what the machines of each pool cost

	candidates []*model.Node // that graceful methods may take: dearest first
	eventual   []*model.Node // that only methods may take which do not wait for pods with a deadline
	gone       map[string]int
	taken      map[string]bool // machines that go, by name
	reasons    map[string]model.Reason
	groups     map[string]model.Reason // of nodes that would be replaced together with others but for that

	removals []model.Removal
	commands []model.Command
	left     int          // steps of planning that may still be made
	after    model.Cursor // where the planning stopped
	partial  bool
	again    time.Time // see Plan.Again
}

// newRun is a run that has not begun.
func newRun(s *model.Snapshot, policy model.Policy, w *world) *run {
	r := &run{s: s, policy: policy, world: w, leastPercent: policy.LeastSaving(s), pools: map[string]*model.Pool{}, reasons: map[string]model.Reason{}}
	for i := range s.Pools {
		r.pools[s.Pools[i].Name] = shutNow(s, &s.Pools[i])
	}
	if r.leastPercent > 0 {
		r.costs = s.Costs()
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Claim == "" || n.Deleting {
			continue
		}
		if reason := r.untouchable(n); reason.Rule != "" {
			r.reasons[n.Name] = reason
			continue
		}
		if reason := protected(n, false); reason.Rule != "" {
			r.reasons[n.Name] = reason
			if protected(n, true).Rule == "" {
				r.eventual = append(r.eventual, n)
			}
			continue
		}
		r.candidates = append(r.candidates, n)
	}
	mostFirst(r.candidates, func(n *model.Node) float64 { return float64(n.Price) })
	return r
}

// mostFirst sorts machines by a number, those first that have most; of equal ones by name.
func mostFirst(nodes []*model.Node, of func(*model.Node) float64) {
	type counted struct {
		n    *model.Node
		much float64
	}
	all := make([]counted, len(nodes)) // there are many machines, and they are large: each is looked at once
	for i, n := range nodes {
		all[i] = counted{n, of(n)}
	}
	slices.SortFunc(all, func(a, b counted) int {
		if a.much != b.much {
			return cmp.Compare(b.much, a.much)
		}
		return cmp.Compare(a.n.Name, b.n.Name)
	})
	for i := range all {
		nodes[i] = all[i].n
	}
}

// byName are the machines in the order of the snapshot.
func (r *run) byName(nodes []*model.Node) []*model.Node {
	in := make(map[*model.Node]bool, len(nodes))
	for _, n := range nodes {
		in[n] = true
	}
	out := make([]*model.Node, 0, len(nodes))
	for i := range r.s.Nodes {
		if n := &r.s.Nodes[i]; in[n] {
			out = append(out, n)
		}
	}
	return out
}

// begin is the run at the cursor, in a world in which nothing was proposed yet.
func (r *run) begin(after model.Cursor, w *world) *run {
	out := *r
	out.policy.After, out.after, out.world = after, after, w
	out.gone, out.taken, out.reasons = map[string]int{}, map[string]bool{}, maps.Clone(r.reasons)
	out.groups = map[string]model.Reason{}
	if out.left = r.policy.MaxWhatIfs; out.left == 0 {
		out.left = defaultWhatIfs
	}
	return &out
}

// untouchable says why no method that needs a Node may take the machine.
func (r *run) untouchable(n *model.Node) model.Reason {
	switch {
	case r.pools[n.Pool] == nil:
		return model.Reason{Rule: model.RuleNoPool, Object: n.Pool}
	case n.State != model.Initialized:
		return model.Reason{Rule: model.RuleNotInitialized}
	case r.world.needed[n.Name]:
		return model.Reason{Rule: model.RuleNeeded}
	case r.s.Now.Before(n.NominatedUntil):
		return model.Reason{Rule: model.RuleNeeded, Until: n.NominatedUntil}
	}
	return model.Reason{}
}

// free are those of the machines that nobody took yet.
func (r *run) free(nodes []*model.Node, static bool) []*model.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *model.Node) bool {
		return r.taken[n.Name] || r.pools[n.Pool].Static != static
	})
}

// overBudget says that the pool's budget lets no further machine go; the zero Reason if it does. What went for other reasons
// counts too, since one budget may be for several.
func (r *run) overBudget(n *model.Node, allowed int) model.Reason {
	if r.gone[n.Pool] < allowed {
		return model.Reason{}
	}
	if allowed == shut {
		return whyShut(r.pools[n.Pool])
	}
	return model.Reason{Rule: model.RuleBudget, Object: n.Pool, Detail: count(max(allowed, 0))}
}

// keep notes why a machine stays.
func (r *run) keep(n *model.Node, reason model.Reason) { r.reasons[n.Name] = reason }

// remove proposes that a machine goes without more ado.
func (r *run) remove(n *model.Node, how model.Method) {
	r.take(n, how != model.Overprovisioned)
	r.world.close(n.Name)
	r.removals = append(r.removals, removalOf(n, how))
}

func (r *run) take(n *model.Node, budgeted bool) {
	r.taken[n.Name] = true
	delete(r.reasons, n.Name)
	if budgeted {
		r.gone[n.Pool]++
	}
}

func removalOf(n *model.Node, how model.Method) model.Removal {
	return model.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Method: how, Saves: n.Price}
}

func (r *run) plan() model.Plan {
	p := model.Plan{Removals: r.removals, Commands: r.commands, Partial: r.partial, After: r.after}
	slices.SortFunc(p.Removals, func(a, b model.Removal) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(p.Commands, func(a, b model.Command) int { return cmp.Compare(a.Removals[0].Node, b.Removals[0].Node) })
	for i := range r.s.Nodes {
		if reason, ok := r.reasons[r.s.Nodes[i].Name]; ok {
			if reason = r.orGroup(r.s.Nodes[i].Name, reason); len(reason.Group) > 0 && !reason.Until.IsZero() {
				r.lookAgain(reason.Until)
			}
			p.Kept = append(p.Kept, model.Kept{Node: r.s.Nodes[i].Name, Reason: reason})
		}
	}
	p.RecheckAt = r.again
	return p
}

// occupied reports whether some pod would have to move if the machine went.
func occupied(n *model.Node) bool {
	return slices.ContainsFunc(n.Pods, func(p model.BoundPod) bool { return !p.Daemon && !p.Terminal })
}

// movingCost is what it counts for that the machine goes: 1000, and what the moves of its pods count for. Pods that would
// rather go than stay are no reason to disrupt others (karpenter.md §8.2).
func movingCost(n *model.Node) int64 {
	cost := int64(1000)
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			cost += int64(max(n.Pods[i].EvictionCost, 0))
		}
	}
	return cost
}
