package model

// Nominees are the machines on which the plan places pods that will come there. A placeholder never comes.
func (p *Plan) NominatedNodes(s *Snapshot) map[string]bool {
	out, never := map[string]bool{}, virtual(s)
	for _, x := range p.Placements {
		if !never[x.Pod] {
			out[x.Node] = true
		}
	}
	return out
}

// virtual are the placeholders among the pods that wait, nil if there are none.
func virtual(s *Snapshot) map[PodKey]bool {
	var out map[PodKey]bool
	for i := range s.Pending {
		if s.Pending[i].Virtual {
			if out == nil {
				out = map[PodKey]bool{}
			}
			out[s.Pending[i].PodKey] = true
		}
	}
	return out
}

// Promises are the claims of the machines that are yet to be ready and on which a plan gives pods that wait their places, by pod;
// claims has those of its launches.
func (p *Plan) PendingClaims(s *Snapshot, claims map[string]string) map[PodKey]string {
	if len(p.Launches)+len(p.Placements) == 0 {
		return nil
	}
	nominated := make(map[PodKey]string, len(s.Pending)) // pods that can be
	for i := range s.Pending {
		if pod := &s.Pending[i]; pod.From == "" && !pod.Virtual {
			nominated[pod.PodKey] = pod.Nominated
		}
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
