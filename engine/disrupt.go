package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// Disrupt plans which nodes to remove. Nodes that are not needed are removed at once. Nodes that have drifted, or
// whose pods cost less elsewhere, are removed by a Command once their pods have somewhere to go. The plan says why
// every other candidate stays, such as a node on which a pending pod would be placed. Disrupt tries a limited number
// of nodes whose pods have to move, drifted ones first; Plan.After is where it stopped.
func Disrupt(s *model.Snapshot, p model.Policy) model.Plan { return NewSearch(s, p).From(p.After) }

// Disrupter runs Disrupt on one snapshot after another. It remembers the what-ifs of the previous snapshot, which are
// cheap to plan again. It must not be used by several goroutines at once.
type Disrupter struct{ memory *solve.Memory }

// NewDisrupter returns a Disrupter that has planned nothing yet.
func NewDisrupter() *Disrupter { return &Disrupter{solve.NewMemory()} }

// Disrupt does what the function Disrupt does.
func (x *Disrupter) Disrupt(s *model.Snapshot, p model.Policy) model.Plan {
	return x.NewSearch(s, p).From(p.After)
}

// NewSearch does what the function NewSearch does. Only the newest Search of a Disrupter may be used.
func (x *Disrupter) NewSearch(s *model.Snapshot, p model.Policy) *Search {
	if p.After == (model.Cursor{}) { // a new round over the nodes begins
		x.memory.Forget()
	}
	search := NewSearch(s, p)
	search.memory = x.memory
	return search
}

// Search runs Disrupt on one snapshot, piece by piece. It computes once what all pieces share. It must not be used by
// several goroutines at once.
type Search struct {
	s         *model.Snapshot
	policy    model.Policy
	projected *projection // before anything is proposed; nil if it must be computed
	run       *run        // not begun; From starts copies of it
	known     known
	memory    *solve.Memory // of what-ifs; nil = none
}

// NewSearch starts a search. Policy.After is ignored.
func NewSearch(s *model.Snapshot, policy model.Policy) *Search {
	s = s.WithExpected()
	if policy.Preflight == model.Enforce {
		s = spared(s)
	}
	return &Search{s: s, policy: policy}
}

// From is Disrupt with Policy.After set to after. It applies the methods in karpenter.sh's order: emptiness, surplus
// and drift of static pools, drift, consolidation. Each method plans with the cluster as the earlier ones leave it.
func (x *Search) From(after model.Cursor) model.Plan {
	if x.projected == nil {
		x.projected = newProjection(x.s, x.policy)
		x.projected.memory = x.memory
	}
	if x.run == nil {
		x.run = newRun(x.s, x.policy, x.projected)
		x.run.known = &x.known
	}
	r := x.run.begin(after, x.projected)
	r.empties()
	d := &drift{r}
	s := &static{d}
	s.surplus()
	s.staticDrift()
	d.drift()
	r.consolidate()
	if len(r.removals)+len(r.commands) > 0 {
		x.projected = nil // it now includes what was proposed
	}
	return r.plan()
}

// The steps of a call: defaultWhatIfs unless Policy.MaxWhatIfs says otherwise. A plan takes one step; a plan that may
// launch nodes takes launchSteps.
const (
	defaultWhatIfs = 100
	launchSteps    = 5
)

// run is one call of Disrupt: what it may still do, what it proposes, and why the other nodes stay.
type run struct {
	s         *model.Snapshot
	policy    model.Policy
	pools     map[string]*model.Pool
	projected *projection
	known     *known

	candidates []*model.Node // disruptable nodes, most expensive first
	eventual   []*model.Node // nodes that only drift may remove: it does not wait for their pods, which have a deadline
	gone       map[string]int
	taken      map[string]bool // nodes to remove, by name
	reasons    map[string]model.Reason
	groups     map[string]model.Reason // reasons of nodes that would be replaced as a group otherwise

	removals []model.Removal
	commands []model.Command
	left     int          // steps that remain
	after    model.Cursor // where planning stopped
	partial  bool
	again    time.Time // see Plan.RecheckAt
}

