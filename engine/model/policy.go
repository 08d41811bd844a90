package model

// Solver selects the algorithm that searches for a plan.
type Solver string

// The solvers.
const (
	Staged   Solver = ""         // the engine's own: LP bound, patterns, neighbourhood search
	FirstFit Solver = "FirstFit" // pod by pod into growing nodes, as Karpenter does: the baseline for comparisons
)

// Preferences says how preferred affinities, PreferNoSchedule taints and ScheduleAnyway spreads are treated.
type Preferences string

// The treatments of preferences.
const (
	Priced  Preferences = ""        // each is honoured if that costs no more than its price
	Respect Preferences = "Respect" // each is honoured if at all possible
	Ignore  Preferences = "Ignore"  // all are ignored
)

// MinValues says what happens if a launch cannot meet a pool's minValues.
type MinValues string

// The treatments of minValues that cannot be met.
const (
	Strict     MinValues = ""           // nothing is launched
	BestEffort MinValues = "BestEffort" // lowered to what is available if pods would stay unplaced
)

// Preflight says what the engine does about InstanceType.Unaddressed and Snapshot.Unsettled.
type Preflight string

// The treatments of preflight findings.
const (
	Unchecked Preflight = ""        // nothing
	Warn      Preflight = "Warn"    // the controller warns; the engine ignores the findings
	Enforce   Preflight = "Enforce" // such nodes are not launched, and no pods are moved
)

// Default prices. They are estimates of what things are worth, not fitted to any workload.
const (
	// DefaultWaitPrice is $0.60 per pod-hour, a cent a minute. Capacity for a pod of 1 vCPU and 4 GiB costs $0.05 an
	// hour (EC2, general purpose); users who start such a pod value it more than that, and start it because the work is
	// due now. So a node for pods of up to 12 vCPUs is better launched a minute early than a minute late.
	DefaultWaitPrice Price = 600_000
	// DefaultMovePrice is $0.001. For about a minute, from SIGTERM until its replacement is scheduled, started and
	// warm, an evicted pod does no work, but its share of a node is paid for: $0.0008 at the price above. The rest is
	// for the risk.
	DefaultMovePrice Price = 1_000
	// DefaultPreferencePrice is $0.002, the price of a node's volume. Two replicas that prefer different zones get two
	// nodes if the instances cost the same as one.
	DefaultPreferencePrice Price = 2_000
)

// Defaults returns the policy of users who set nothing.
func Defaults() Policy {
	return Policy{
		WaitPrice: DefaultWaitPrice, MovePrice: DefaultMovePrice, PreferencePrice: DefaultPreferencePrice, Preflight: Warn,
	}
}

// Policy holds what is a matter of choice rather than correctness. In its zero value, fees, waiting, moves and
// preferences cost nothing; see Defaults.
type Policy struct {
	// MaxTypes is the maximum number of instance types in a launch; 0 = 60 (as in Karpenter's AWS provider).
	MaxTypes int
	// MaxSteps bounds the search in steps; 0 = the default. A plan that was cut short is Partial.
	MaxSteps int
	Solver   Solver
	// Preferences says how preferences are treated; PreferencePrice is what one of weight 100 may cost per hour when
	// Priced.
	Preferences     Preferences
	PreferencePrice Price
	// MinValues says what happens if minValues cannot be met.
	MinValues MinValues
	// NodeFee is what each node costs per hour beyond its price, such as licences of agents.
	NodeFee Price
	// WaitPrice is the cost of a Pending pod per hour, which decides what is launched ahead; 0 = nothing is.
	WaitPrice Price
	// PriorityCutoff: nothing is launched for pods of lower priority; they may use existing capacity.
	PriorityCutoff    int32
	HasPriorityCutoff bool
	// SpotToSpot allows replacing a spot node with a cheaper spot node.
	SpotToSpot bool
	// MovePrice is the one-time cost of evicting a pod of EvictionCost 1000; 0 = nothing. A command has to recover it,
	// and what is paid twice during the Handover, within the time that the pods can be expected to run: see Remaining.
	MovePrice Price
	Preflight Preflight
	// MaxWhatIfs bounds the plans that one Disrupt tries for nodes whose pods have to move; 0 = the default, negative =
	// none. After is where Disrupt begins: see Plan.After.
	MaxWhatIfs int
	After      Cursor
}

// LaunchesFor reports whether nodes may be launched for the pod: see PriorityCutoff.
func (p *Policy) LaunchesFor(pod *Pod) bool {
	return !p.HasPriorityCutoff || pod.Virtual || pod.Priority >= p.PriorityCutoff
}

// Cursor says where a Disrupt that stopped early continues. Drifted lists the drifted node that each pool's turn
// reached, as "pool=since/node" separated by commas; Underutilized is the last node that consolidation tried, once
// drift was complete. The zero value is the beginning.
type Cursor struct{ Drifted, Underutilized string }

// Effective returns what a node of a price costs under the policy, per hour: the price and the fee. It is never
// negative and never above 2^40.
func (p *Policy) Effective(price Price) Price {
	const most = 1 << 40
	return min(min(max(price, 0), most)+min(max(p.NodeFee, 0), most), most)
}
