package solve

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// mostPools is of how many pools a Reason that is remembered keeps the verdicts: with a thousand pools and ten
// thousand shapes all of them would fill gigabytes.
const mostPools = 20

// refreshAfter is how long a Reason is taken for current at most: the change that it names may depend on other pods.
const refreshAfter = 5 * time.Minute

// Memory keeps, from one plan to the next, why shapes for which no pool can launch anything get nothing. It is not
// safe for concurrent use.
type Memory struct {
	now     time.Time
	pools   []model.Pool
	daemons []model.Daemon
	epoch   int                    // counts the times that a pool has changed
	before  map[string]*remembered // by shape key
	known   map[string]*remembered
}

// remembered is a Reason, and when it was found.
type remembered struct {
	reason model.Reason
	epoch  int
	at     time.Time
}

// NewMemory is one that knows nothing yet.
func NewMemory() *Memory { return &Memory{} }

// begin turns to another snapshot.
func (m *Memory) begin(s *model.Snapshot) {
	if !samePools(m.pools, s.Pools) || !same(m.daemons, s.Daemons) {
		m.epoch++
	}
	m.now, m.pools, m.daemons = s.Now, s.Pools, s.Daemons
	m.before, m.known = m.known, map[string]*remembered{}
}

// end forgets the shapes of which no pod was refused.
func (m *Memory) end() { m.before = nil }

// recall is what is known of a shape, nil if nothing is.
func (m *Memory) recall(s *model.Shape) *remembered {
	if m == nil {
		return nil
	}
	r := m.before[s.Key]
	if r != nil && r.current(m) {
		m.known[s.Key] = r
	}
	return r
}

func (m *Memory) keep(s *model.Shape, r *remembered) { m.known[s.Key] = r }

func (m *Memory) learn(s *model.Shape, reason model.Reason) {
	m.known[s.Key] = &remembered{reason: reason, epoch: m.epoch, at: m.now}
}

// current reports whether the Reason is as true as when it was found.
func (r *remembered) current(m *Memory) bool {
	return r.epoch == m.epoch && m.now.Sub(r.at) < refreshAfter
}

// since orders what is to be found out: first what is not known at all, then what is known for longest.
func (r *remembered) since() int64 {
	if r == nil {
		return 0
	}
	return max(r.at.UnixNano(), 1)
}

// samePools compares what pools can launch: snapshots share what has not changed.
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
			!same(x.Types, y.Types) || !same(x.Requirements, y.Requirements) || !same(x.Taints, y.Taints) {
			return false
		}
	}
	return true
}

func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// keepNearest leaves the verdicts of so many pools, those that came nearest to a node, in the order of the pools.
func keepNearest(r *model.Reason, most int) {
	if len(r.Pools) <= most {
		return
	}
	order := make([]int, len(r.Pools))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(rules.Progress(r.Pools[b].Rule), rules.Progress(r.Pools[a].Rule))
	})
	order = order[:most]
	slices.Sort(order)
	kept := make([]model.PoolVerdict, most)
	for k, i := range order {
		kept[k] = r.Pools[i]
	}
	r.More, r.Pools = len(r.Pools)-most, kept
}
