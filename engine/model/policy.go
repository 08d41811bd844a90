package model

import (
	"math"
	"strings"
	"time"
)

// Solver is the way a plan is searched for.
type Solver string

// The solvers.
const (
	Staged   Solver = ""         // the engine's own: LP bound, patterns, neighbourhood search
	FirstFit Solver = "FirstFit" // pod by pod into growing machines, as Karpenter does: the baseline of comparisons
)

// Preferences is what becomes of preferred affinities, PreferNoSchedule taints and ScheduleAnyway spreads.
type Preferences string

// What becomes of preferences.
const (
	Priced  Preferences = ""        // each is kept as far as it costs no more than its price
	Respect Preferences = "Respect" // each is kept if at all possible
	Ignore  Preferences = "Ignore"  // none is looked at
)

// MinValues is what becomes of a pool's minValues that a machine cannot keep.
type MinValues string

// What becomes of minValues.
const (
	Strict     MinValues = ""           // no machine is launched without them
	BestEffort MinValues = "BestEffort" // for pods that get nothing otherwise they are lowered to what can be had
)

// Policy is what is a matter of choice, not of correctness. The zero value is the default.
type Policy struct {
	// MaxTypes is the most instance types a launch may name; 0 = 60 (as Karpenter's AWS provider).
	MaxTypes int
	// MaxSteps bounds the search in steps; 0 = the default. A plan that was cut says so in Partial.
	MaxSteps int
	Solver   Solver
	// Preferences says what becomes of preferences; PreferencePrice is what one of weight 100 may cost an hour when Priced.
	Preferences     Preferences
	PreferencePrice Price
	// MinValues says what becomes of minValues that cannot be kept.
	MinValues MinValues
	// NodeFee is what every machine costs an hour beside its price: agents, licences, blast radius.
	NodeFee Price
	// ChurnFee is what every machine counts for beside that in a cluster in which all pods are gone after RecentlyEnded, and in part where
	// fewer are: see At. 0 = the default, below that none. It decides what is launched for pods that wait, not what is worth keeping.
	ChurnFee Price
	// Patience is for how long a pod waits for others to end, on machines that are there, before a machine is launched for it, where pods come
	// and go: see Patient. 0 = the default, below that it does not wait.
	Patience time.Duration
	// ChurnSaving is what consolidation must save there at least, in percent of what the machines that go cost: see LeastSaving. 0 = the default,
	// below that anything.
	ChurnSaving int
	// SpotRisk is what the risk of interruption adds to spot prices when offerings are compared, in percent.
	SpotRisk int
	// Largest is the most of each resource one machine may have; 0 = any amount.
	Largest Resources
	// Performance says of instance families how much faster they are than others at the same vCPUs; their prices count as
	// so much lower. By Family.
	Performance []Performance
	// PriorityCutoff: pods of lower priority get no machine launched for them (they may use room that is there).
	PriorityCutoff    int32
	HasPriorityCutoff bool
	// SpotToSpot lets a spot machine be replaced by a cheaper spot machine.
	SpotToSpot bool
	// Handover is for how long a machine and its replacement are paid at once; 0 = a minute, below that it is not counted. What moves
	// pays this back, and MovePrice for each pod, within the time for which the pods can be expected to be there: see Remaining. Where
	// pools wait for Jobs it counts against a move too.
	Handover  time.Duration
	MovePrice Price // once, for a pod of EvictionCost 1000; 0 = moves cost nothing
	// MaxWhatIfs bounds the plans that one Disrupt tries for machines whose pods have to move; 0 = the default, below that none.
	// After is where it begins: see Plan.After.
	MaxWhatIfs int
	After      Cursor
}

// Cursor says which machine a Disrupt that stopped early looked at last: of each pool that had a turn a drifted one, as
// "pool=since/machine" with commas between them, or when it had been through those one that may be too dear. The zero value is the
// beginning.
type Cursor struct{ Drifted, Underutilized string }

// Performance is the speed of an instance family, in percent of the usual: 120 = a fifth faster.
type Performance struct {
	Family  string // such as "m8g": what stands before the dot in a type's name
	Percent int
}

// Effective is what an offering counts for when offerings are compared: its price with the policy's risk, speed and fee.
// Under the default policy it is the price itself. It is never negative and never above 2^40.
func (p *Policy) Effective(typeName string, o *Offering) Price {
	const most = 1 << 40
	price := min(max(o.Price, 0), most)
	if o.CapacityType == Spot && p.SpotRisk > 0 {
		price += price / 100 * Price(min(p.SpotRisk, 10_000))
	}
	family, _, _ := strings.Cut(typeName, ".")
	for _, f := range p.Performance {
		if f.Family == family && f.Percent > 0 {
			price = Price(math.Round(float64(price) * 100 / float64(f.Percent)))
		}
	}
	return min(price+min(max(p.NodeFee, 0), most), most)
}

// Admits reports whether a machine of this capacity is not larger than the policy wants.
func (p *Policy) Admits(capacity *Resources) bool {
	for i, most := range p.Largest {
		if most > 0 && capacity[i] > most {
			return false
		}
	}
	return true
}
