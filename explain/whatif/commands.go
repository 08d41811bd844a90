package whatif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// applier applies plans to the forecast's copy of the cluster, as controller/apply does to a real one.
type applier struct {
	*run
	commands []*command
}

// Apply carries out the launches, removals and commands of the plan.
func (a *applier) Apply(_ context.Context, s *model.Snapshot, plan model.Plan) cycle.Result {
	out := cycle.Result{Claims: map[string]string{}}
	for i := range plan.Launches {
		l := &plan.Launches[i]
		m := a.launch(s, l, nil)
		if m.Name == "" {
			continue
		}
		out.Created, out.Claims[l.ID] = append(out.Created, m.Name), m.Name
		a.addStep(Step{Action: Launch, Launched: []Node{m}, Pods: len(l.Pods), Why: reason.Launch(s, *l)})
	}
	for _, x := range plan.Removals {
		a.addStep(Step{
			Action: Remove, Method: x.Method, Removed: removedNodes(s, x), Pods: evictedPods(s, x.Node),
			Budget: budgetOf(s, x), Why: reason.Removal(s, x),
		})
		a.startDrain(x.Claim)
		out.Removed = append(out.Removed, x.Claim)
	}
	for _, c := range plan.Commands {
		if a.begin(s, c) {
			out.Begun = append(out.Begun, c.ID)
		}
	}
	return out
}

// Report does nothing: the forecast's Outcome reports instead.
func (a *applier) Report(*model.Snapshot, model.Plan, map[string]string) {}

// Advance ends commands whose replacements are ready: their nodes are drained, or stay if their reason has gone.
func (a *applier) Advance(_ context.Context, _ *model.Snapshot, stillTrue cycle.StillTrue) (out cycle.Result,
	due time.Time,
) {
	a.commands = slices.DeleteFunc(a.commands, func(c *command) bool {
		for name := range c.waits {
			if a.inFlight[name] != nil {
				return false
			}
		}
		s := a.cluster.Snapshot()
		changed := stillTrue(s, model.Command{ID: c.ID, Method: c.Method, Removals: c.Removals})
		for _, v := range c.Removals {
			if a.claims[v.Claim] == nil {
				continue
			}
			if changed.Rule != "" {
				a.mark(v.Claim, "")
			} else {
				a.startDrain(v.Claim)
			}
		}
		if changed.Rule == "" {
			out.Finished = append(out.Finished, c.ID)
			return true
		}
		why := reason.Undone(changed)
		a.addStep(Step{Action: Keep, Method: c.Method, Removed: removedNodes(s, c.Removals[0]), Why: why})
		out.Undone = append(out.Undone, cycle.Undone{Command: c.ID, Method: c.Method, Message: why})
		return true
	})
	return out, time.Time{}
}

// command is a model.Command in progress.
type command struct {
	model.Command
	waits map[string]bool // claims that must be ready first
}

// begin launches a command's replacements and marks the nodes that it removes. It returns false, and does nothing, if
// one of these nodes no longer exists or is already being removed.
func (a *applier) begin(s *model.Snapshot, c model.Command) bool {
	step := Step{Action: Replace, Method: c.Method, Why: reason.Command(s, c)}
	for _, v := range c.Removals {
		claim := a.claims[v.Claim]
		if claim == nil || claim.DeletionTimestamp != nil || a.draining[v.Claim] {
			return false
		}
		step.Removed = append(step.Removed, removedNodes(s, v)...)
		step.Pods += evictedPods(s, v.Node)
	}
	step.Budget = budgetOf(s, c.Removals[0])
	under := &command{Command: c, waits: map[string]bool{}}
	for i := range c.Launches {
		if m := a.launch(s, &c.Launches[i], under); m.Name != "" {
			step.Launched = append(step.Launched, m)
		}
	}
	record := translate.Command{
		ID: c.ID, Method: c.Method, Launches: len(c.Launches), Since: a.now().UTC(),
		Replacements: slices.Sorted(maps.Keys(under.waits)),
	}
	for _, v := range c.Removals {
		record.Victims = append(record.Victims, translate.Victim{Claim: v.Claim, UID: a.claims[v.Claim].UID})
	}
	for _, v := range c.Removals {
		a.mark(v.Claim, record.Text())
	}
	a.commands = append(a.commands, under)
	a.addStep(step)
	return true
}

