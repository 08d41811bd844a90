package model

import "time"

// Rule identifies the constraint that decided.
type Rule string

// The rules that a Reason can name.
const (
	RuleUnmodelled   Rule = "Unmodelled"   // a constraint of the pod that the engine does not decide
	RuleBlocked      Rule = "Blocked"      // something must happen before any node can take the pod
	RulePriority     Rule = "Priority"     // the pod's priority is below the policy's cutoff
	RulePoolNotReady Rule = "PoolNotReady" // the pool or its node class is not ready
	RuleTaint        Rule = "Taint"
	RuleRequirement  Rule = "Requirement" // node selector or affinity against pool, type or offering
	RuleResource     Rule = "Resource"    // no type is large enough, or none has the resource
	RuleLimit        Rule = "Limit"       // the pool's limit would be exceeded
	RuleZonalShift   Rule = "ZonalShift"  // traffic is shifted away from the zones of all offerings that fit
	RuleCapacity     Rule = "Capacity"    // no offering that fits has capacity at the moment
	RuleAddresses    Rule = "Addresses"   // no subnet has the addresses that a node would take
	RulePreflight    Rule = "Preflight"   // a node has too few addresses for its pods, or pods are not moved now
	RuleMinValues    Rule = "MinValues"
	RuleAffinity     Rule = "PodAffinity"
	RuleAntiAffinity Rule = "PodAntiAffinity" // the pod's own, or that of a running pod
	RuleSpread       Rule = "TopologySpread"
	RuleHostPort     Rule = "HostPort"
	RuleVolume       Rule = "Volume"      // no node can reach the pod's volumes
	RuleVolumeLimit  Rule = "VolumeLimit" // the node cannot attach that many volumes
	RuleVolumeInUse  Rule = "VolumeInUse" // ReadWriteOncePod
	RuleNoPool       Rule = "NoPool"      // there is no pool at all

	RuleCatalog Rule = "Catalog" // the types that the pool's node class offers: the top of each funnel
	RuleSteps   Rule = "Steps"   // the search was cut short (Plan.Partial); the next plan continues
	// RuleUnexplained: no node can be launched for the pod now, and the reason has not been worked out yet.
	RuleUnexplained Rule = "Unexplained"

	RuleNeeded         Rule = "Needed"         // pending pods are placed there
	RuleNotInitialized Rule = "NotInitialized" // the node is not ready yet

	RuleBudget       Rule = "Budget"
	RuleDoNotDisrupt Rule = "DoNotDisrupt"
	RuleTooYoung     Rule = "TooYoung" // consolidateAfter has not passed
	RuleNever        Rule = "Never"    // consolidateAfter: Never
	// a pod there cannot be evicted now, for instance because of a PodDisruptionBudget
	RuleEvictionBlocked Rule = "Held"
	RuleGone            Rule = "Gone" // the node does not exist any more
	RuleNotDrifted      Rule = "NotDrifted"
	RuleNoPlace         Rule = "NoPlace"      // a pod there would fit nowhere else
	RuleNotCheaper      Rule = "NotCheaper"   // the pods cost as much elsewhere
	RuleMoreNodes       Rule = "MoreMachines" // the pods would need more nodes
	RuleSpotToSpot      Rule = "SpotToSpot"   // only another spot node would be cheaper
	RuleWhenEmpty       Rule = "WhenEmpty"    // consolidationPolicy: WhenEmpty, and pods run there
	RuleBalanced        Rule = "Balanced"     // consolidationPolicy: Balanced, and the saving is not worth the moves
	RuleFragile         Rule = "Fragile"      // kube-scheduler may not place the pods as the plan assumes
	RulePayback         Rule = "Payback"      // the pods are too young: they may end before their moves have paid off
	RuleNoPrice         Rule = "NoPrice"      // the price of the node is unknown
	RuleStatic          Rule = "Static"       // a static pool keeps its replicas
	RuleMinNodes        Rule = "MinNodes"     // the pool has no nodes beyond its minimum
	RuleWindow          Rule = "Window"       // outside the pool's disruption window
	RuleUnclear         Rule = "Unclear"      // a disruption annotation of the pool is invalid
	RuleSmallSaving     Rule = "SmallSaving"  // the saving is less than the pool requires
	RuleNotExpired      Rule = "NotExpired"
	RuleNotCrowded      Rule = "NotCrowded"
	RuleJob             Rule = "Job"    // a Job's pod there will finish before moving it pays
	RuleNoHelp          Rule = "NoHelp" // another node of the same type would be no better
)

// Transient reports whether the next plan is likely to give another reason even if nothing changes.
func (r Rule) Transient() bool { return r == RuleSteps || r == RuleUnexplained }

// BetweenPods reports whether the rule is about other pods, so that no pool can help.
func (r Rule) BetweenPods() bool {
	switch r {
	case RuleAffinity, RuleAntiAffinity, RuleSpread, RuleHostPort, RuleVolumeInUse:
		return true
	}
	return false
}

// Reason is why something did not happen, as data. Package engine/reason turns it into sentences.
type Reason struct {
	Rule   Rule
	Object string // what the rule was about: a taint, a label key, a resource name, a PDB …
	Detail string // the requested or offered value, formatted for people
	Best   string // what came nearest, such as "740Gi" of a resource, "" if nothing did
	BestOf string // what Best belongs to: an instance type
	Pools  []PoolVerdict
	More   int // number of pools left out of Pools: none of them came closer
	// Group names all nodes of a group that would be replaced together but for this Reason; nil if the Reason is about
	// one node.
	Group []string
	// Until is when the Reason expires by itself; zero if it does not. The controller rechecks then.
	Until  time.Time
	Change Change // the smallest single change that would place the pod; zero if unknown
}

// Change is one edit after which a pod could be placed.
type Change struct {
	Rule     Rule   // the rule that would no longer block the pod
	Object   string // what to edit: a label key, a resource, "limit cpu", a taint
	Pool     string // the pool that would then launch for the pod, "" if no pool is involved
	From, To string // formatted for people; To "" = remove it
	// Arch is the architecture of the resulting node if the pod does not request one and it is not the usual one, or if
	// the change is about it: the pod's image must support it.
	Arch string
}

// GroupMaximum is the Object of a RuleLimit that no change to the pool can lift: its Auto Scaling group's maximum.
const GroupMaximum = "maximum"

// PoolVerdict is one pool's answer to one pod: a funnel of how many of its types are left after each rule.
type PoolVerdict struct {
	Pool   string
	Rule   Rule // the rule that left nothing
	Object string
	Detail string
	Best   string
	BestOf string
	Funnel []FunnelStep
	// Fragmented is a subnet that would have the addresses of a node if they were not scattered; nil if there is none.
	Fragmented *Subnet `json:",omitempty"`
}

// FunnelStep says how many types were left after a rule.
type FunnelStep struct {
	Rule Rule
	Left int
}
