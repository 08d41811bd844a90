package model

import "time"

// Plan is what should be done; nothing in it has happened yet.
type Plan struct {
	Placements []Placement // by pod
	Launches   []Launch    // by ID
	Unplaced   []Unplaced  // by pod
	Removals   []Removal   // by Node: machines of which nobody needs a replacement
	Commands   []Command   // machines that go once their replacements are ready, by the first of their Removals
	Kept       []Kept      // nodes that were looked at and stay, by Node
	Partial    bool        // the search was cut; what is here is good, more may be possible
	// After is where Disrupt stopped looking at machines whose pods have to move: what Policy.After has to be for the next call to
	// go on there. The zero value = it came to the end.
	After Cursor
	// Again is when a machine that stays for no more than its pods' age may go though nothing has changed; zero if there is none.
	RecheckAt time.Time `json:"Again"`
	// LowerBound: no set of launches for these pods that goes by the pools' weights counts for less, in the policy's effective
	// prices; 0 = not computed.
	LowerBound     Price
	EffectivePrice Price `json:"Counts"` // what the launches count for, in the policy's effective prices: under the default policy what they cost
}

// Placement says that an existing machine, or one on its way, has room for the pod.
type Placement struct {
	Pod  PodKey
	Node string
}

// Launch is a new machine.
type Launch struct {
	ID           string // digest of the content: the same launch of the same pods has the same ID
	Pool         string
	Requirements Requirements // for the NodeClaim: pool ∧ pods, with the candidate types, zones and capacity types
	Types        []string     // candidate types, cheapest first
	Requests     Resources    // pods and daemons
	Pods         []PodKey
	Chosen       Candidate
	RunnerUp     Candidate // zero if there was none
	Relaxed      []Relaxed // minValues that are lowered for this machine, by Key; in Requirements they are lower already
}

// Relaxed is a minValues of the pool that a launch does not keep.
type Relaxed struct {
	Key      string
	From, To int
}

// Candidate is one way to launch.
type Candidate struct {
	OfferingKey
	Price Price
}

// Unplaced is a pod that gets nothing, and why.
type Unplaced struct {
	Pod    PodKey
	Reason Reason
}

// Method is the reason for which a node goes.
type Method string

// Disruption methods, as in karpenter.sh/v1 budgets.
const (
	Empty         Method = "Empty"
	Drifted       Method = "Drifted"
	Underutilized Method = "Underutilized"
	// Expired and CrowdedOut are opt-in, and count against the budgets for drift: the machine is older than its pool's
	// SoftExpireAfter, or a DaemonSet's pod has no room on it.
	Expired    Method = "Expired"
	CrowdedOut Method = "DaemonSetCrowdedOut"
	// Overprovisioned: a static pool has more machines than replicas. It needs no budget (as upstream's static deprovisioning).
	Overprovisioned Method = "Overprovisioned"
)

// Command takes machines away whose pods have to move: first Launches are made and become initialized, then the plan is
// looked at again, then Removals go, all or none.
type Command struct {
	ID       string // digest of the content: the same command has the same ID
	Method   Method
	Removals []Removal // by Node, at least one
	Launches []Launch  // replacements, by ID; none if the pods fit on what is there
	// Placements are the places on machines that are there of those pods for which nothing is launched, by pod. kube-scheduler may
	// find others.
	Placements []Placement
	Saves      Price // an hour; may be negative for drift
	Cost       int64 // what the pods' moves count for: the sum of their EvictionCosts, and 1000 a machine
}

// Removal is a machine that should go.
type Removal struct {
	Node, Claim, Pool string
	Method            Method
	Saves             Price
}

// Kept is a machine that was a candidate and stays.
type Kept struct {
	Node   string
	Reason Reason
}
