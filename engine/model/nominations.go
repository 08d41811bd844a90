package model

// NominatedNodes returns the nodes on which the plan places real pods; placeholders never arrive, and pods of which
// only a template is known may arrive as others.
func (p *Plan) NominatedNodes(s *Snapshot) map[string]bool {
	out, never, uncertain := map[string]bool{}, s.Placeholders(), s.FromTemplates()
	for _, x := range p.Placements {
		if !never[x.Pod] && !uncertain[x.Pod] {
			out[x.Node] = true
		}
	}
	return out
}

// FromTemplates returns the expected pods of which only a template is known, nil if there are none.
func (s *Snapshot) FromTemplates() map[PodKey]bool {
	return keysOf(s.Expected, func(p *Pod) bool { return p.FromTemplate })
}

// Placeholders returns the Virtual pods among the pending ones, nil if there are none.
func (s *Snapshot) Placeholders() map[PodKey]bool {
	return keysOf(s.Pending, func(p *Pod) bool { return p.Virtual })
}

// keysOf returns those of the pods that are in the set, nil if none is.
func keysOf(pods []Pod, in func(*Pod) bool) map[PodKey]bool {
	var out map[PodKey]bool
	for i := range pods {
		if in(&pods[i]) {
			if out == nil {
				out = map[PodKey]bool{}
			}
			out[pods[i].PodKey] = true
		}
	}
	return out
}

// PendingClaims returns, by pod, the claim of the node on which the plan places a waiting or expected pod.
// Initialized nodes count only for pods that are nominated there already. claims maps the IDs of the plan's launches
// to their claims.
func (p *Plan) PendingClaims(s *Snapshot, claims map[string]string) map[PodKey]string {
	if len(p.Launches)+len(p.Placements) == 0 {
		return nil
	}
	nominated := make(map[PodKey]string, len(s.Pending)) // nominations of the pods that can have one
	for i := range s.Pending {
		if pod := &s.Pending[i]; pod.From == "" && !pod.Virtual {
			nominated[pod.PodKey] = pod.Nominated
		}
	}
	for i := range s.Expected {
		nominated[s.Expected[i].PodKey] = s.Expected[i].Nominated
	}
	promised := map[PodKey]string{}
	for i := range p.Launches {
		claim, ok := claims[p.Launches[i].ID]
		for _, pod := range p.Launches[i].Pods {
			if _, waits := nominated[pod]; ok && waits {
				promised[pod] = claim
			}
		}
	}
	on := make(map[string]*Node, len(s.Nodes))
	for i := range s.Nodes {
		on[s.Nodes[i].Name] = &s.Nodes[i]
	}
	for _, at := range p.Placements {
		n := on[at.Node]
		was, waits := nominated[at.Pod]
		if n == nil || n.Claim == "" || !waits || n.State == Initialized && was != n.Name {
			continue
		}
		promised[at.Pod] = n.Claim
	}
	return promised
}
