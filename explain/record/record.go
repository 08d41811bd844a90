// Package record describes decisions and their outcomes as data that outlives Nodes, pods and processes. It is pure: it
// makes entries from reconcile cycles and observed NodeClaims, encodes and decodes them, joins decisions with their
// outcomes, and adds up savings. Package explain/record/store keeps the entries in the cluster.
//
// The JSON names are part of the stored format: older records must stay readable.
package record

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Kind classifies decisions.
type Kind string

// Kinds of decisions.
const (
	Launch        Kind = "Launch"  // a node for pending pods or for a static pool
	Remove        Kind = "Remove"  // empty nodes, or nodes whose pods fit elsewhere
	Replace       Kind = "Replace" // nodes that are removed once their replacements are ready
	Terminate     Kind = "Depart"  // a node that something else removes: the cloud, its expiry, a person
	Unschedulable Kind = "Refuse"  // pods that get no node
	Broken        Kind = "Broken"  // a plan that failed its check and was not applied
	Lost          Kind = "Lost"    // decisions that could not be recorded
)

// Decision is one decision, with its time. Money is in US dollars an hour.
type Decision struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Snapshot string    `json:"snapshot,omitempty"` // digest of the snapshot it was made on: see Digest
	Kind     Kind      `json:"kind"`
	// Method is why nodes are removed, as in karpenter.sh/v1: Empty, Drifted, Underutilized …; or Interrupted, Expired,
	// Deleted.
	Method  string `json:"method,omitempty"`
	Command string `json:"command,omitempty"` // ID of the command, as on NodeClaims
	Why     string `json:"why"`               // as a sentence
	Rule    string `json:"rule,omitempty"`    // of Unschedulable: the rule that no node satisfies
	// of Unschedulable for lack of capacity: which offerings are retried, and when
	Again string `json:"again,omitempty"`
	// Pods are the pending pods that the decision is about, as namespace/name. PodsMore counts pods that are left out
	// or not created yet.
	Pods     []string      `json:"pods,omitempty"`
	PodUIDs  []string      `json:"podUIDs,omitempty"` // of Pods, in their order: see ShortUID
	PodsMore int           `json:"podsMore,omitempty"`
	Removed  []RemovedNode `json:"goes,omitempty"`
	// Shares divide the prices of Removed among the workloads of their pods, if the nodes are empty or underutilized.
	Shares       []Share        `json:"shares,omitempty"`
	Launched     []LaunchedNode `json:"comes,omitempty"`
	SavesPerHour float64        `json:"savesDollarsPerHour,omitempty"` // negative if it costs more
}

// Offer is a type in a zone at a price.
type Offer struct {
	Type           string  `json:"type"`
	Zone           string  `json:"zone,omitempty"`
	CapacityType   string  `json:"capacityType,omitempty"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// RemovedNode is a node that a decision removes.
type RemovedNode struct {
	Offer    `json:",inline"`
	Node     string     `json:"node,omitempty"`
	Claim    string     `json:"nodeClaim,omitempty"`
	Pool     string     `json:"nodePool,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"` // when its expireAfter would have passed
	Pods     []string   `json:"pods,omitempty"`    // that were evicted, as namespace/name
	PodUIDs  []string   `json:"podUIDs,omitempty"` // of Pods, in their order: see ShortUID
	PodsMore int        `json:"podsMore,omitempty"`
	// Moves say where a command planned the pods to run next, most pods first; kube-scheduler may place them elsewhere.
	Moves []Move `json:"moves,omitempty"`
}

// Move says how many pods of a removed node were planned to run on another node.
type Move struct {
	To   string `json:"to"` // its Node, or its NodeClaim if it had no Node yet
	Pods int    `json:"pods"`
}

// LaunchedNode is a node that a decision launches.
type LaunchedNode struct {
	Claim  string `json:"nodeClaim,omitempty"`
	Pool   string `json:"nodePool"`
	Chosen Offer  `json:"chosen"`
	// RunnerUp is the best offer that was not chosen, nil if no other type fits; Others are the best of further types,
	// cheapest first.
	RunnerUp *Offer  `json:"runnerUp,omitempty"`
	Others   []Offer `json:"others,omitempty"`
	Types    int     `json:"types"`              // how many types fit
	Requests string  `json:"requests,omitempty"` // the sum over its pods and daemons
}

// OutcomeKind classifies outcomes.
type OutcomeKind string

// Kinds of outcomes.
const (
	Ready          OutcomeKind = "Ready"  // a launched node accepts pods
	RemovalStarted OutcomeKind = "Asked"  // the replacements of a command are ready, so its nodes are being removed
	Kept           OutcomeKind = "Undone" // a command was abandoned; its nodes stay
	Terminated     OutcomeKind = "Gone"   // a node no longer exists
)

// Outcome is one event in the life of a decision.
type Outcome struct {
	Of      string      `json:"of"` // Decision.ID
	Kind    OutcomeKind `json:"what"`
	Time    time.Time   `json:"time"`
	Claim   string      `json:"nodeClaim,omitempty"`
	Node    string      `json:"node,omitempty"`
	Seconds float64     `json:"seconds,omitempty"` // since the decision
	Offer   *Offer      `json:"offer,omitempty"`   // of Ready: what the cloud launched
	Text    string      `json:"text,omitempty"`    // why, if known
}

// Entry is one line of the log: either a decision or an outcome.
type Entry struct {
	Decision *Decision `json:"decision,omitempty"`
	Outcome  *Outcome  `json:"outcome,omitempty"`
}

// Key identifies an entry. Entries with the same key count once.
func (e Entry) Key() string {
	switch {
	case e.Decision != nil:
		return e.Decision.ID
	case e.Outcome != nil:
		return e.Outcome.Of + "/" + string(e.Outcome.Kind) + "/" + e.Outcome.Claim
	}
	return ""
}

// When returns the time of the entry.
func (e Entry) When() time.Time {
	switch {
	case e.Decision != nil:
		return e.Decision.Time
	case e.Outcome != nil:
		return e.Outcome.Time
	}
	return time.Time{}
}

// Record is a decision with all its outcomes, by time.
type Record struct {
	Decision `json:",inline"`
	Outcomes []Outcome `json:"outcomes,omitempty"`
}

// List is the machine-readable form of records.
type List struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"` // DecisionList
	Items      []Record `json:"items"`
}

