package model

import "testing"

// In a cluster of which half of the pods of the last while are gone, half of the fee counts; where none ended, nothing does.
func TestTheChurnFeeCountsAsPodsComeAndGo(t *testing.T) {
	bound := make([]BoundPod, 30)
	bound[0].Daemon, bound[1].Terminal = true, true
	s := &Snapshot{Nodes: []Node{{Pods: bound}}}
	for _, c := range []struct {
		ended         int
		fee, nodeFee  Price
		wantedNodeFee Price
	}{
		{0, 0, 0, 0}, {0, 1_000_000, 5, 5}, {28, 0, 0, 150_000}, {28, 1_000_000, 5, 500_005}, {28, -1, 5, 5}, {28, 1 << 60, -7, 1 << 39}, {-3, 0, 0, 0},
	} {
		s.Ended = c.ended
		if got := (Policy{ChurnFee: c.fee, NodeFee: c.nodeFee}).At(s).NodeFee; got != c.wantedNodeFee {
			t.Errorf("%d ended, fee %d and %d: node fee %d, want %d", c.ended, c.fee, c.nodeFee, got, c.wantedNodeFee)
		}
	}
	s.Nodes, s.Ended = nil, 4
	if got := (Policy{}).At(s).NodeFee; got != defaultChurnFee {
		t.Errorf("all pods are gone: %d", got)
	}
}
