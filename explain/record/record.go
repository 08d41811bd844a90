// Package record holds what was decided and what became of it, as data that outlives Nodes, pods and processes. It is
// pure: it makes entries of turns of the loop and of what is seen of NodeClaims, codes and decodes them, puts them
// together again, and adds up what was saved. explain/record/store stores them in the cluster.
package record

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Kind is what sort of decision it was.
type Kind string

// Kinds of decisions.
const (
	Launch  Kind = "Launch"  // a machine for pods that wait, or for a static pool
	Remove  Kind = "Remove"  // machines that nobody needs, or whose pods have room elsewhere
	Replace Kind = "Replace" // machines that go once others are ready
	Depart  Kind = "Depart"  // a machine that goes by somebody else's will: the cloud's, its expiry, a person's
	Refuse  Kind = "Refuse"  // pods that get nothing
	Broken  Kind = "Broken"  // a plan that broke a promise and was not carried out
	Lost    Kind = "Lost"    // decisions that could not be kept
)

// Decision is one thing that was decided, at the time it was. Money is in US dollars an hour.
type Decision struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Snapshot string    `json:"snapshot,omitempty"` // digest of what it was decided on: see Digest
	Kind     Kind      `json:"kind"`
	// Method is for which reason machines go, as in karpenter.sh/v1: Empty, Drifted, Underutilized …; or Interrupted,
	// Expired, Deleted.
	Method  string `json:"method,omitempty"`
	Command string `json:"command,omitempty"` // ID of the command, as on NodeClaims
	Why     string `json:"why"`               // in a sentence
	Rule    string `json:"rule,omitempty"`    // of Refuse: the one that stands in the way
	// of Refuse for want of capacity: what the cloud is asked for again, and when
	Again string `json:"again,omitempty"`
	// Pods are for whom, as namespace/name: those that waited, or get nothing. PodsMore is how many are not named.
	Pods         []string  `json:"pods,omitempty"`
	PodUIDs      []string  `json:"podUIDs,omitempty"` // of Pods, in their order: see ShortUID
	PodsMore     int       `json:"podsMore,omitempty"`
	Goes         []Machine `json:"goes,omitempty"`
	Comes        []Bought  `json:"comes,omitempty"`
	SavesPerHour float64   `json:"savesDollarsPerHour,omitempty"` // below 0: it costs more
}

// Offer is a type in a zone at a price.
type Offer struct {
	Type           string  `json:"type"`
	Zone           string  `json:"zone,omitempty"`
	CapacityType   string  `json:"capacityType,omitempty"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// Machine is one that goes.
type Machine struct {
	Offer    `json:",inline"`
	Node     string     `json:"node,omitempty"`
	Claim    string     `json:"nodeClaim,omitempty"`
	Pool     string     `json:"nodePool,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"` // when its expireAfter would have been over
	Pods     []string   `json:"pods,omitempty"`    // that had to leave it, as namespace/name
	PodUIDs  []string   `json:"podUIDs,omitempty"` // of Pods, in their order: see ShortUID
	PodsMore int        `json:"podsMore,omitempty"`
}

// Bought is a machine that comes.
type Bought struct {
	Claim  string `json:"nodeClaim,omitempty"`
	Pool   string `json:"nodePool"`
	Chosen Offer  `json:"chosen"`
	// RunnerUp is the best that was not chosen, nil if no other type fits; Others are the best of further types,
	// cheapest first.
	RunnerUp *Offer  `json:"runnerUp,omitempty"`
	Others   []Offer `json:"others,omitempty"`
	Types    int     `json:"types"`              // how many types would do
	Requests string  `json:"requests,omitempty"` // what its pods and daemons ask for together
}

// What is what became of a decision.
type What string

// Outcomes.
const (
	Ready  What = "Ready"  // a machine that was launched takes pods
	Asked  What = "Asked"  // the machines of a command were asked to go: their replacements are ready
	Undone What = "Undone" // the machines of a command stay
	Gone   What = "Gone"   // a machine is not there any more
)

// Outcome is one thing that became of a decision.
type Outcome struct {
	Of      string    `json:"of"` // Decision.ID
	What    What      `json:"what"`
	Time    time.Time `json:"time"`
	Claim   string    `json:"nodeClaim,omitempty"`
	Node    string    `json:"node,omitempty"`
	Seconds float64   `json:"seconds,omitempty"` // since the decision
	Offer   *Offer    `json:"offer,omitempty"`   // of Ready: what the cloud gave
	Text    string    `json:"text,omitempty"`    // why, if there is something to say
}

// Entry is one line of the log: one of the two.
type Entry struct {
	Decision *Decision `json:"decision,omitempty"`
	Outcome  *Outcome  `json:"outcome,omitempty"`
}

// Key tells entries apart: an entry that was written twice is one.
func (e Entry) Key() string {
	switch {
	case e.Decision != nil:
		return e.Decision.ID
	case e.Outcome != nil:
		return e.Outcome.Of + "/" + string(e.Outcome.What) + "/" + e.Outcome.Claim
	}
	return ""
}

// When is the time of the entry.
func (e Entry) When() time.Time {
	switch {
	case e.Decision != nil:
		return e.Decision.Time
	case e.Outcome != nil:
		return e.Outcome.Time
	}
	return time.Time{}
}

// Record is a decision with all that became of it, in the order of time.
type Record struct {
	Decision `json:",inline"`
	Outcomes []Outcome `json:"outcomes,omitempty"`
}

// List is records for programs.
type List struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"` // DecisionList
	Items      []Record `json:"items"`
}

// Fold puts decisions and their outcomes together, by time. What became of a decision that is not kept any more is
// left out.
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

// Entries are what Fold makes the records of.
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

// Outcome is the first of a sort about a claim, nil if there is none; "" is any claim.
func (r *Record) Outcome(what What, claim string) *Outcome {
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.What == what && (claim == "" || o.Claim == claim) {
			return o
		}
	}
	return nil
}

// Of are the records about a pod ("pod", namespace/name), a node, a nodeclaim or a nodepool, in the order of time.
func Of(all []Record, kind, name string) []Record {
	return slices.DeleteFunc(slices.Clone(all), func(r Record) bool { return !r.About(strings.ToLower(kind), name) })
}

// About reports whether the record is about an object, as in Of; the kind is in lower case.
func (r *Record) About(kind, name string) bool {
	switch kind {
	case "pod":
		return slices.Contains(r.Pods, name) ||
			slices.ContainsFunc(r.Goes, func(m Machine) bool { return slices.Contains(m.Pods, name) })
	case "node":
		return slices.ContainsFunc(r.Goes, func(m Machine) bool { return m.Node == name }) ||
			slices.ContainsFunc(r.Outcomes, func(o Outcome) bool { return o.Node == name })
	case "nodeclaim":
		return slices.ContainsFunc(r.Goes, func(m Machine) bool { return m.Claim == name }) ||
			slices.ContainsFunc(r.Comes, func(b Bought) bool { return b.Claim == name })
	case "nodepool":
		return slices.ContainsFunc(r.Goes, func(m Machine) bool { return m.Pool == name }) ||
			slices.ContainsFunc(r.Comes, func(b Bought) bool { return b.Pool == name })
	}
	return false
}
