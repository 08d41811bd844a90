package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Shapes returns the shapes of the pods that violations are about: pods, and those of launches and placed on nodes.
// Violations of pools or of the whole plan are about no pods.
func Shapes(s *model.Snapshot, plan *model.Plan, found []Violation) map[int]bool {
	objects, shapes := objectsOf(found), map[int]bool{}
	for i := range plan.Launches {
		for _, k := range plan.Launches[i].Pods {
			objects[podName(k)] = objects[podName(k)] || objects["launch "+plan.Launches[i].ID]
		}
	}
	for _, p := range plan.Placements {
		objects[podName(p.Pod)] = objects[podName(p.Pod)] || objects["node "+p.Node]
	}
	for _, pods := range [][]model.Pod{s.Pending, s.Expected} {
		for i := range pods {
			if objects[podName(pods[i].PodKey)] {
				shapes[pods[i].Shape] = true
			}
		}
	}
	return shapes
}

// Spared returns a plan without the removals and commands that violations are about: those named, and those of nodes,
// pools, launches and pods that are named.
func Spared(plan model.Plan, found []Violation) model.Plan {
	objects := objectsOf(found)
	removal := func(r model.Removal) bool { return objects["node "+r.Node] || objects["pool "+r.Pool] }
	pod := func(k model.PodKey) bool { return objects[podName(k)] }
	plan.Removals = slices.DeleteFunc(slices.Clone(plan.Removals), removal)
	plan.Commands = slices.DeleteFunc(slices.Clone(plan.Commands), func(c model.Command) bool {
		return objects["command "+c.ID] || slices.ContainsFunc(c.Removals, removal) ||
			slices.ContainsFunc(c.Placements, func(p model.Placement) bool { return pod(p.Pod) || objects["node "+p.Node] }) ||
			slices.ContainsFunc(c.Launches, func(l model.Launch) bool {
				return objects["launch "+l.ID] || objects["pool "+l.Pool] || slices.ContainsFunc(l.Pods, pod)
			})
	})
	return plan
}

func objectsOf(found []Violation) map[string]bool {
	out := map[string]bool{}
	for _, v := range found {
		out[v.Object] = true
	}
	return out
}
