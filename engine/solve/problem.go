package solve

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// problem is the working state of one attempt, shared by its steps.
type problem struct {
	s       *model.Snapshot
	policy  *model.Policy
	cluster *Cluster // what is known of the cluster beyond one attempt
	state   *rules.State
	order   *rules.Order // of the existing nodes that take pods
	feedback
	lacking feedback // what this attempt adds
	steps   int      // still allowed
	partial bool

	groups     []*group // in the order in which they are placed
	infeasible []*group // those that were set aside
	classes    *classTable
	lookers    map[int]int // by counter: waiting groups that depend on it

	*market // empty until something has to be launched
	builder *nodeBuilder
	active  []int    // resources that some group requests
	drivers []string // of volumes with attach limits that some group uses
	separation

	level   *int32 // priority of the pods whose turn it is to choose; nil = all
	nodes   []*plannedNode
	settled []settled
	dropped bool // a node that firstfit planned has no offering
	bound   model.Price
	plan    model.Plan
}

// settled is a pod that was placed on an existing node when it was known where others are planned.
type settled struct {
	group     *group
	pod, node int
}

// group is the pods of one shape that still wait, most important first. Placeholders have groups of their own.
type group struct {
	key           groupKey
	index         int // of the shape
	shape         *model.Shape
	class         int
	request       model.Resources
	pods          []int // indices into Snapshot.Pending
	parts         []part
	atMost        int // pods that get zones if it spreads over them: see feedback
	setAside      bool
	leftover      bool             // firstfit handles its constraints
	planned       int              // pods that firstfit put on planned nodes
	early         bool             // a node that is not launched yet was considered for it, and it spreads
	refused       model.Rule       // why it cannot be placed; "" if the pools say why
	slots         []int            // on one node: see separation
	spreadSlots   []int            // those of the slots that only spread
	conflictGroup int              // index into separation.conflictGroups
	zones         []string         // that its spread accounts for; nil if it was not spread
	rates         map[string]int64 // by zone: what its nodes would cost there, see zoning.feasible
}

// groupKey distinguishes groups.
type groupKey struct {
	shape    int
	virtual  bool
	priority int32 // only where that decides
}

// part is some pods of a group that may use the same offerings.
type part struct {
	class int
	n     int
}

// left returns how many pods still wait.
func (g *group) left() int { return len(g.pods) }

// hasHardSpread reports whether the shape has a spread that must be kept.
func hasHardSpread(s *model.Shape) bool {
	return slices.ContainsFunc(s.Spread, func(c model.Spread) bool { return c.Hard })
}

// groupPods groups the pending pods by shape. It refuses pods that the engine cannot decide or that are blocked.
func (p *problem) groupPods() {
	known := map[groupKey]*group{}
	for i := range p.s.Pending {
		pod := &p.s.Pending[i]
		if pod.Shape < 0 || pod.Shape >= len(p.s.Shapes) {
			detail := fmt.Sprintf("index %d of %d", pod.Shape, len(p.s.Shapes))
			p.refuse(i, model.Reason{Rule: model.RuleUnmodelled, Object: "shape", Detail: detail})
			continue
		}
		shape := &p.s.Shapes[pod.Shape]
		switch list := shape.Unmodelled; {
		case len(list) > 0:
			p.refuse(i, model.Reason{Rule: model.RuleUnmodelled, Object: list[0], Detail: strings.Join(list, ", ")})
			continue
		case shape.Blocked != "":
			p.refuse(i, model.Reason{Rule: model.RuleBlocked, Detail: shape.Blocked})
			continue
		}
		k := groupKey{shape: pod.Shape, virtual: pod.Virtual}
		if p.limitsShort {
			k.priority = pod.Priority
		}
		g := known[k]
		if g == nil {
			g = &group{key: k, index: pod.Shape, shape: shape, request: shape.Requests.NonNegative(), atMost: math.MaxInt}
			if n, ok := p.atMost[k]; ok {
				g.atMost = n
			}
			if p.classes != nil {
				g.class = p.classes.add(shape)
			}
			known[k] = g
			p.groups = append(p.groups, g)
		}
		g.pods = append(g.pods, i)
	}
	byPriority := func(a, b int) int { return cmp.Compare(p.s.Pending[b].Priority, p.s.Pending[a].Priority) }
	for _, g := range p.groups {
		if !slices.IsSortedFunc(g.pods, byPriority) {
			slices.SortStableFunc(g.pods, byPriority)
		}
	}
	slices.SortStableFunc(p.groups, p.compareGroups)
}

// compareGroups puts placeholders last, then the most important group first, then the one that is hardest to place:
// rare resources, then the larger of CPU and memory at one core to 4 GiB; ties by key, so that equal clusters have
// equal plans.
func (p *problem) compareGroups(a, b *group) int {
	virtual := func(g *group) int {
		if p.s.Pending[g.pods[0]].Virtual {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(virtual(a), virtual(b)), cmp.Compare(p.priority(b), p.priority(a)),
		cmp.Compare(rareRequest(b), rareRequest(a)), cmp.Compare(size(b), size(a)), cmp.Compare(a.shape.Key, b.shape.Key))
}

// priority returns that of a group's most important pod.
func (p *problem) priority(g *group) int32 { return p.s.Pending[g.pods[0]].Priority }

func rareRequest(g *group) int64 { return slices.Max(g.request[model.Pods+1:]) }

func size(g *group) int64 {
	return max(g.request[model.CPU], g.request[model.Memory]/(4<<30/1000))
}

// waiting returns the groups with pending pods.
func (p *problem) waiting() []*group {
	var out []*group
	for _, g := range p.groups {
		if g.left() > 0 {
			out = append(out, g)
		}
	}
	return out
}

func (p *problem) refuse(pod int, reason model.Reason) {
	p.plan.Unplaced = append(p.plan.Unplaced, model.Unplaced{Pod: p.s.Pending[pod].PodKey, Reason: reason})
}

// refuseBelowCutoff refuses pods that are not important enough for a launch. Placeholders stand for pods that are.
func (p *problem) refuseBelowCutoff() {
	if !p.policy.HasPriorityCutoff {
		return
	}
	for _, g := range p.groups {
		keep := g.pods[:0:0]
		for _, i := range g.pods {
			if p.policy.LaunchesFor(&p.s.Pending[i]) {
				keep = append(keep, i)
				continue
			}
			p.refuse(i, priorityReason(p.policy))
		}
		g.pods = keep
	}
}

func priorityReason(policy *model.Policy) model.Reason {
	return model.Reason{Rule: model.RulePriority, Detail: fmt.Sprint(policy.PriorityCutoff)}
}

// refuseRest records the pods that could not be placed.
func (p *problem) refuseRest() {
	for _, g := range slices.Concat(p.groups, p.infeasible) {
		for _, pod := range g.pods {
			p.refuse(pod, model.Reason{Rule: model.RuleUnexplained})
		}
	}
}

func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
