// Package soon knows, where pods come and go, whether pods that wait can expect room on machines that are there before new ones would be ready:
// none is launched for them yet.
package soon

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// Provision is pack.Provision, but if all pods for which machines would be launched can expect room within the policy's patience, and none of
// them has waited for so long, they get the Reason Soon instead. Where a machine is to be launched anyway nobody waits: one plan for all pods
// has the better machines. Plan.Again is when the first of them has waited enough.
func Provision(s *model.Snapshot, p model.Policy) *solve.Draft {
	plan := solve.Provision(s, p)
	patience := p.Patient(s)
	if patience <= 0 {
		return plan
	}
	waiting := launchedFor(&plan.Plan)
	for i := range s.Pending {
		if x := &s.Pending[i]; waiting[x.PodKey] && !patient(s, x, patience) {
			return plan
		}
	}
	room := map[model.PodKey]string{}
	if len(waiting) > 0 {
		for _, place := range solve.Placements(roomier(s, patience), p) {
			if waiting[place.Pod] {
				room[place.Pod] = place.Node
			}
		}
	}
	if len(room) == 0 || len(room) < len(waiting) {
		return plan
	}
	return withRoom(s, p, patience, room)
}

// launchedFor are the pods that a plan's launches are for.
func launchedFor(plan *model.Plan) map[model.PodKey]bool {
	out := map[model.PodKey]bool{}
	for i := range plan.Launches {
		for _, k := range plan.Launches[i].Pods {
			out[k] = true
		}
	}
	return out
}

// withRoom is the plan in which these pods wait, each for room on a machine.
func withRoom(s *model.Snapshot, p model.Policy, patience time.Duration, room map[model.PodKey]string) *solve.Draft {
	rest := *s
	rest.Pending = slices.DeleteFunc(slices.Clone(s.Pending), func(x model.Pod) bool { return room[x.PodKey] != "" })
	draft := solve.Provision(&rest, p)
	plan := &draft.Plan
	for i := range s.Pending {
		x := &s.Pending[i]
		node := room[x.PodKey]
		if node == "" {
			continue
		}
		until := x.Created.Add(patience)
		plan.Unplaced = append(plan.Unplaced, model.Unplaced{Pod: x.PodKey, Reason: model.Reason{
			Rule: model.RuleSoon, Object: node, Detail: until.UTC().Format(time.RFC3339)}})
		if plan.RecheckAt.IsZero() || until.Before(plan.RecheckAt) {
			plan.RecheckAt = until
		}
	}
	slices.SortFunc(plan.Unplaced, func(a, b model.Unplaced) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	return draft
}

// patient reports whether the pod may wait: it is no more important than others, has not waited for so long, is not to leave a machine, and
// goes wherever there is room.
func patient(s *model.Snapshot, x *model.Pod, patience time.Duration) bool {
	waited := s.Now.Sub(x.Created)
	if x.Priority > 0 || x.From != "" || x.Virtual || x.Created.IsZero() || waited < 0 || waited >= patience {
		return false
	}
	shape := &s.Shapes[x.Shape]
	return len(shape.Affinity)+len(shape.AntiAffinity)+len(shape.Spread)+len(shape.Volumes)+len(shape.HostPorts) == 0
}

// roomier is the cluster with the room that pods can be expected to leave within a time: as many end as have ended lately in such a time, and
// the chance of each is that of a life time with a heavy tail, within/(age + within) (see model.Remaining), in proportion.
func roomier(s *model.Snapshot, within time.Duration) *model.Snapshot {
	sum := int64(0)
	for i := range s.Nodes {
		for k := range s.Nodes[i].Pods {
			sum += chance(s.Now, &s.Nodes[i].Pods[k], within)
		}
	}
	if sum == 0 {
		return s
	}
	ends := int64(s.Ended) * whole * int64(within/time.Millisecond) / int64(model.RecentlyEnded/time.Millisecond)
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		if n.State != model.Initialized || n.Deleting || n.Cordoned {
			continue
		}
		var leaves model.Resources // in parts of whole
		for k := range n.Pods {
			x := &n.Pods[k]
			if c := min(chance(s.Now, x, within)*ends/sum, whole); c > 0 && x.Shape >= 0 && x.Shape < len(s.Shapes) {
				for r, v := range s.Shapes[x.Shape].Requests {
					leaves[r] += max(min(v, most), 0) * c
				}
			}
		}
		for r := range leaves {
			n.Used[r] -= leaves[r] / whole
		}
	}
	return &out
}

// whole is a chance of 1. Of a request no more than most counts: a pod's share does not overflow.
const whole, most = 1000, 1 << 45

// chance that the pod ends within a time, in parts of whole: 0 for those that never do, and those of which nobody knows how old they are.
func chance(now time.Time, x *model.BoundPod, within time.Duration) int64 {
	if x.Daemon || x.Terminal || x.Created.IsZero() {
		return 0
	}
	age := max(now.Sub(x.Created), 0)
	return int64(whole * (within / time.Millisecond) / ((min(age, 1<<50) + within) / time.Millisecond))
}
