package model

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Plan is what should be done. It is a proposal: nothing in it has happened yet.
type Plan struct {
	Placements []Placement // by pod
	Launches   []Launch    // by ID
	Unplaced   []Unplaced  // by pod
	Removals   []Removal   // by Node: nodes that need no replacement
	Commands   []Command   // nodes to remove once their replacements are ready, by the first of their Removals
	Kept       []Kept      // candidates that stay, by Node
	Partial    bool        // the search was cut short: the plan is valid, more may be possible
	// After is where Disrupt stopped looking at nodes whose pods have to move. Passed as Policy.After, it makes the
	// next call continue there. The zero value means that it looked at all of them.
	After Cursor
	// RecheckAt is when a node that stays only because its pods are too young may be removed even if nothing changes;
	// zero if none.
	RecheckAt time.Time `json:"Again"`
	// LowerBound is a lower bound on the effective price of any set of launches for these pods that respects the pools'
	// weights; 0 = not computed.
	LowerBound     Price
	EffectivePrice Price `json:"Counts"` // of the launches under the policy; by default what they cost
}

// Digest returns the ID of what the text describes: equal texts have equal IDs.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Placement says that an existing node, or one in flight, has room for the pod.
type Placement struct {
	Pod  PodKey
	Node string
}

// Launch is a node to launch.
type Launch struct {
	ID           string // digest of the content: the same launch for the same pods has the same ID
	Pool         string
	Requirements Requirements // for the NodeClaim: pool ∧ pods, with the candidate types, zones and capacity types
	Types        []string     // candidate types, cheapest first
	Requests     Resources    // of its pods and daemons
	Pods         []PodKey
	Chosen       Candidate
	RunnerUp     Candidate // zero if there is none
	Relaxed      []Relaxed // minValues lowered for this node, by Key; Requirements has the lowered ones
}

// Relaxed is a minValues of the pool that a launch does not meet.
type Relaxed struct {
	Key      string
	From, To int
}

// Candidate is one offering that a launch can use.
type Candidate struct {
	OfferingKey
	Price Price
}

// Unplaced is a pod that the plan cannot place, and why.
type Unplaced struct {
	Pod    PodKey
	Reason Reason
}

// Method is the disruption method that removes a node.
type Method string

// Disruption methods, as in karpenter.sh/v1 budgets.
const (
	Empty         Method = "Empty"
	Drifted       Method = "Drifted"
	Underutilized Method = "Underutilized"
	// Expired and CrowdedOut are opt-in and count against the budgets for drift: the node is older than its pool's
	// SoftExpireAfter, or has no room for a DaemonSet's pod.
	Expired    Method = "Expired"
	CrowdedOut Method = "DaemonSetCrowdedOut"
	// Overprovisioned nodes exceed a static pool's replicas. They need no budget, as in upstream's static
	// deprovisioning.
	Overprovisioned Method = "Overprovisioned"
)

// Command removes nodes whose pods have to move. First its Launches are created and become initialized, then the
// command is validated again, then all of its Removals happen, or none.
type Command struct {
	ID       string // digest of the content: the same command has the same ID
	Method   Method
	Removals []Removal // by Node, at least one
	Launches []Launch  // replacements, by ID; none if the pods fit on existing nodes
	// Placements assigns the pods for which nothing is launched to existing nodes, by pod. kube-scheduler may choose
	// other nodes.
	Placements []Placement
	Saves      Price // per hour; may be negative for drift
	Cost       int64 // of the pods' moves: the sum of their EvictionCosts, and 1000 for each node
}

// Removal is a node that should be removed.
type Removal struct {
	Node, Claim, Pool string
	Method            Method
	Saves             Price
}

// Kept is a candidate for removal that stays.
type Kept struct {
	Node   string
	Reason Reason
}
