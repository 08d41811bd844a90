package check

import "github.com/nodeless/nodeless/engine/model"

// removals: only machines of ours that are ready, empty, not protected, not needed, and within their pool's budget go.
func (j *judge) removals() {
	placed := map[string]bool{}
	for _, p := range j.plan.Placements {
		placed[p.Node] = true
	}
	empty, all, drifted, seen := map[string]int{}, map[string]int{}, map[string]int{}, map[string]bool{}
	for _, r := range j.plan.Removals {
		n, object := j.nodes[r.Node], "node "+r.Node
		if n == nil || j.pools[n.Pool] == nil || seen[r.Node] {
			j.fail("exists", object, "is removed twice, or it or its pool is not in the snapshot")
			continue
		}
		seen[r.Node] = true
		if n.Claim == "" || n.Claim != r.Claim || n.Pool != r.Pool || n.Price != r.Saves {
			j.fail("managed", object, "the removal is not about claim %q of pool %q", n.Claim, n.Pool)
		}
		if placed[r.Node] {
			j.fail("needed", object, "is removed although a pod is placed there")
		}
		j.mayGo(n, r.Method, object)
		all[n.Pool]++
		switch r.Method {
		case model.Empty:
			empty[n.Pool]++
		case model.Drifted:
			drifted[n.Pool]++
		default:
			j.fail("method", object, "method %q is not known", r.Method)
		}
	}
	for i := range j.s.Pools {
		p := &j.s.Pools[i]
		if empty[p.Name] > max(p.Disruption.AllowedEmpty, 0) || drifted[p.Name] > 0 && all[p.Name] > p.Disruption.AllowedDrifted {
			j.fail("budget", "pool "+p.Name, "%d empty and %d drifted go, %d and %d are allowed",
				empty[p.Name], drifted[p.Name], p.Disruption.AllowedEmpty, p.Disruption.AllowedDrifted)
		}
	}
}

func (j *judge) mayGo(n *model.Node, m model.Method, object string) {
	d := j.pools[n.Pool].pool.Disruption
	if n.State != model.Initialized || n.Deleting || n.DoNotDisrupt {
		j.fail("disruptable", object, "is not initialized, is going already, or must not be disrupted")
	}
	for _, p := range n.Pods {
		if p.Terminal {
			continue
		}
		if !p.Daemon || p.DoNotDisrupt {
			j.fail("empty", object, "%s is still there", podName(p.PodKey))
		}
	}
	if m == model.Drifted && n.Drifted == "" {
		j.fail("drifted", object, "has not drifted")
	}
	if m != model.Empty {
		return
	}
	quiet := n.Initialized
	if n.LastPodEvent.After(quiet) {
		quiet = n.LastPodEvent
	}
	if d.Never || j.s.Now.Before(quiet.Add(d.ConsolidateAfter)) {
		j.fail("consolidateAfter", object, "is not quiet for long enough")
	}
}
