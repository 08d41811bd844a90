package whatif

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// state returns the current size and price of the cluster.
func (r *run) state() State {
	var out State
	s := r.cluster.Snapshot()
	sum := model.Price(0)
	for i := range s.Nodes {
		out.Nodes++
		sum += s.Nodes[i].Price
	}
	out.DollarsPerHour = sum.Dollars()
	out.DollarsPerMonth = HoursPerMonth * out.DollarsPerHour
	return out
}

// outcome returns the result of the run.
func (r *run) outcome() *Outcome {
	s := r.cluster.Snapshot()
	out := &Outcome{
		APIVersion: "nodeless.sh/v1alpha1", Kind: "Plan", After: r.state(), Seconds: r.lastChange.Sub(r.start).Seconds(),
		Settled: r.settled,
		Steps:   r.steps, Evictions: r.evictions, BootTime: r.boot.Seconds(), Removed: []Node{}, Added: []Node{},
		Unplaced: []Finding{}, Kept: []Finding{}, Assumed: []string{},
	}
	if out.Steps == nil {
		out.Steps = []Step{}
	}
	if out.Evictions == nil {
		out.Evictions = []Eviction{}
	}
	there := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		there[n.Claim] = true
		if _, before := r.initial[n.Claim]; !before && n.Claim != "" {
			out.Added = append(out.Added, nodeOfModel(n))
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(r.initial)) {
		if !there[claim] {
			out.Removed = append(out.Removed, r.initial[claim])
		}
	}
	for _, u := range r.unplaced {
		out.Unplaced = append(out.Unplaced, Finding{Name: u.Pod.Namespace + "/" + u.Pod.Name, Why: reason.Pod(u.Reason)})
	}
	drifted := map[string]bool{}
	for i := range s.Nodes {
		drifted[s.Nodes[i].Name] = s.Nodes[i].Drifted != ""
	}
	for _, k := range r.kept {
		if drifted[k.Node] {
			why := reason.Undone(k.Reason)
			out.Kept = append(out.Kept, Finding{Name: k.Node, Why: why})
		}
	}
	out.DaemonsPending = r.daemonsPending(s)
	for i := range s.Pools {
		if why := s.Pools[i].NotReady; why != "" {
			out.Assumed = append(out.Assumed, fmt.Sprintf("NodePool %s launches nothing: %s", s.Pools[i].Name, why))
		}
	}
	if r.overlaysIgnored {
		out.Assumed = append(out.Assumed,
			"NodeOverlays change nothing: the feature gate NodeOverlay is off; if the controller has it on, give "+
				"--feature-gates NodeOverlay=true")
	}
	out.Assumed = append(out.Assumed, r.Cluster.Assumed()...)
	return out
}
