package record

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// What one decision names at most.
const (
	mostPods     = 512  // over all its machines
	mostMachines = 100  // that go, and as many that come
	mostWhy      = 2000 // bytes of a sentence
	mostOthers   = 3    // alternatives beside the runner-up
	// mostCompared is how many launches of a turn are compared with others: beyond it only the runner-up is known.
	mostCompared = 100
)

// Turn is one turn of the loop: what was decided on a snapshot, and what was done of it.
type Turn struct {
	Snapshot *model.Snapshot
	Policy   model.Policy
	Plan     model.Plan
	Bad      []string          // why a plan was not carried out
	Claims   map[string]string // the NodeClaims by ID of the launch they are for
	Removed  []string          // NodeClaims that were asked to go
	Begun    []string          // commands, by ID
	Finished []string
	Undone   []Halted
}

// Halted is a command whose machines stay, and why in a sentence.
type Halted struct{ Command, Why string }

// writer makes the decisions of one turn. What it needs of the whole snapshot it finds out once something was decided.
type writer struct {
	Turn
	digest   string
	nodes    map[string]*model.Node // by claim
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

// node is the machine of a claim, nil if the snapshot has none.
func (w *writer) node(claim string) *model.Node {
	if w.nodes == nil {
		w.nodes = make(map[string]*model.Node, len(w.Snapshot.Nodes))
		for i := range w.Snapshot.Nodes {
			w.nodes[w.Snapshot.Nodes[i].Claim] = &w.Snapshot.Nodes[i]
		}
	}
	return w.nodes[claim]
}

// launch is a machine for pods that wait.
func (w *writer) launch(l *model.Launch, claim string) *Decision {
	d := w.decision(Launch, reason.Launch(w.Snapshot, *l), claim)
	d.Pods, d.PodUIDs, d.PodsMore = named(l.Pods, mostPods)
	d.Comes = []Bought{w.bought(l, claim)}
	return d
}

func (w *writer) bought(l *model.Launch, claim string) Bought {
	b := Bought{
		Claim: claim, Pool: l.Pool, Chosen: offer(l.Chosen), Types: max(len(l.Types), 1),
		Requests: l.Requests.Amounts(w.Snapshot.ResourceNames),
	}
	if l.RunnerUp.Type != "" {
		up := offer(l.RunnerUp)
		b.RunnerUp = &up
	}
	if w.compared++; w.compared > mostCompared {
		return b
	}
	for _, c := range model.Alternatives(w.Snapshot, w.Policy, l, mostOthers+2) {
		if c.Type != l.Chosen.Type && c.Type != l.RunnerUp.Type && len(b.Others) < mostOthers {
			b.Others = append(b.Others, offer(c))
		}
	}
	return b
}

// removal is a machine that nobody needs.
func (w *writer) removal(r *model.Removal) *Decision {
	d := w.decision(Remove, reason.Removal(w.Snapshot, *r), r.Claim)
	d.Method, d.SavesPerHour = string(r.Method), r.Saves.Dollars()
	m := w.machine(r.Claim, r.Node, r.Pool, mostPods)
	if r.Method == model.Empty { // the snapshot may be older than the decision, and show a pod that had ended by then
		m.Pods, m.PodUIDs, m.PodsMore = nil, nil, 0
	}
	d.Goes = []Machine{m}
	return d
}

// command is machines whose pods have to move.
func (w *writer) command(c *model.Command) *Decision {
	kind := Replace
	if len(c.Launches) == 0 {
		kind = Remove
	}
	d := w.decision(kind, reason.Command(w.Snapshot, *c), c.ID)
	d.Method, d.Command, d.SavesPerHour = string(c.Method), c.ID, c.Saves.Dollars()
	left := mostPods
	for i := range c.Removals[:min(len(c.Removals), mostMachines)] {
		r := &c.Removals[i]
		m := w.machine(r.Claim, r.Node, r.Pool, left)
		left -= len(m.Pods)
		d.Goes = append(d.Goes, m)
	}
	for i := range c.Launches[:min(len(c.Launches), mostMachines)] {
		d.Comes = append(d.Comes, w.bought(&c.Launches[i], w.Claims[c.Launches[i].ID]))
	}
	return d
}

func (w *writer) machine(claim, node, pool string, pods int) Machine {
	if n := w.node(claim); n != nil {
		return MachineOf(n, pods)
	}
	return Machine{Claim: claim, Node: node, Pool: pool}
}

// MachineOf is what is kept of a machine that goes, with at most so many of its pods.
func MachineOf(n *model.Node, most int) Machine {
	m := Machine{
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

// refusals are why pods get nothing, of each reason once: those of which said says that it was not said yet.
func (w *writer) refusals(said func(model.PodKey, string) bool) []*Decision {
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
		if !waiting || passing(u.Reason, w.Snapshot.Now.Sub(created)) {
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
		d := w.decision(Refuse, reason.Pod(g.reason), key, g.pods[0].Namespace, g.pods[0].Name)
		d.Rule, d.Again = string(g.reason.Rule), cut(comeback(g.reason))
		d.Pods, d.PodUIDs, d.PodsMore = named(g.pods, mostPods)
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *Decision) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// comeback says which offerings that are out of capacity are asked for again, and when; "" if none are in the way or
// that is not known.
func comeback(r model.Reason) string {
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

// settle is how long a new pod is not told that pools are not ready yet, as in controller/apply.
const settle = 5 * time.Second

// passing reports whether a reason is none yet: the search goes on, or pods or pools are waited for that are about to
// end, or to be ready.
func passing(r model.Reason, waited time.Duration) bool {
	notReady := func(v model.PoolVerdict) bool { return v.Rule == model.RulePoolNotReady }
	return r.Rule.Transient() || waited < settle &&
		(r.Rule == model.RulePoolNotReady || slices.ContainsFunc(r.Pools, notReady))
}

// reasonKey is what has to change for a reason to be another: not the amounts that are in use at the moment.
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

func offer(c model.Candidate) Offer {
	return Offer{Type: c.Type, Zone: c.Zone, CapacityType: c.CapacityType, DollarsPerHour: c.Price.Dollars()}
}

// named are pods as namespace/name, at most so many, with their short UIDs, and how many are left out.
func named(pods []model.PodKey, most int) (names, uids []string, more int) {
	most = max(most, 0)
	for _, p := range pods[:min(len(pods), most)] {
		names, uids = append(names, p.Namespace+"/"+p.Name), append(uids, ShortUID(p.UID))
	}
	return names, uids, max(len(pods)-most, 0)
}

// cut leaves out the end of a sentence that is too long.
func cut(s string) string {
	if len(s) <= mostWhy {
		return s
	}
	return strings.ToValidUTF8(s[:mostWhy], "") + " …"
}
