package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// settled is a pod that engine/solve/internal/firstfit gave a place on a node, when it had seen the machines that are planned.
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
	order    *rules.Order // of the nodes that take pods
	shared   *Places      // where what is asked of the cluster again and again is known
	known    lessons
	steps    int // still allowed
	partial  bool
	classes  []*class
	classOf  map[string]int // nil where no machine is launched for any
	groups   []*group       // in the order in which they are placed
	hopeless []*group       // those for which no pool can launch anything: see setAside
	active   []int          // resources that some group requests
	drivers  []string       // of volumes with attach limits that some group uses
	slots    []int          // how many pods one machine may have of each
	soft     []bool         // by slot: see cover.Problem.Soft
	apart    []kind
	users    map[int]int // by counter: groups that wait and look at it
	views    []*rules.View
	rooms    []rules.Headroom // by view
	screen   *rules.Screen
	tiers    [][]int      // views by weight, heaviest first
	ordered  [][]cheapest // by view: see byPrice
	level    *int32       // priority of the pods whose turn it is; nil = all
	machines []*machine
	settled  []settled
	kept     []bool // by Pending: pods that have the place they had before; nil if none has
	bound    model.Price
	plan     model.Plan
}

// defaultSteps bounds one call's work; see engine/solve/internal/binpack.
const defaultSteps = 60_000_000

// Provision gives every pending pod a place or a launch, and every static pool the nodes it lacks. Pods that get nothing have their Reasons
// when Draft.Explain was called.
func Provision(s *model.Snapshot, policy model.Policy) *Draft {
	d := ProvisionPods(s, policy)
	addLaunches(&d.Plan, policy, missing(s, policy))
	return d
}

// ProvisionPods is Provision for the pods alone.
func ProvisionPods(s *model.Snapshot, policy model.Policy) *Draft {
	s = forPods(s)
	return provisionPods(s, policy, placesIn(s, s))
}

func provisionPods(s *model.Snapshot, policy model.Policy, shared *Places) *Draft {
	plain := provision(s, policy, shared)
	if policy.Solver != model.FirstFit {
		plain = secondOpinion(s, policy, plain, shared)
	}
	if policy.Solver == model.FirstFit || policy.Preferences == model.Ignore || len(plain.Plan.Launches) == 0 {
		return plain
	}
	return preferred(s, policy, plain)
}

// Placements are the places of pending pods on machines that are there or on their way: what Provision finds first, without its
// search for machines to launch.
func Placements(s *model.Snapshot, policy model.Policy) []model.Placement {
	x := placesIn(s, s)
	p := &problem{s: s, policy: &policy, state: x.state, order: x.order}
	p.group()
	p.keep()
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
func provision(s *model.Snapshot, policy model.Policy, shared *Places) *Draft {
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
	return &Draft{Plan: p.plan, from: []*problem{p}}
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
	p := &problem{s: s, known: known, policy: &policy, maxTypes: policy.MaxTypes, steps: policy.MaxSteps, classOf: map[string]int{}, users: map[int]int{}, shared: shared, state: shared.state.Fork()}
	p.order = shared.order.For(p.state)
	p.maxTypes = mostTypes(&policy)
	if p.steps <= 0 {
		p.steps = defaultSteps
	}
	p.group()
	p.keep()
	if policy.Solver == model.FirstFit {
		p.open()
		p.setAside()
		p.openClasses()
		p.firstFit()
	} else {
		p.place()
		if p.waiting() {
			p.open()
			p.setAside()
			p.openClasses()
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
	p.refuseRest()
	p.plan.Partial = p.partial
	p.sort()
	return p
}

func (p *problem) waiting() bool {
	return slices.ContainsFunc(p.groups, func(g *group) bool { return g.left() > 0 })
}

// open prepares the pools for what found no place.
func (p *problem) open() {
	p.views = p.shared.viewsOf(p.s, p.policy)
	for _, v := range p.views {
		p.rooms = append(p.rooms, v.Headroom())
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
}

// openClasses prepares the pools for the pods that wait.
func (p *problem) openClasses() {
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
