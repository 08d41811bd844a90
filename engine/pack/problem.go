package pack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// defaultSteps is how often a group of pods may be tried on a candidate machine before the search is cut: about a second
// of work.
const defaultSteps = 50_000_000

// class is what pods with the same constraints share.
type class struct {
	shape   *model.Shape     // any shape of the class: its requests and preferences do not matter here
	options [][]rules.Option // by view; none where the pool is closed to the class
	tiers   [][]candidate    // by tier, see candidates
	rates   [model.MaxResources]rate
	onNode  map[string]bool
	banned  []bool // by view: minValues cannot be kept there
}

// group is the pods of one shape that still wait, most important first.
type group struct {
	shape   *model.Shape
	class   int
	request model.Resources
	pods    []int // indices into Snapshot.Pending
	left    int
	value   uint64 // what one pod is worth, see rate
	tier    int    // the weight tier from which it would now get a machine
}

// problem is one call's working state.
type problem struct {
	s        *model.Snapshot
	maxTypes int
	steps    int // still allowed
	partial  bool
	classes  []*class
	groups   []*group // in the order in which they are packed
	active   []int    // resources that some group requests
	views    []*rules.View
	rooms    []rules.Room // by view
	tiers    [][]int      // views by weight, heaviest first
	plan     model.Plan
}

// Provision gives every pending pod a place, a launch or a Reason.
func Provision(s *model.Snapshot, policy model.Policy) model.Plan {
	p := &problem{s: s, maxTypes: policy.MaxTypes, steps: policy.MaxSteps}
	if p.maxTypes <= 0 {
		p.maxTypes = 60
	}
	if p.steps <= 0 {
		p.steps = defaultSteps
	}
	p.group()
	p.place()
	if slices.ContainsFunc(p.groups, func(g *group) bool { return g.left > 0 }) {
		p.open()
		p.launch(p.search())
		p.answer()
	}
	p.plan.Partial = p.partial
	p.sort()
	return p.plan
}

// group gathers the pending pods by shape. Pods that the engine cannot decide are answered here.
func (p *problem) group() {
	byShape := make([]*group, len(p.s.Shapes))
	classes := map[string]int{}
	for i := range p.s.Pending {
		pod := &p.s.Pending[i]
		if pod.Shape < 0 || pod.Shape >= len(p.s.Shapes) {
			p.refuse(i, model.Reason{Rule: model.RuleUnmodelled, Object: "shape", Detail: fmt.Sprintf("index %d of %d", pod.Shape, len(p.s.Shapes))})
			continue
		}
		shape := &p.s.Shapes[pod.Shape]
		if len(shape.Unmodelled) > 0 {
			p.refuse(i, model.Reason{Rule: model.RuleUnmodelled, Object: shape.Unmodelled[0], Detail: strings.Join(shape.Unmodelled, ", ")})
			continue
		}
		g := byShape[pod.Shape]
		if g == nil {
			g = &group{shape: shape, class: p.classOf(shape, classes), request: shape.Requests.NonNegative()}
			byShape[pod.Shape] = g
			p.groups = append(p.groups, g)
		}
		g.pods = append(g.pods, i)
	}
	var asked model.Resources
	for _, g := range p.groups {
		g.left = len(g.pods)
		asked = asked.Max(g.request)
		slices.SortStableFunc(g.pods, func(a, b int) int {
			return cmp.Compare(p.s.Pending[b].Priority, p.s.Pending[a].Priority)
		})
	}
	for i, n := range asked {
		if n > 0 {
			p.active = append(p.active, i)
		}
	}
	slices.SortStableFunc(p.groups, bySize)
}

// bySize puts the group that is hardest to place first, before prices are known: rare resources, then the larger of cpu
// and memory at one core to 4 GiB; ties by key, so that equal clusters give equal plans.
func bySize(a, b *group) int {
	return cmp.Or(cmp.Compare(rare(b), rare(a)), cmp.Compare(size(b), size(a)), cmp.Compare(a.shape.Key, b.shape.Key))
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

func (p *problem) classOf(s *model.Shape, known map[string]int) int {
	var key strings.Builder
	key.WriteString(s.Required.String())
	for _, term := range s.AnyOf {
		key.WriteString(" | ")
		key.WriteString(term.String())
	}
	for _, t := range s.Tolerations {
		fmt.Fprintf(&key, " ~ %q %q %v %q", t.Key, t.Value, t.Exists, t.Effect)
	}
	i, ok := known[key.String()]
	if !ok {
		i = len(p.classes)
		known[key.String()] = i
		p.classes = append(p.classes, &class{shape: s, onNode: map[string]bool{}})
	}
	return i
}

// open prepares pools, options and prices for what found no place.
func (p *problem) open() {
	for i := range p.s.Pools {
		v := rules.NewView(&p.s.Pools[i], p.s.Daemons)
		p.views = append(p.views, v)
		p.rooms = append(p.rooms, v.Room())
	}
	order := make([]int, len(p.views))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.s.Pools[b].Weight, p.s.Pools[a].Weight) })
	for i, v := range order {
		if i == 0 || p.s.Pools[v].Weight != p.s.Pools[order[i-1]].Weight {
			p.tiers = append(p.tiers, nil)
		}
		last := len(p.tiers) - 1
		p.tiers[last] = append(p.tiers[last], v)
	}
	for _, c := range p.classes {
		c.tiers = make([][]candidate, len(p.tiers))
		c.banned = make([]bool, len(p.views))
		for _, v := range p.views {
			c.options = append(c.options, optionsIn(v, c.shape))
		}
	}
	for _, c := range p.classes {
		p.price(c)
	}
	for _, g := range p.groups {
		g.value = p.valueOf(g)
		p.nextTier(g)
	}
	slices.SortStableFunc(p.groups, func(a, b *group) int { return cmp.Compare(b.value, a.value) })
}

func optionsIn(v *rules.View, s *model.Shape) []rules.Option {
	if v.Pool.NotReady != "" {
		return nil
	}
	if _, bad := model.Untolerated(v.Pool.Taints, s.Tolerations); bad {
		return nil
	}
	return v.Options(s.Required, s.AnyOf)
}
