package check

import "github.com/nodeless/nodeless/engine/model"

// Shapes returns the shapes of the pods that violations are about: pods, and those of launches and placed on nodes.
// Violations of pools or of the whole plan are about no pods.
func Shapes(s *model.Snapshot, plan *model.Plan, found []Violation) map[int]bool {
	objects, shapes := map[string]bool{}, map[int]bool{}
	for _, v := range found {
		objects[v.Object] = true
	}
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
