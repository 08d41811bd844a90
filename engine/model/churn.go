package model

import "math"

// defaultChurnFee is chosen by simulation: see docs/adr/0016-provisioning-knows-that-pods-come-and-go.md.
const defaultChurnFee Price = 300_000

// At is the policy for the cluster as it is: NodeFee is raised by as much of ChurnFee as the cluster churns. Where pods come and go, a
// machine outlives the pods that it was bought for, and the next ones use its room if it is large enough for them: few machines with
// common slack serve better than what fits this batch best. Where no pod has ended of late, nothing is raised.
func (p Policy) At(s *Snapshot) Policy {
	fee := p.ChurnFee
	if fee == 0 {
		fee = defaultChurnFee
	}
	if fee < 0 || s.Ended <= 0 {
		return p
	}
	p.NodeFee = max(p.NodeFee, 0) + Price(math.Round(float64(min(fee, 1<<40))*s.Churn()))
	return p
}

// Churn is, of the pods of the last RecentlyEnded, the share that has ended.
func (s *Snapshot) Churn() float64 {
	if s.Ended <= 0 {
		return 0
	}
	running := s.Running
	if running <= 0 {
		running = s.count()
	}
	return float64(s.Ended) / (float64(s.Ended) + float64(running))
}

// count is the pods on nodes, but daemons' and those that ended.
func (s *Snapshot) count() (running int) {
	for i := range s.Nodes {
		for k := range s.Nodes[i].Pods {
			if b := &s.Nodes[i].Pods[k]; !b.Daemon && !b.Terminal {
				running++
			}
		}
	}
	return running
}
