package solve

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// Memory keeps the solutions of packing problems: most what-ifs of a cycle are those of the previous cycle, with the
// same pods at the same prices. It changes no plan, since equal problems have equal solutions. It must not be used by
// several goroutines at once.
type Memory struct {
	now, before map[[sha256.Size]byte]binpack.Solution
	text        []byte // scratch: the problem
}

// mostSolutions is the maximum number of solutions kept per cycle.
const mostSolutions = 10_000

// NewMemory returns a Memory that knows nothing.
func NewMemory() *Memory { return &Memory{now: map[[sha256.Size]byte]binpack.Solution{}} }

// Forget drops the solutions that were not used since the last call.
func (m *Memory) Forget() {
	m.before, m.now = m.now, make(map[[sha256.Size]byte]binpack.Solution, len(m.now))
}

// solve is binpack.Solve with remembered solutions, which callers must not change.
func (m *Memory) solve(p *binpack.Problem, o binpack.Options) binpack.Solution {
	m.text = m.text[:0]
	m.addProblem(p)
	m.add(o.Steps, int(o.Cutoff), truth(o.Spill), truth(o.SkipBound))
	key := sha256.Sum256(m.text)
	found, ok := m.now[key]
	if !ok {
		if found, ok = m.before[key]; !ok {
			found = binpack.Solve(p, o)
		}
		if len(m.now) >= mostSolutions {
			m.Forget()
		}
		m.now[key] = found
	}
	return found
}

// addProblem appends the problem, each list after its length, so that only equal problems have equal texts.
func (m *Memory) addProblem(p *binpack.Problem) {
	m.add(p.Dims, truth(p.Relaxed != nil))
	for _, items := range [][]binpack.Item{p.Items, p.Relaxed} {
		m.add(len(items))
		for i := range items {
			x := &items[i]
			addAll(m, x.Size[:p.Dims])
			m.add(x.Class, x.Group, x.Count, x.Relaxed)
			addAll(m, x.Slots)
		}
	}
	m.add(len(p.Bins))
	for i := range p.Bins {
		b := &p.Bins[i]
		addAll(m, b.Size[:p.Dims])
		m.add(int(b.Price), b.Pool)
		addAll(m, b.Open)
		addAll(m, b.Charge)
	}
	m.add(len(p.Pools))
	for i := range p.Pools {
		m.add(p.Pools[i].Count)
		addAll(m, p.Pools[i].Left)
	}
	addAll(m, p.Slots)
	m.add(len(p.Soft))
	for _, soft := range p.Soft {
		m.add(truth(soft))
	}
	m.add(len(p.Conflicts))
	for _, groups := range p.Conflicts {
		addAll(m, groups)
	}
}

func (m *Memory) add(numbers ...int) {
	for _, n := range numbers {
		m.text = binary.LittleEndian.AppendUint64(m.text, uint64(n))
	}
}

func addAll[S ~[]N, N int | int64 | uint64](m *Memory, list S) {
	m.add(len(list))
	for _, n := range list {
		m.text = binary.LittleEndian.AppendUint64(m.text, uint64(n))
	}
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
