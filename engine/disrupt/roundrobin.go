package disrupt

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// byTurns orders nodes so that their pools take turns: the first of each pool that was not looked at yet, then the
// second of each. A pool with a thousand drifted nodes, or with some that cannot move, delays no other pool. Within a
// pool and a turn, nodes are ordered by driftKey; pools that have had no turn yet come first. Nodes that can be
// removed at once, or were looked at, take no turn and come first.
func (r *drift) byTurns(all []*model.Node, looked lookedAt, atOnce func(*model.Node) bool) []*model.Node {
	slices.SortFunc(all, r.byDrift)
	turn, next := make(map[*model.Node]int, len(all)), map[string]int{}
	for _, n := range all {
		if atOnce(n) || looked.has(n.Pool, r.driftKey(n)) {
			continue
		}
		if next[n.Pool] == 0 && looked[n.Pool] != "" {
			next[n.Pool] = 1 // it had its first turn
		}
		next[n.Pool]++
		turn[n] = next[n.Pool]
	}
	slices.SortStableFunc(all, func(a, b *model.Node) int { return cmp.Compare(turn[a], turn[b]) })
	return all
}

// lookedAt is the driftKey of the node that was looked at last, by pool.
type lookedAt map[string]string

// readLookedAt parses a cursor; it ignores what it cannot parse.
func readLookedAt(cursor string) lookedAt {
	out := lookedAt{}
	for _, one := range strings.Split(cursor, ",") {
		if pool, key, ok := strings.Cut(one, "="); ok {
			out[pool] = key
		}
	}
	return out
}

// String formats the cursor.
func (l lookedAt) String() string {
	var all []string
	for _, pool := range slices.Sorted(maps.Keys(l)) {
		all = append(all, pool+"="+l[pool])
	}
	return strings.Join(all, ",")
}

// has reports whether the pool's node with the key was looked at.
func (l lookedAt) has(pool, key string) bool { return key <= l[pool] }
