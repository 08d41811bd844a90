package solve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// group is the pods of one shape that still wait, most important first. Placeholders have groups of their own.
type group struct {
	index   int // of the shape
	shape   *model.Shape
	class   int
	request model.Resources
	pods    []int // indices into Snapshot.Pending
	parts   []part
	aside   bool             // see setAside
	rest    bool             // its constraints are for engine/solve/internal/firstfit
	planned int              // pods that engine/solve/internal/firstfit put on machines
	refused model.Rule       // why it gets nothing; "" if that is for the pools to say
	slots   []int            // on one machine: see apart
	spreads []int            // those of the slots that only spread
	zones   []string         // that were counted with when it was spread; nil if it was not
	rates   map[string]int64 // by zone: what its machines would cost there, see feasible
	kind    int
}

// part is some pods of a group for which the same is open.
type part struct {
	class int
	n     int
}

// left is how many pods still wait.
func (g *group) left() int { return len(g.pods) }

// group gathers the pending pods by shape. Pods that the engine cannot decide, and those that nothing can help yet, are
// answered here.
func (p *problem) group() {
	type key struct {
		shape    int
		virtual  bool
		priority int32 // only where that decides
	}
	known := map[key]*group{}
	for i := range p.s.Pending {
		pod := &p.s.Pending[i]
		if pod.Shape < 0 || pod.Shape >= len(p.s.Shapes) {
			p.refuse(i, model.Reason{Rule: model.RuleUnmodelled, Object: "shape", Detail: fmt.Sprintf("index %d of %d", pod.Shape, len(p.s.Shapes))})
			continue
		}
		shape := &p.s.Shapes[pod.Shape]
		switch {
		case len(shape.Unmodelled) > 0:
			p.refuse(i, model.Reason{Rule: model.RuleUnmodelled, Object: shape.Unmodelled[0], Detail: strings.Join(shape.Unmodelled, ", ")})
			continue
		case shape.Blocked != "":
			p.refuse(i, model.Reason{Rule: model.RuleBlocked, Detail: shape.Blocked})
			continue
		}
		k := key{shape: pod.Shape, virtual: pod.Virtual}
		if p.known.short {
			k.priority = pod.Priority
		}
		g := known[k]
		if g == nil {
			g = &group{index: pod.Shape, shape: shape, request: shape.Requests.NonNegative()}
			if p.classOf != nil {
				g.class = p.addClass(shape)
			}
			known[k] = g
			p.groups = append(p.groups, g)
		}
		g.pods = append(g.pods, i)
	}
	for _, g := range p.groups {
		byPriority := func(a, b int) int { return cmp.Compare(p.s.Pending[b].Priority, p.s.Pending[a].Priority) }
		if !slices.IsSortedFunc(g.pods, byPriority) {
			slices.SortStableFunc(g.pods, byPriority)
		}
	}
	slices.SortStableFunc(p.groups, p.bySize)
}

// bySize puts the group that is most important first, then the one that is hardest to place: rare resources, then the larger
// of cpu and memory at one core to 4 GiB; ties by key, so that equal clusters give equal plans. Placeholders come last.
func (p *problem) bySize(a, b *group) int {
	return cmp.Or(cmp.Compare(p.placeholders(a), p.placeholders(b)), cmp.Compare(p.priority(b), p.priority(a)), cmp.Compare(rare(b), rare(a)), cmp.Compare(size(b), size(a)),
		cmp.Compare(a.shape.Key, b.shape.Key))
}

// priority is that of a group's most important pod.
func (p *problem) priority(g *group) int32 { return p.s.Pending[g.pods[0]].Priority }

// placeholders is 1 for a group of virtual pods, 0 for one of pods that somebody waits for.
func (p *problem) placeholders(g *group) int {
	if p.s.Pending[g.pods[0]].Virtual {
		return 1
	}
	return 0
}

func rare(g *group) int64 {
	var n int64
	for i := model.Pods + 1; i < model.MaxResources; i++ {
		n = max(n, g.request[i])
	}
	return n
}

func size(g *group) int64 {
	return max(g.request[model.CPU], g.request[model.Memory]/(4<<30/1000))
}