// mark records on a claim which command removes it, and taints its Node. An empty text undoes both.
func (a *applier) mark(name, text string) {
	claim := a.claims[name].DeepCopy()
	claim.ResourceVersion = ""
	if text == "" {
		delete(claim.Annotations, translate.AnnotationCommand)
	} else {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, translate.AnnotationCommand, text)
	}
	a.put(claim)
	if node := a.nodeOf(claim); node != nil {
		node = node.DeepCopy()
		node.ResourceVersion = ""
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
		if text != "" {
			node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		}
		a.put(node)
	}
}

// startDrain marks a claim as deleted, so that drain evicts its pods.
func (r *run) startDrain(name string) {
	claim := r.claims[name]
	if claim == nil || r.draining[name] {
		return
	}
	claim = claim.DeepCopy()
	claim.ResourceVersion = ""
	now := metav1.NewTime(r.now())
	claim.DeletionTimestamp = &now
	r.put(claim)
	r.draining[name] = true
}

// drain evicts the pods that may be evicted from nodes being removed, and begins to terminate nodes without pods.
func (r *run) drain() bool {
	busy := false
	for _, name := range slices.Sorted(maps.Keys(r.draining)) {
		if _, over := r.terminating[name]; over {
			continue
		}
		left := 0
		if node := r.nodeOf(r.claims[name]); node != nil {
			for _, pod := range r.cluster.PodsOnNode(node.Name) {
				if !drainable(pod) {
					continue
				}
				forced := translate.HasDeadline(r.claims[name])
				if !forced && (translate.ReadPod(pod).HeldUntil.After(r.now()) || !r.mayEvict(pod)) {
					left++
					continue
				}
				r.evict(pod, node.Name)
				busy = true
			}
		}
		if left == 0 {
			r.terminating[name] = r.now().Add(terminationTime)
			busy = true
		}
	}
	return busy
}

// removedNodes returns the node of a removal.
func removedNodes(s *model.Snapshot, x model.Removal) []Node {
	for i := range s.Nodes {
		if s.Nodes[i].Name == x.Node {
			return []Node{nodeOfModel(&s.Nodes[i])}
		}
	}
	return []Node{{Name: cmp.Or(x.Node, x.Claim), Pool: x.Pool, DollarsPerHour: x.Saves.Dollars()}}
}

// evictedPods counts the pods that are evicted when a node is removed.
func evictedPods(s *model.Snapshot, node string) int {
	n := 0
	for i := range s.Nodes {
		if s.Nodes[i].Name != node {
			continue
		}
		for k := range s.Nodes[i].Pods {
			if p := &s.Nodes[i].Pods[k]; !p.Daemon && !p.Terminal {
				n++
			}
		}
	}
	return n
}

// budgetOf says how many nodes the pool's budgets allow to be removed now.
func budgetOf(s *model.Snapshot, x model.Removal) string {
	for i := range s.Pools {
		p := &s.Pools[i]
		if p.Name != x.Pool {
			continue
		}
		n := p.Disruption.AllowedUnderused
		switch x.Method {
		case model.Empty:
			n = p.Disruption.AllowedEmpty
		case model.Drifted, model.Expired, model.CrowdedOut:
			n = p.Disruption.AllowedDrifted
		case model.Overprovisioned:
			return "none is needed"
		}
		return fmt.Sprintf("%d more of the %d nodes of %s may be removed now", n, p.NodeCount, p.Name)
	}
	return ""
}
