package ahead

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// DefaultBoot is the boot time assumed before any node has booted: nodes on EC2 take half a minute to a minute.
	DefaultBoot = time.Minute
	// maxBoots is how many boots are remembered per pool.
	maxBoots = 50
)

// boot is how long one node took from the creation of its NodeClaim until it was initialized.
type boot struct {
	claim types.UID
	at    time.Time
	took  time.Duration
}

// Boots are the durations of each pool's most recent node boots. They are read from the conditions of NodeClaims, so
// that those of existing claims need not be stored elsewhere. The zero value is empty. Boots is safe for concurrent
// use.
type Boots struct {
	mu     sync.Mutex
	byPool map[string][]boot // in the order in which their NodeClaims were created
}

// Observe records the boots of NodeClaims.
func (b *Boots) Observe(claims []*karpv1.NodeClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byPool == nil {
		b.byPool = map[string][]boot{}
	}
	for _, claim := range claims {
		done := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized)
		if !done.IsTrue() {
			continue
		}
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		x := boot{claim.UID, claim.CreationTimestamp.Time, done.LastTransitionTime.Sub(claim.CreationTimestamp.Time)}
		known := b.byPool[pool]
		if slices.ContainsFunc(known, func(have boot) bool { return have.claim == x.claim }) {
			continue
		}
		at, _ := slices.BinarySearchFunc(known, x, func(a, b boot) int {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.claim, b.claim))
		})
		known = slices.Insert(known, at, x)
		b.byPool[pool] = known[max(0, len(known)-maxBoots):]
	}
}

// of returns the boot times of a pool's nodes in ascending order, or those of all pools if the pool has none. Until
// maxBoots are known, one DefaultBoot stands for those that have not been seen.
func (b *Boots) of(pool string) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []time.Duration
	take := func(boots []boot) {
		for _, x := range boots {
			out = append(out, x.took)
		}
	}
	take(b.byPool[pool])
	if len(out) == 0 {
		for _, boots := range b.byPool {
			take(boots)
		}
	}
	if len(out) < maxBoots {
		out = append(out, DefaultBoot)
	}
	slices.Sort(out)
	return out
}

// longest returns the longest boot of all pools, at least DefaultBoot.
func (b *Boots) longest() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := DefaultBoot
	for _, boots := range b.byPool {
		for _, x := range boots {
			out = max(out, x.took)
		}
	}
	return out
}

// quantile returns the smallest of the sorted durations that at least the given share of them does not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	at := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}
