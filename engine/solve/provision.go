package solve

import (
	"math"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// defaultSteps bounds the work of one attempt; see package binpack.
const defaultSteps = 60_000_000

// maxAttempts bounds the number of attempts at one plan.
const maxAttempts = 4

// Provision assigns every pending pod to an existing node or to a launch, and launches the nodes that static pools
// lack. Unplaced pods get their Reasons from Draft.Explain. Expected pods are placed together with their pending
// peers, but get no Reasons. Free instances of capacity reservations are used first.
func Provision(s *model.Snapshot, policy model.Policy) *Draft {
	with, reserved := withReservations(withExpectedPeers(s, &policy), policy)
	d := ProvisionPods(with, policy)
	d.launchReserved(with, policy, reserved)
	d.dropForTemplates(s, &policy)
	d.forgetExpected(s)
	addLaunches(&d.Plan, policy, missingReplicas(s, policy, d.Plan.Launches))
	return d
}

// ProvisionPods is Provision for the pods alone.
func ProvisionPods(s *model.Snapshot, policy model.Policy) *Draft {
	s = withoutStaticPools(s)
	return provisionPods(s, policy, newCluster(s, s))
}

func provisionPods(s *model.Snapshot, policy model.Policy, c *Cluster) *Draft {
	plain := provision(s, policy, c)
	if policy.Solver == model.FirstFit {
		return plain
	}
	plain = fallback(s, policy, plain, c)
	if policy.Preferences == model.Ignore || len(plain.Plan.Launches) == 0 {
		return plain
	}
	return preferred(s, policy, plain)
}

// provision repeats attempts until one gives no feedback for the next.
func provision(s *model.Snapshot, policy model.Policy, c *Cluster) *Draft {
	known := newFeedback()
	p := attempt(s, policy, known, c)
	for range maxAttempts - 1 {
		if !known.learn(p) {
			break
		}
		p = attempt(s, policy, known, c)
	}
	return &Draft{Plan: p.plan, from: []*problem{p}}
}

// attempt plans once. The steps are those of the package comment.
func attempt(s *model.Snapshot, policy model.Policy, known feedback, c *Cluster) *problem {
	state := c.state.Fork()
	p := &problem{
		s: s, policy: &policy, steps: policy.MaxSteps, cluster: c, state: state, order: c.order.For(state), feedback: known,
		classes: newClassTable(), lookers: map[int]int{}, market: &market{},
	}
	if p.steps <= 0 {
		p.steps = defaultSteps
	}
	p.groupPods()
	placer := p.placer()
	placer.keepNominated()
	if policy.Solver == model.FirstFit {
		p.openMarket()
		p.screen = c.screenOf(p.market)
		p.openClasses()
		p.placeAllFirstFit(placer.kept)
	} else {
		placer.placeAll()
		if len(p.waiting()) > 0 {
			p.openMarket()
			p.setAside()
			p.openClasses()
			p.refuseBelowCutoff()
			p.assignZones()
			p.separate()
			p.buy()
			p.placeLeftovers()
			p.findLacking()
		}
	}
	p.prune()
	for _, x := range p.settled {
		p.plan.Placements = append(p.plan.Placements, placementOf(s, x.pod, x.node))
	}
	p.launch()
	p.refuseRest()
	p.plan.Partial = p.partial
	sortPlan(&p.plan)
	return p
}

// openMarket prepares the pools for the pods that existing nodes do not take.
func (p *problem) openMarket() {
	p.market = newMarket(p.s, p.policy, p.cluster.viewsOf(p.s, p.policy))
	p.builder = &nodeBuilder{market: p.market, state: p.state, classes: p.classes, lookers: p.lookers}
}

// openClasses finds the options of the waiting classes, and the resources and volume drivers that matter.
func (p *problem) openClasses() {
	p.classes.views, p.classes.screen = p.views, p.screen
	var requested model.Resources
	for _, g := range p.waiting() {
		requested = requested.Max(g.request)
		p.classes.open(p.classes.list[g.class])
		for _, v := range g.shape.Volumes {
			if v.Driver != "" {
				p.drivers = append(p.drivers, v.Driver)
			}
		}
	}
	p.drivers = sortedSet(p.drivers)
	for i, n := range requested {
		if n > 0 {
			p.active = append(p.active, i)
		}
	}
}

// Placements assigns pending pods to nodes that exist or are in flight: what Provision does first, without its search
// for launches.
func Placements(s *model.Snapshot, policy model.Policy) []model.Placement {
	c := newCluster(s, s)
	p := &problem{s: s, policy: &policy, state: c.state, order: c.order}
	p.groupPods()
	placer := p.placer()
	placer.keepNominated()
	placer.placeAll()
	sortPlan(&p.plan)
	return p.plan.Placements
}

// allTypes is the Policy.MaxTypes that WithAllTypes sets.
const allTypes = math.MinInt

// WithAllTypes returns the policy with launches that list every type that fits, whatever it costs.
func WithAllTypes(policy model.Policy) model.Policy {
	policy.MaxTypes = allTypes
	return policy
}

// maxTypes returns how many types a launch may list.
func maxTypes(policy *model.Policy) int {
	switch {
	case policy.MaxTypes == allTypes:
		return math.MaxInt
	case policy.MaxTypes <= 0:
		return 60
	}
	return policy.MaxTypes
}

// Value returns what a pod of each shape is worth in effective price per hour: the shadow price of its resources if
// nodes were bought for all pending pods together. Whichever of the pods get nodes of their own, these nodes cost at
// least as much as their pods are worth. Each pending pod is the only one of its shape and stands for count pods.
// Shapes that no offering can hold, or that have no pending pod, are worth 0.
func Value(s *model.Snapshot, policy model.Policy, count []int) []float64 {
	s = withoutStaticPools(s)
	p := &problem{
		s: s, policy: &policy, cluster: &Cluster{}, state: rules.NewState(&model.Snapshot{}),
		classes: newClassTable(), lookers: map[int]int{},
	}
	p.groupPods()
	p.openMarket()
	p.openClasses()
	for _, g := range p.groups {
		n := 0
		for _, i := range g.pods {
			n += count[i]
		}
		g.parts = []part{{class: g.class, n: n}}
	}
	return p.newPurchase(p.allViews(), true).values(len(s.Shapes))
}
