package record

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// Limits on what one decision names.
const (
	maxPods     = 512  // over all its nodes
	maxNodes    = 100  // removed, and as many launched
	maxMoves    = 200  // from node to node
	maxSentence = 2000 // bytes of a sentence
	maxOthers   = 3    // alternatives beside the runner-up
	// maxCompared launches of a cycle record alternatives; the others record only the runner-up.
	maxCompared = 100
)

// Cycle is one reconcile cycle: what was decided on a snapshot, and what was applied.
type Cycle struct {
	Snapshot *model.Snapshot
	Policy   model.Policy
	Plan     model.Plan
	Bad      []string          // why a plan was not carried out
	Claims   map[string]string // the NodeClaims by ID of the launch they are for
	Removed  []string          // NodeClaims whose deletion was requested
	Begun    []string          // commands, by ID
	Finished []string
	Undone   []Abandoned
	// Workloads returns what created the pods of a node, by UID; nil = unknown.
	Workloads func(node string) map[string]Workload
}

// Abandoned is a command whose nodes stay, and why.
type Abandoned struct{ Command, Why string }

// writer makes the decisions of one cycle. It computes the digest and the index of the snapshot only if something was
// decided.
type writer struct {
	Cycle
	digest   string
	nodes    map[string]*model.Node // by claim
	expected map[model.PodKey]bool  // pods of Snapshot.Expected; nil until needed
	compared int
}

func (w *writer) decision(kind Kind, why string, about ...string) *Decision {
	if w.digest == "" {
		w.digest = Digest(w.Snapshot)
	}
	return &Decision{
		ID: identity(w.Snapshot.Now, kind, about...), Time: w.Snapshot.Now.UTC(), Snapshot: w.digest,
		Kind: kind, Why: cut(why),
	}
}

// node returns the node of a claim, or nil.
func (w *writer) node(claim string) *model.Node {
	if w.nodes == nil {
		w.nodes = make(map[string]*model.Node, len(w.Snapshot.Nodes))
		for i := range w.Snapshot.Nodes {
			w.nodes[w.Snapshot.Nodes[i].Claim] = &w.Snapshot.Nodes[i]
		}
	}
	return w.nodes[claim]
}

// launch records a node for pending pods.
func (w *writer) launch(l *model.Launch, claim string) *Decision {
	d := w.decision(Launch, reason.Launch(w.Snapshot, *l), claim)
	created := w.created(l.Pods)
	d.Pods, d.PodUIDs, d.PodsMore = named(created, maxPods)
	d.PodsMore += len(l.Pods) - len(created)
	d.Launched = []LaunchedNode{w.launched(l, claim)}
	return d
}

// created returns the pods that exist. The others are expected, and their names are not known yet.
func (w *writer) created(pods []model.PodKey) []model.PodKey {
	if w.expected == nil {
		w.expected = make(map[model.PodKey]bool, len(w.Snapshot.Expected))
		for i := range w.Snapshot.Expected {
			w.expected[w.Snapshot.Expected[i].PodKey] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p model.PodKey) bool { return w.expected[p] })
}

func (w *writer) launched(l *model.Launch, claim string) LaunchedNode {
	b := LaunchedNode{
		Claim: claim, Pool: l.Pool, Chosen: OfferOf(l.Chosen), Types: max(len(l.Types), 1),
		Requests: l.Requests.Amounts(w.Snapshot.ResourceNames),
	}
	if l.RunnerUp.Type != "" {
		up := OfferOf(l.RunnerUp)
		b.RunnerUp = &up
	}
	if w.compared++; w.compared > maxCompared {
		return b
	}
	for _, c := range model.Alternatives(w.Snapshot, l, maxOthers+2) {
		if c.Type != l.Chosen.Type && c.Type != l.RunnerUp.Type && len(b.Others) < maxOthers {
			b.Others = append(b.Others, OfferOf(c))
		}
	}
	return b
}

// removal records the removal of an unneeded node.
func (w *writer) removal(r *model.Removal) *Decision {
	d := w.decision(Remove, reason.Removal(w.Snapshot, *r), r.Claim)
	d.Method, d.SavesPerHour = string(r.Method), r.Saves.Dollars()
	m := w.removed(r.Claim, r.Node, r.Pool, maxPods)
	if r.Method == model.Empty { // the snapshot may predate the decision and show pods that have since ended
		m.Pods, m.PodUIDs, m.PodsMore = nil, nil, 0
	}
	d.Removed = []RemovedNode{m}
	if d.saves() {
		d.Shares = w.shares(d)
	}
	return d
}

// command records a command: nodes whose pods move.
func (w *writer) command(c *model.Command) *Decision {
	kind := Replace
	if len(c.Launches) == 0 {
		kind = Remove
	}
	d := w.decision(kind, reason.Command(w.Snapshot, *c), c.ID)
	d.Method, d.Command, d.SavesPerHour = string(c.Method), c.ID, c.Saves.Dollars()
	left, to := maxPods, w.destinations(c)
	movesLeft := maxMoves
	for i := range c.Removals[:min(len(c.Removals), maxNodes)] {
		r := &c.Removals[i]
		m := w.removed(r.Claim, r.Node, r.Pool, left)
		left -= len(m.Pods)
		m.Moves = moves(w.node(r.Claim), to, movesLeft)
		movesLeft -= len(m.Moves)
		d.Removed = append(d.Removed, m)
	}
	if d.saves() {
		d.Shares = w.shares(d)
	}
	for i := range c.Launches[:min(len(c.Launches), maxNodes)] {
		d.Launched = append(d.Launched, w.launched(&c.Launches[i], w.Claims[c.Launches[i].ID]))
	}
	return d
}

