package disrupt

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// byTurns orders machines that are to be replaced such that their pools take turns: of each pool the first that was not looked at yet,
// then of each the second. A pool with a thousand drifted machines, or with some that can go nowhere, keeps no other one
// waiting. In each pool, and among those whose turn it is, they are by how long ago they drifted; pools that had no turn since
// the beginning are before others. What can go at once, or was looked at, takes no turn and is first.
func (r *run) byTurns(all []*model.Node, looked lookedAt, atOnce func(*model.Node) bool) []*model.Node {
	slices.SortFunc(all, r.byDrift)
	turn, next := make(map[*model.Node]int, len(all)), map[string]int{}
	for _, n := range all {
		if atOnce(n) || looked.has(n.Pool, r.driftKey(n)) {
			continue
		}
		if next[n.Pool] == 0 && looked[n.Pool] != "" {
			next[n.Pool] = 1 // it had the first one
		}
		next[n.Pool]++
		turn[n] = next[n.Pool]
	}
	slices.SortStableFunc(all, func(a, b *model.Node) int { return cmp.Compare(turn[a], turn[b]) })
	return all
}

// lookedAt says of each pool which of its drifted machines was looked at last, by driftKey.
type lookedAt map[string]string

// readLookedAt is of a cursor's text; what cannot be read is as if the pool had no turn yet.
func readLookedAt(cursor string) lookedAt {
	out := lookedAt{}
	for _, one := range strings.Split(cursor, ",") {
		if pool, key, ok := strings.Cut(one, "="); ok {
			out[pool] = key
		}
	}
	return out
}

// String is the cursor's text.
func (l lookedAt) String() string {
	var all []string
	for _, pool := range slices.Sorted(maps.Keys(l)) {
		all = append(all, pool+"="+l[pool])
	}
	return strings.Join(all, ",")
}

// has reports whether the pool's machine with the key was looked at.
func (l lookedAt) has(pool, key string) bool { return key <= l[pool] }
