package model

import "time"

// Rule names the constraint that decided.
type Rule string

// Rules a Reason can name.
const (
	RuleUnmodelled   Rule = "Unmodelled"   // a constraint of the pod that the engine does not decide
	RuleBlocked      Rule = "Blocked"      // something must happen before any machine can take the pod
	RulePriority     Rule = "Priority"     // the pod's priority is below what machines are launched for
	RulePoolNotReady Rule = "PoolNotReady" // the pool or its node class is not ready
	RuleTaint        Rule = "Taint"
	RuleRequirement  Rule = "Requirement" // node selector or affinity against pool, type or offering
	RuleResource     Rule = "Resource"    // no type is large enough, or none has the resource
	RuleLimit        Rule = "Limit"       // the pool's limit would be exceeded
	RuleCapacity     Rule = "Capacity"    // all offerings that fit are out of stock for now
	RuleMinValues    Rule = "MinValues"
	RuleAffinity     Rule = "PodAffinity"
	RuleAntiAffinity Rule = "PodAntiAffinity" // the pod's own, or that of a pod that is there
	RuleSpread       Rule = "TopologySpread"
	RuleHostPort     Rule = "HostPort"
	RuleVolume       Rule = "Volume"      // where its volumes can be
	RuleVolumeLimit  Rule = "VolumeLimit" // how many volumes a node can take
	RuleVolumeInUse  Rule = "VolumeInUse" // ReadWriteOncePod
	RuleNoPool       Rule = "NoPool"      // there is no pool at all

	RuleCatalog Rule = "Catalog" // the types the pool's node class offers: where each funnel begins
	RuleSteps   Rule = "Steps"   // the search was cut (Plan.Partial); the next plan goes on
	// RuleUnexplained: no node can be launched for the pod now, and why is not worked out yet: other pods come first.
	RuleUnexplained Rule = "Unexplained"
	RuleSoon        Rule = "Soon" // pods are likely to end on a machine that is there before another one would be ready

	RuleNeeded         Rule = "Needed"         // pods that wait have their place there
	RuleNotInitialized Rule = "NotInitialized" // the machine is still on its way

	RuleBudget          Rule = "Budget"
	RuleDoNotDisrupt    Rule = "DoNotDisrupt"
	RuleTooYoung        Rule = "TooYoung" // consolidateAfter is not over
	RuleNever           Rule = "Never"    // consolidateAfter: Never
	RuleEvictionBlocked Rule = "Held"     // a pod there cannot be evicted now, such as behind a PodDisruptionBudget
	RuleGone            Rule = "Gone"     // the machine is not there any more
	RuleNotDrifted      Rule = "NotDrifted"
	RuleNoPlace         Rule = "NoPlace"      // a pod there would find no other place
	RuleNotCheaper      Rule = "NotCheaper"   // the pods cost as much elsewhere
	RuleMoreNodes       Rule = "MoreMachines" // the pods would need more machines
	RuleSpotToSpot      Rule = "SpotToSpot"   // only another spot machine would be cheaper
	RuleWhenEmpty       Rule = "WhenEmpty"    // consolidationPolicy: WhenEmpty, and pods run there
	RuleBalanced        Rule = "Balanced"     // consolidationPolicy: Balanced, and what is saved is not worth the pods' moves
	RuleFragile         Rule = "Fragile"      // kube-scheduler may not find the places that a plan has for the pods
	RulePayback         Rule = "Payback"      // the pods are too young: they may be gone before their moves have paid
	RuleNoPrice         Rule = "NoPrice"      // what the machine costs is not known
	RuleStatic          Rule = "Static"       // a static pool keeps its replicas
	RuleWindow          Rule = "Window"       // not at this time
	RuleUnclear         Rule = "Unclear"      // what the pool's owner said of disruption cannot be read
	RuleSmallSaving     Rule = "SmallSaving"  // less is saved than the pool wants
	RuleNotExpired      Rule = "NotExpired"
	RuleNotCrowded      Rule = "NotCrowded"
	RuleJob             Rule = "Job"    // a Job's pod there will be done sooner than moving it pays
	RuleNoHelp          Rule = "NoHelp" // another machine of its kind would be no better
)

// Passing reports whether the next plan is likely to say something else though nobody changes anything: nothing is the matter yet, or
// what it is will be known.
func (r Rule) Transient() bool { return r == RuleSteps || r == RuleSoon || r == RuleUnexplained }

// OfPods reports whether the rule is about other pods, whatever the pools have.
func (r Rule) BetweenPods() bool {
	switch r {
	case RuleAffinity, RuleAntiAffinity, RuleSpread, RuleHostPort, RuleVolumeInUse:
		return true
	}
	return false
}

// Reason is why something did not happen, as data. engine/reason makes sentences of it.
type Reason struct {
	Rule   Rule
	Object string // what the rule was about: a taint, a label key, a resource name, a PDB …
	Detail string // the value that was asked or offered, as a person would write it
	Best   string // what came nearest, such as "740Gi" of a resource, "" if nothing did
	BestOf string // whose Best is: an instance type
	Pools  []PoolVerdict
	More   int // pools whose verdicts are left out of Pools: none of them came nearer to a node
	// Group is, of a node that would be replaced together with others but for this Reason, all of them by name; nil if the Reason is
	// about the node alone.
	Group []string
	// Until is when time alone takes the Reason away, zero if it does not. The controller looks again then.
	Until  time.Time
	Change Change // the smallest single change that would place it; zero if none is known
}

// Change is one edit after which a pod would have its place.
type Change struct {
	Rule     Rule   // the rule that would no longer stand in the way
	Object   string // what to edit: a label key, a resource, "limit cpu", a taint
	Pool     string // whose machines it would then get, "" if it is not about a pool
	From, To string // as a person writes them; To "" = remove it
	// Arch is the architecture of the node that the pod would get, where the pod does not ask for it and it is not the usual one, or where
	// it is what is changed: its image must be built for that.
	Arch string
}

// PoolVerdict is what one pool answered to one pod: a funnel of how many of its types were left after each rule.
type PoolVerdict struct {
	Pool   string
	Rule   Rule // the rule that left nothing
	Object string
	Detail string
	Best   string
	BestOf string
	Funnel []FunnelStep
}

// FunnelStep says how many types were left after a rule.
type FunnelStep struct {
	Rule Rule
	Left int
}
