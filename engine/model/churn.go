package model

import (
	"math"
	"time"
)

// Churning is the Churn from which on pods come and go: as many have ended in the last RecentlyEnded as run.
const Churning = 1.0 / 2

// fewestEnded: fewer ends than that are no sign that others will come.
const fewestEnded = 30

// defaultPatience and defaultChurnSaving are chosen by simulation: see
// docs/adr/0033-where-pods-come-and-go-new-ones-wait-for-others-to-end.md.
const (
	defaultPatience    = 40 * time.Second
	defaultChurnSaving = 60
)

// defaultChurnFee is chosen by simulation: see docs/adr/0016-provisioning-knows-that-pods-come-and-go.md.
const defaultChurnFee Price = 300_000

// At is the policy for the cluster as it is: NodeFee is raised by as much of ChurnFee as the cluster churns. Where
// pods come and go, a node outlives the pods that it was bought for, and the next ones use its room if it is large
// enough for them: few nodes with common slack serve better than what fits this batch best. Where no pod has ended
// of late, nothing is raised.
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

// Churns reports whether pods come and go, and so many that one can count on it.
func (s *Snapshot) Churns() bool { return s.Ended >= fewestEnded && s.Churn() >= Churning }

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

// Patient is for how long pods wait for others to end before a node is launched for them; 0 where pods do not come
// and go.
func (p *Policy) Patient(s *Snapshot) time.Duration {
	if p.Patience < 0 || !s.Churns() {
		return 0
	}
	if p.Patience == 0 {
		return defaultPatience
	}
	return p.Patience
}

// LeastSaving is what consolidation must save of what the nodes that go cost, in percent, whatever their pools want.
func (p *Policy) LeastSaving(s *Snapshot) int {
	if p.ChurnSaving < 0 || !s.Churns() {
		return 0
	}
	if p.ChurnSaving == 0 {
		return defaultChurnSaving
	}
	return min(p.ChurnSaving, 100)
}

// Costs is what the nodes of each pool cost an hour that are not going.
func (s *Snapshot) Costs() map[string]Price {
	out := map[string]Price{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; !n.Deleting {
			out[n.Pool] += min(max(n.Price, 0), 1<<40)
		}
	}
	return out
}
