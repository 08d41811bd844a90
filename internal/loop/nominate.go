package loop

import "github.com/nodeless/nodeless/engine/model"

// nominees are the machines on which a plan places pods that will come there. A placeholder never comes.
func nominees(s *model.Snapshot, p *model.Plan) map[string]bool {
	out, never := map[string]bool{}, virtual(s)
	for _, x := range p.Placements {
		if !never[x.Pod] {
			out[x.Node] = true
		}
	}
	return out
}

// virtual are the placeholders among the pods that wait, nil if there are none.
func virtual(s *model.Snapshot) map[model.PodKey]bool {
	var out map[model.PodKey]bool
	for i := range s.Pending {
		if s.Pending[i].Virtual {
			if out == nil {
				out = map[model.PodKey]bool{}
			}
			out[s.Pending[i].PodKey] = true
		}
	}
	return out
}

// promises are the claims of the machines that are yet to be ready and on which a plan gives pods that wait their places, by pod;
// claims has those of its launches.
func promises(s *model.Snapshot, p *model.Plan, claims map[string]string) map[model.PodKey]string {
	if len(p.Launches)+len(p.Placements) == 0 {
		return nil
	}
	nominated := make(map[model.PodKey]string, len(s.Pending)) // pods that can be
	for i := range s.Pending {
		if pod := &s.Pending[i]; pod.From == "" && !pod.Virtual {
			nominated[pod.PodKey] = pod.Nominated
		}
	}
	promised := map[model.PodKey]string{}
	for i := range p.Launches {
		claim, ok := claims[p.Launches[i].ID]
		for _, pod := range p.Launches[i].Pods {
			if _, waits := nominated[pod]; ok && waits {
				promised[pod] = claim
			}
		}
	}
	on := make(map[string]*model.Node, len(s.Nodes))
	for i := range s.Nodes {
		on[s.Nodes[i].Name] = &s.Nodes[i]
	}
	for _, at := range p.Placements {
		n := on[at.Node]
		was, waits := nominated[at.Pod]
		if n == nil || n.Claim == "" || !waits || n.State == model.Initialized && was != n.Name {
			continue
		}
		promised[at.Pod] = n.Claim
	}
	return promised
}
