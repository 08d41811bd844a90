package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// group is the pods of one shape that still wait, most important first. Placeholders have groups of their own.
type group struct {
	index   int // of the shape
	shape   *model.Shape
	class   int
	request model.Resources
	pods    []int // indices into Snapshot.Pending
	parts   []part
	rest    bool             // its constraints are for engine/grow
	planned int              // pods that engine/grow put on machines
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

// settled is a pod that engine/grow gave a place on a node, when it had seen the machines that are planned.
type settled struct {
	group     *group
	pod, node int
}

// problem is one call's working state.
type problem struct {
	s        *model.Snapshot
	policy   *model.Policy
	maxTypes int
	state    *rules.State
	order    *rules.Order // of the nodes that take pods; nil if the snapshot is looked at but once
	shared   *Places      // where what is asked of the cluster again and again is known; nil if it is asked but once
	known    lessons
	steps    int // still allowed
	partial  bool
	classes  []*class
	classOf  map[string]int // nil where no machine is launched for any
	groups   []*group       // in the order in which they are placed
	active   []int          // resources that some group requests
	drivers  []string       // of volumes with attach limits that some group uses
	slots    []int          // how many pods one machine may have of each
	soft     []bool         // by slot: see cover.Problem.Soft
	apart    []kind
	users    map[int]int // by counter: groups that wait and look at it
	views    []*rules.View
	rooms    []rules.Room // by view
	tiers    [][]int      // views by weight, heaviest first
	ordered  [][]cheapest // by view: see byPrice
	level    *int32       // priority of the pods whose turn it is; nil = all
	machines []*machine
	settled  []settled
	bound    model.Price
	plan     model.Plan
}

// defaultSteps bounds one call's work; see engine/cover.
const defaultSteps = 60_000_000

// Provision gives every pending pod a place, a launch or a Reason, and every static pool the machines it lacks.
func Provision(s *model.Snapshot, policy model.Policy) model.Plan {
	plan := provisionPods(forPods(s), policy, nil)
	addLaunches(&plan, policy, missing(s, policy))
	return plan
}

// ProvisionPods is Provision for the pods alone.
func ProvisionPods(s *model.Snapshot, policy model.Policy) model.Plan {
	return provisionPods(forPods(s), policy, nil)
}

func provisionPods(s *model.Snapshot, policy model.Policy, shared *Places) model.Plan {
	plain := provision(s, policy, shared)
	if policy.Solver != model.FirstFit {
		plain = secondOpinion(s, policy, plain, shared)
	}
	if policy.Solver == model.FirstFit || policy.Preferences == model.Ignore || len(plain.Launches) == 0 {
		return plain
	}
	return preferred(s, policy, plain)
}

// Placements are the places of pending pods on machines that are there or on their way: what Provision finds first, without its
// search for machines to launch.
func Placements(s *model.Snapshot, policy model.Policy) []model.Placement {
	p := &problem{s: s, policy: &policy, state: rules.NewState(s)}
	p.group()
	p.place()
	p.sort()
	return p.plan.Placements
}

// everyType as Policy.MaxTypes is what Widely asks for.
const everyType = math.MinInt

// Widely is the policy with launches that name every type which would do, however dear.
func Widely(policy model.Policy) model.Policy {
	policy.MaxTypes = everyType
	return policy
}

// lessons are what an attempt at a plan taught the next.
type lessons struct {
	zones []string        // in which there are machines that pods which spread over zones did not count with
	full  map[served]bool // zones in which not all pods of a shape that were to go there got a machine
	short bool            // limits leave pods without: the most important ones choose first
}

type served struct {
	shape int
	zone  string
}

// mostAttempts bounds how often a plan is made anew.
const mostAttempts = 4

// provision plans, and plans again if zones turned out otherwise than pods that look at zones were told.
func provision(s *model.Snapshot, policy model.Policy, shared *Places) model.Plan {
	known := lessons{full: map[served]bool{}}
	p := attempt(s, policy, known, shared)
	for range mostAttempts - 1 {
		zones, full, unfair := p.surprises(), p.unserved(), p.unfair()
		if len(zones)+len(full) == 0 && !unfair || p.partial {
			break
		}
		known.short = known.short || unfair
		known.zones = append(known.zones, zones...)
		for _, f := range full {
			known.full[f] = true
		}
		p = attempt(s, policy, known, shared)
	}
	return p.plan
}

// mostTypes is how many types a launch may name.
func mostTypes(policy *model.Policy) int {
	switch {
	case policy.MaxTypes == everyType:
		return math.MaxInt
	case policy.MaxTypes <= 0:
		return 60
	}
	return policy.MaxTypes
}

// attempt plans once.
func attempt(s *model.Snapshot, policy model.Policy, known lessons, shared *Places) *problem {
	p := &problem{s: s, known: known, policy: &policy, maxTypes: policy.MaxTypes, steps: policy.MaxSteps, classOf: map[string]int{}, users: map[int]int{}, shared: shared, state: shared.stateOf(s)}
	p.maxTypes = mostTypes(&policy)
	if p.steps <= 0 {
		p.steps = defaultSteps
	}
	p.group()
	if policy.Solver == model.FirstFit {
		p.open()
		p.firstFit()
	} else {
		p.place()
		if p.waiting() {
			p.open()
			p.cutOff()
			p.assignZones()
			p.keepApart()
			p.buy()
			p.placeRest()
		}
		p.prune()
	}
	for _, x := range p.settled {
		p.plan.Placements = append(p.plan.Placements, model.Placement{Pod: p.s.Pending[x.pod].PodKey, Node: p.s.Nodes[x.node].Name})
	}
	p.launch()
	p.answer()
	p.plan.Partial = p.partial
	p.sort()
	return p
}

func (p *problem) waiting() bool {
	return slices.ContainsFunc(p.groups, func(g *group) bool { return g.left() > 0 })
}

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
		slices.SortStableFunc(g.pods, func(a, b int) int {
			return cmp.Compare(p.s.Pending[b].Priority, p.s.Pending[a].Priority)
		})
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

// open prepares the pools for what found no place.
func (p *problem) open() {
	p.views = p.shared.viewsOf(p.s, p.policy)
	for _, v := range p.views {
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
	var asked model.Resources
	for _, g := range p.groups {
		if g.left() > 0 {
			asked = asked.Max(g.request)
			p.openClass(p.classes[g.class])
			for _, v := range g.shape.Volumes {
				if v.Driver != "" && !slices.Contains(p.drivers, v.Driver) {
					p.drivers = append(p.drivers, v.Driver)
				}
			}
		}
	}
	slices.Sort(p.drivers)
	for i, n := range asked {
		if n > 0 {
			p.active = append(p.active, i)
		}
	}
}

// unfair reports whether a limit left a pod without a machine while one went to a less important pod.
func (p *problem) unfair() bool {
	if p.known.short || !slices.ContainsFunc(p.plan.Unplaced, func(u model.Unplaced) bool { return u.Reason.Rule == model.RuleLimit }) {
		return false
	}
	priority := make(map[model.PodKey]int32, len(p.s.Pending))
	for i := range p.s.Pending {
		priority[p.s.Pending[i].PodKey] = p.s.Pending[i].Priority
	}
	least, most := int32(math.MaxInt32), int32(math.MinInt32)
	for _, u := range p.plan.Unplaced {
		if u.Reason.Rule == model.RuleLimit {
			most = max(most, priority[u.Pod])
		}
	}
	for i := range p.plan.Launches {
		for _, k := range p.plan.Launches[i].Pods {
			least = min(least, priority[k])
		}
	}
	return most > least
}

// cutOff refuses pods that are not important enough for a machine. Placeholders stand for pods that are.
func (p *problem) cutOff() {
	if !p.policy.HasPriorityCutoff {
		return
	}
	for _, g := range p.groups {
		keep := g.pods[:0:0]
		for _, i := range g.pods {
			if pod := &p.s.Pending[i]; pod.Virtual || pod.Priority >= p.policy.PriorityCutoff {
				keep = append(keep, i)
				continue
			}
			p.refuseForPriority(i)
		}
		g.pods = keep
	}
}

func (p *problem) refuseForPriority(pod int) {
	p.refuse(pod, model.Reason{Rule: model.RulePriority, Detail: fmt.Sprint(p.policy.PriorityCutoff)})
}