// destinations returns the planned Node or NodeClaim of each pod of a command.
func (w *writer) destinations(c *model.Command) map[model.PodKey]string {
	to := map[model.PodKey]string{}
	for _, p := range c.Placements {
		to[p.Pod] = p.Node
	}
	for i := range c.Launches {
		for _, p := range c.Launches[i].Pods {
			to[p] = w.Claims[c.Launches[i].ID]
		}
	}
	return to
}

// moves returns at most most moves of the pods of n, which may be nil.
func moves(n *model.Node, to map[model.PodKey]string, most int) []Move {
	if n == nil {
		return nil
	}
	pods := map[string]int{}
	for i := range n.Pods {
		pods[to[n.Pods[i].PodKey]]++
	}
	delete(pods, "") // pods that stay, and those whose node could not be launched
	var out []Move
	for node, n := range pods {
		out = append(out, Move{node, n})
	}
	slices.SortFunc(out, func(a, b Move) int { return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.To, b.To)) })
	return out[:min(len(out), most)]
}

func (w *writer) removed(claim, node, pool string, pods int) RemovedNode {
	if n := w.node(claim); n != nil {
		return NewRemovedNode(n, pods)
	}
	return RemovedNode{Claim: claim, Node: node, Pool: pool}
}

// NewRemovedNode describes a node that is being removed, with at most most of its pods.
func NewRemovedNode(n *model.Node, most int) RemovedNode {
	m := RemovedNode{
		Offer: Offer{Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType, DollarsPerHour: n.Price.Dollars()},
		Claim: n.Claim, Pool: n.Pool,
	}
	if n.Name != n.Claim {
		m.Node = n.Name
	}
	if !n.Expires.IsZero() {
		expires := n.Expires.UTC()
		m.Expires = &expires
	}
	var keys []model.PodKey
	for i := range n.Pods {
		if p := &n.Pods[i]; !p.Daemon && !p.Terminal && !p.Terminating {
			keys = append(keys, p.PodKey)
		}
	}
	m.Pods, m.PodUIDs, m.PodsMore = named(keys, most)
	return m
}

// unschedulable returns one decision for each reason why pods get no node, except reasons that said reports as
// already recorded for the pod.
func (w *writer) unschedulable(said func(model.PodKey, string) bool) []*Decision {
	waits := make(map[model.PodKey]time.Time, len(w.Plan.Unplaced))
	for i := range w.Snapshot.Pending {
		if p := &w.Snapshot.Pending[i]; p.From == "" && !p.Virtual {
			waits[p.PodKey] = p.Created
		}
	}
	type group struct {
		reason model.Reason
		pods   []model.PodKey
	}
	groups := map[string]*group{}
	for _, u := range w.Plan.Unplaced {
		created, waiting := waits[u.Pod]
		if !waiting || transient(u.Reason, w.Snapshot.Now.Sub(created)) {
			continue
		}
		key := reasonKey(u.Reason)
		if said(u.Pod, key) {
			continue
		}
		if groups[key] == nil {
			groups[key] = &group{reason: u.Reason}
		}
		groups[key].pods = append(groups[key].pods, u.Pod)
	}
	var out []*Decision
	for key, g := range groups {
		d := w.decision(Unschedulable, reason.Pod(g.reason), key, g.pods[0].Namespace, g.pods[0].Name)
		d.Rule, d.Again = string(g.reason.Rule), cut(retryAt(g.reason))
		d.Pods, d.PodUIDs, d.PodsMore = named(g.pods, maxPods)
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *Decision) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// retryAt says which offerings without capacity are retried, and when. It returns "" if there are none or the time is
// unknown.
func retryAt(r model.Reason) string {
	var parts []string
	for _, v := range r.Pools {
		if v.Rule == model.RuleCapacity && v.Detail != "" {
			parts = append(parts, v.Detail)
		}
	}
	if len(r.Pools) == 0 && r.Rule == model.RuleCapacity {
		return r.Detail
	}
	return strings.Join(parts, "; ")
}

// settleTime is how long the recorder ignores unready pools for a new pod, as controller/apply does.
const settleTime = 5 * time.Second

// transient reports whether a reason may go away on its own: the search continues, pods are about to end, or pools
// are about to become ready.
func transient(r model.Reason, waited time.Duration) bool {
	notReady := func(v model.PoolVerdict) bool { return v.Rule == model.RulePoolNotReady }
	return r.Rule.Transient() || waited < settleTime &&
		(r.Rule == model.RulePoolNotReady || slices.ContainsFunc(r.Pools, notReady))
}

// reasonKey identifies a reason by everything that distinguishes it, except amounts in use, which change constantly.
func reasonKey(r model.Reason) string {
	parts := []string{string(r.Rule), r.Object, r.Detail}
	if len(r.Pools) > 0 {
		parts = parts[:2]
	}
	for _, v := range r.Pools {
		parts = append(parts, v.Pool, string(v.Rule), v.Object)
	}
	return strings.Join(parts, "\x00")
}

// OfferOf returns the offer of a candidate.
func OfferOf(c model.Candidate) Offer {
	return Offer{Type: c.Type, Zone: c.Zone, CapacityType: c.CapacityType, DollarsPerHour: c.Price.Dollars()}
}

// named returns at most most pods as namespace/name with their short UIDs, and the number of pods left out.
func named(pods []model.PodKey, most int) (names, uids []string, more int) {
	most = max(most, 0)
	for _, p := range pods[:min(len(pods), most)] {
		names, uids = append(names, p.Namespace+"/"+p.Name), append(uids, ShortUID(p.UID))
	}
	return names, uids, max(len(pods)-most, 0)
}

// cut shortens a sentence that is too long.
func cut(s string) string {
	if len(s) <= maxSentence {
		return s
	}
	return strings.ToValidUTF8(s[:maxSentence], "") + " …"
}
