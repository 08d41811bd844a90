package engine

import "github.com/nodeless/nodeless/engine/model"

// keepMinimum limits what the pools allow to remove to the nodes that they need not keep. A node that another one of
// its pool replaces counts too: the two are not exchanged at the same moment.
func keepMinimum(s *model.Snapshot, pools map[string]*model.Pool) {
	for _, p := range pools {
		if p.MinNodes <= 0 {
			continue
		}
		d := &p.Disruption
		for _, allowed := range []*int{&d.AllowedEmpty, &d.AllowedDrifted, &d.AllowedUnderused} {
			*allowed = min(*allowed, int(beyondMinimum(s, p))) // shut remains shut
		}
	}
}

// beyondMinimum returns how many nodes the pool has beyond those that it must keep.
func beyondMinimum(s *model.Snapshot, p *model.Pool) int64 {
	running := int64(0)
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Pool == p.Name && n.Claim != "" && !n.Deleting {
			running++
		}
	}
	return max(running-p.MinNodes, 0)
}
