package view

import (
	"slices"
	"strings"
	"time"
)

// PoolRow is a NodePool as it is shown.
type PoolRow struct {
	Pool
	Sums
	Allowed [len(Reasons)]int // how many of its nodes may be disrupted at once now, by reason
}

// Pools returns a page of NodePools by name. Nodes without a NodePool, if any, are the last row, which has no name.
func (m *Model) Pools(now time.Time, q Query) Page[PoolRow] {
	m.mu.Lock()
	defer m.mu.Unlock()
	filter := ParseFilter(q.Filter)
	var lines []lineOf[string]
	field := func(key string) string { return "" }
	for name := range m.pools {
		if filter.matches(strings.ToLower(name), field) {
			lines = append(lines, lineOf[string]{key: name, of: name})
		}
	}
	slices.SortFunc(lines, func(a, b lineOf[string]) int { return Natural(a.key, b.key) })
	if m.perPool[""] != nil && filter.matches(NoPool, field) {
		lines = append(lines, lineOf[string]{key: NoPool})
	}
	p := Page[PoolRow]{Lines: len(lines), Of: len(m.pools), Shown: len(lines)}
	var seen []lineOf[string]
	p.Window, seen = window(lines, q.Window)
	for _, l := range seen {
		var r PoolRow
		if s := m.perPool[l.of]; s != nil {
			r.Sums = *s
		}
		if pool := m.pools[l.of]; pool != nil {
			r.Pool = *pool
			if pool.Allowed != nil {
				r.Allowed = pool.Allowed(now, r.Nodes)
			}
		}
		p.Rows = append(p.Rows, r)
	}
	return p
}

// NoPool is the key of the row of nodes without a NodePool.
const NoPool = "(no pool)"
