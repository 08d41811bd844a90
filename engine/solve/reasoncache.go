package solve

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// maxVerdicts is the number of pools whose verdicts a cached Reason keeps. With a thousand pools and ten thousand
// shapes, all verdicts would fill gigabytes.
const maxVerdicts = 20

// maxReasonAge is how long a cached Reason counts as current: the change that it suggests may depend on other pods.
const maxReasonAge = 5 * time.Minute

// ReasonCache keeps the Reasons of shapes for which no pool can launch anything, from one plan to the next. It is not
// safe for concurrent use.
type ReasonCache struct {
	now     time.Time
	pools   []model.Pool
	daemons []model.Daemon
	epoch   int                      // counts the times that a pool has changed
	before  map[string]*cachedReason // by shape key
	known   map[string]*cachedReason
}

// cachedReason is a Reason, and when it was found.
type cachedReason struct {
	reason model.Reason
	epoch  int
	at     time.Time
}

// begin starts the explanations for another snapshot.
func (c *ReasonCache) begin(s *model.Snapshot) {
	if !samePools(c.pools, s.Pools) || !sameSlice(c.daemons, s.Daemons) {
		c.epoch++
	}
	c.now, c.pools, c.daemons = s.Now, s.Pools, s.Daemons
	c.before, c.known = c.known, map[string]*cachedReason{}
}

// end drops the Reasons that this plan did not use.
func (c *ReasonCache) end() { c.before = nil }

// recall returns the Reason of a shape from an earlier plan, nil if there is none.
func (c *ReasonCache) recall(s *model.Shape) *cachedReason {
	if c == nil {
		return nil
	}
	r := c.before[s.Key]
	if r != nil && r.current(c) {
		c.known[s.Key] = r
	}
	return r
}

func (c *ReasonCache) keep(s *model.Shape, r *cachedReason) { c.known[s.Key] = r }

func (c *ReasonCache) learn(s *model.Shape, reason model.Reason) {
	c.known[s.Key] = &cachedReason{reason: reason, epoch: c.epoch, at: c.now}
}

// current reports whether the Reason still holds.
func (r *cachedReason) current(c *ReasonCache) bool {
	return r.epoch == c.epoch && c.now.Sub(r.at) < maxReasonAge
}

// since orders shapes to explain: those without a Reason first, then the oldest Reasons.
func (r *cachedReason) since() int64 {
	if r == nil {
		return 0
	}
	return max(r.at.UnixNano(), 1)
}

// samePools compares what pools can launch. Snapshots share whatever did not change, so slices are compared by
// identity.
func samePools(a, b []model.Pool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		limited := x.Limits.NodesSet || rules.Limited(&x.Limits)
		if x.Name != y.Name || x.Weight != y.Weight || x.NotReady != y.NotReady ||
			x.Static != y.Static || x.Limits != y.Limits ||
			limited && (x.Usage != y.Usage || x.NodeCount != y.NodeCount) ||
			!sameSlice(x.Types, y.Types) || !sameSlice(x.Requirements, y.Requirements) || !sameSlice(x.Taints, y.Taints) {
			return false
		}
	}
	return true
}

func sameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// keepNearest keeps the verdicts of the limit pools that came nearest to a node, in the order of the pools.
func keepNearest(r *model.Reason, limit int) {
	if len(r.Pools) <= limit {
		return
	}
	order := make([]int, len(r.Pools))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(rules.Progress(r.Pools[b].Rule), rules.Progress(r.Pools[a].Rule))
	})
	order = order[:limit]
	slices.Sort(order)
	kept := make([]model.PoolVerdict, limit)
	for k, i := range order {
		kept[k] = r.Pools[i]
	}
	r.More, r.Pools = len(r.Pools)-limit, kept
}