// Fold joins decisions with their outcomes, by time. Outcomes of decisions that are no longer kept are dropped.
func Fold(entries []Entry) []Record {
	at, seen := map[string]int{}, map[string]bool{}
	var out []Record
	for _, e := range entries {
		if e.Decision != nil && !seen[e.Key()] {
			seen[e.Key()] = true
			at[e.Decision.ID] = len(out)
			out = append(out, Record{Decision: *e.Decision})
		}
	}
	for _, e := range entries {
		if e.Outcome == nil || seen[e.Key()] {
			continue
		}
		if i, ok := at[e.Outcome.Of]; ok {
			seen[e.Key()] = true
			out[i].Outcomes = append(out[i].Outcomes, *e.Outcome)
		}
	}
	for i := range out {
		slices.SortStableFunc(out[i].Outcomes, func(a, b Outcome) int { return a.Time.Compare(b.Time) })
	}
	slices.SortStableFunc(out, func(a, b Record) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Entries is the inverse of Fold.
func Entries(records []Record) []Entry {
	var out []Entry
	for i := range records {
		out = append(out, Entry{Decision: &records[i].Decision})
		for j := range records[i].Outcomes {
			out = append(out, Entry{Outcome: &records[i].Outcomes[j]})
		}
	}
	return out
}

// Outcome returns the first outcome of a kind about a claim, or nil; "" stands for any claim.
func (r *Record) Outcome(what OutcomeKind, claim string) *Outcome {
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Kind == what && (claim == "" || o.Claim == claim) {
			return o
		}
	}
	return nil
}

// Of returns the records about a pod ("pod", namespace/name), a node, a nodeclaim or a nodepool, by time.
func Of(all []Record, kind, name string) []Record {
	return slices.DeleteFunc(slices.Clone(all), func(r Record) bool { return !r.About(strings.ToLower(kind), name) })
}

// About reports whether the record is about an object, as in Of; kind is in lower case.
func (r *Record) About(kind, name string) bool {
	switch kind {
	case "pod":
		return slices.Contains(r.Pods, name) ||
			slices.ContainsFunc(r.Removed, func(m RemovedNode) bool { return slices.Contains(m.Pods, name) })
	case "node":
		return slices.ContainsFunc(r.Removed, func(m RemovedNode) bool { return m.Node == name }) ||
			slices.ContainsFunc(r.Outcomes, func(o Outcome) bool { return o.Node == name })
	case "nodeclaim":
		return slices.ContainsFunc(r.Removed, func(m RemovedNode) bool { return m.Claim == name }) ||
			slices.ContainsFunc(r.Launched, func(b LaunchedNode) bool { return b.Claim == name })
	case "nodepool":
		return slices.ContainsFunc(r.Removed, func(m RemovedNode) bool { return m.Pool == name }) ||
			slices.ContainsFunc(r.Launched, func(b LaunchedNode) bool { return b.Pool == name })
	}
	return false
}