// newRun returns a run that has not begun.
func newRun(s *model.Snapshot, policy model.Policy, w *projection) *run {
	r := &run{s: s, policy: policy, projected: w, pools: map[string]*model.Pool{}, reasons: map[string]model.Reason{}}
	for i := range s.Pools {
		r.pools[s.Pools[i].Name] = shutNow(s, &s.Pools[i])
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
	sortDescending(r.candidates, func(n *model.Node) float64 { return float64(n.Price) })
	return r
}

// sortDescending sorts nodes by a number, largest first, then by name.
func sortDescending(nodes []*model.Node, of func(*model.Node) float64) {
	type counted struct {
		n    *model.Node
		much float64
	}
	all := make([]counted, len(nodes)) // computes each number once
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

// byName returns the nodes in the order of the snapshot.
func byName(nodes []*model.Node) []*model.Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) })
}

// begin returns a copy of the run that starts at the cursor and has proposed nothing yet.
func (r *run) begin(after model.Cursor, w *projection) *run {
	out := *r
	out.policy.After, out.after, out.projected = after, after, w
	out.gone, out.taken, out.reasons = map[string]int{}, map[string]bool{}, maps.Clone(r.reasons)
	out.groups = map[string]model.Reason{}
	if out.left = r.policy.MaxWhatIfs; out.left == 0 {
		out.left = defaultWhatIfs
	}
	return &out
}

// untouchable returns why no method that needs a Node may remove the node.
func (r *run) untouchable(n *model.Node) model.Reason {
	switch {
	case r.pools[n.Pool] == nil:
		return model.Reason{Rule: model.RuleNoPool, Object: n.Pool}
	case n.State != model.Initialized:
		return model.Reason{Rule: model.RuleNotInitialized}
	case r.pools[n.Pool].Unread: // for a moment after a start
		return model.Reason{Rule: model.RulePoolNotReady, Object: n.Pool, Detail: r.pools[n.Pool].NotReady}
	case r.projected.needed[n.Name]:
		return model.Reason{Rule: model.RuleNeeded}
	case r.s.Now.Before(n.NominatedUntil):
		return model.Reason{Rule: model.RuleNeeded, Until: n.NominatedUntil}
	}
	return model.Reason{}
}

// free returns the nodes that no command or removal takes yet: those of static pools if static is set, else the
// others.
func (r *run) free(nodes []*model.Node, static bool) []*model.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *model.Node) bool {
		return r.taken[n.Name] || r.pools[n.Pool].Static != static
	})
}

// overBudget returns why the pool's budget allows no further removal, or the zero Reason if it allows one. Removals
// by other methods count too, since one budget may apply to several.
func (r *run) overBudget(n *model.Node, allowed int) model.Reason {
	if r.gone[n.Pool] < allowed {
		return model.Reason{}
	}
	if allowed == shut {
		return whyShut(r.pools[n.Pool])
	}
	return r.usedUp(n.Pool, allowed)
}

// keep records why a node stays.
func (r *run) keep(n *model.Node, reason model.Reason) { r.reasons[n.Name] = reason }

// remove proposes to remove a node without replacement.
func (r *run) remove(n *model.Node, how model.Method) {
	r.take(n, how != model.Overprovisioned)
	r.projected.close(n.Name)
	r.removals = append(r.removals, r.removalOf(n, how))
}

func (r *run) take(n *model.Node, budgeted bool) {
	r.taken[n.Name] = true
	delete(r.reasons, n.Name)
	if budgeted {
		r.gone[n.Pool]++
	}
}

func (r *run) removalOf(n *model.Node, how model.Method) model.Removal {
	return model.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Method: how, Saves: r.effective(n)}
}

func (r *run) plan() model.Plan {
	p := model.Plan{Removals: r.removals, Commands: r.commands, Partial: r.partial, After: r.after}
	slices.SortFunc(p.Removals, func(a, b model.Removal) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(p.Commands, func(a, b model.Command) int {
		return cmp.Compare(a.Removals[0].Node, b.Removals[0].Node)
	})
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

// occupied reports whether some pod would have to move if the node were removed.
func occupied(n *model.Node) bool {
	return slices.ContainsFunc(n.Pods, func(p model.BoundPod) bool { return p.Occupies() })
}

// movingCost returns the cost of removing a node: 1000 plus the eviction costs of its pods that move. A negative
// eviction cost counts as zero (sigs.k8s.io/karpenter/pkg/controllers/disruption).
func movingCost(n *model.Node) int64 {
	cost := int64(1000)
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			cost += int64(max(n.Pods[i].EvictionCost, 0))
		}
	}
	return cost
}
