package view

import (
	"time"
	"unique"
)

// MaxResources is the maximum number of resources that a Model counts.
const MaxResources = 4

// Indices in Amounts of what every Model counts beside its resources.
const (
	GPUs      = MaxResources + iota // as record.IsGPU
	Addresses                       // of pods: those that a node has room for, and those in use; 0 = unknown
)

// Amounts are the offered or requested amounts of each resource of a Model, by its index: CPU in millicores, pods as
// a number, everything else in base units. GPUs and addresses follow.
type Amounts [Addresses + 1]int64

func (a *Amounts) add(b *Amounts, sign int64) {
	for i := range a {
		a[i] += sign * b[i]
	}
}

// Node is what is shown of a Node. Like all facts, it must not be changed once a Model has it.
type Node struct {
	Name, ProviderID string
	Labels           map[string]string
	Created          time.Time
	Ready            bool
	ReadyChanged     time.Time // when Ready last changed
	Cordoned         bool      // spec.unschedulable
	Disrupted        bool      // has the taint karpenter.sh/disrupted
	Deleting         bool
	DoNotDisrupt     bool
	Unknown          bool   // only its name is known
	Pod              string // namespace/name of the pod whose microVM this is
	Allocatable      Amounts
	Price            int64 // millionths of a dollar an hour; 0 = unknown
}

// Claim is what is shown of a NodeClaim.
type Claim struct {
	Name, Node, ProviderID            string
	Labels                            map[string]string
	Created                           time.Time
	Launched, Registered, Initialized time.Time // zero: not yet
	Deleting                          bool
	DoNotDisrupt                      bool
	Disruption                        string // why it is being removed, such as "Underutilized"
	Drift                             string // why it has drifted
	Interruption                      string // why the cloud reclaims it
	Problem                           string // why it has not been launched or registered
	Pod                               string // namespace/name of the pod whose microVM this is
	Allocatable                       Amounts
	Price                             int64 // millionths of a dollar an hour; 0 = unknown
}

// Phase is the phase of a pod.
type Phase uint8

// The phases of pods that are distinguished. Ended pods are not counted anywhere.
const (
	Pending Phase = iota
	Running
	Ended
)

// String returns the phase as Kubernetes writes it, except that succeeded and failed pods are both Ended.
func (p Phase) String() string { return [...]string{"Pending", "Running", "Ended"}[p] }

// Pod is what is shown of a pod.
type Pod struct {
	UID                   string
	Namespace, Name, Node string
	Created               time.Time
	Phase                 Phase
	Requests              Amounts // including one pod, if pods are counted
	Deleting              bool
	Gated                 bool                    // it has scheduling gates
	Verdict               string                  // the scheduler's message, if it has no node
	Workload              unique.Handle[Object]   // zero = it has no controller
	Revision              unique.Handle[Revision] // zero = no workload that has revisions created it
}

// Limit is one of a NodePool's limits.
type Limit struct {
	Resource  string
	Used      string // a quantity
	Most      string // a quantity
	UsedShare float64
}

// Pool is what is shown of a NodePool.
type Pool struct {
	Name    string
	Weight  int
	Ready   bool
	Problem string // why it is not ready
	Limits  []Limit
	Budgets []string // as written, such as "10%" or "0 Drifted @daily 8h"
	// Allowed returns how many of a number of nodes may be disrupted at once, including those that already are, for
	// each of Reasons.
	Allowed func(now time.Time, nodes int) [len(Reasons)]int
	// Conditions are the conditions that are not True.
	Conditions []Condition
	// Disruption returns which of its budgets and windows are in force at a time; nil = unknown.
	Disruption func(now time.Time) Disruption
}

// Condition is one of an object's conditions.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time
}

// Turn says whether something is in force, and when that changes next; zero if never.
type Turn struct {
	Active bool
	Next   time.Time
}

// Span is a period in which something is in force.
type Span struct{ From, To time.Time }

// Calendar is how far ahead the spans of budgets and windows are known.
const Calendar = 7 * 24 * time.Hour

// Disruption is when nodes of a NodePool may be disrupted.
type Disruption struct {
	Zone    string // time zone of all schedules
	Budgets []Budget
	Window  *DisruptionWindow // nil = at any time
}

// Budget is one of a NodePool's disruption budgets.
type Budget struct {
	Turn
	Nodes    string        // a number or a percentage
	Reasons  []string      // none = any
	Schedule string        // as written; "" = always in force
	Duration time.Duration // of each period in which its schedule puts it in force
	Spans    []Span        // when its schedule puts it in force, within Calendar
}

// DisruptionWindow is the only time in which nodes may be disrupted for some reasons.
type DisruptionWindow struct {
	Turn
	Schedules string // as written
	Reasons   []string
	Spans     []Span // when it is open, within Calendar
}

// Reasons are the disruption reasons that budgets distinguish.
var Reasons = [...]string{"Empty", "Drifted", "Underutilized"}

// Object names an object, such as the one that an event is about.
type Object struct{ Kind, Namespace, Name string }

// Said is the newest of our events about an object.
type Said struct {
	Reason, Message string
	At              time.Time
	UID             string // of the object; "" = the event does not say
}

// concerns reports whether the event can be about the object with a UID, rather than another one of the same name.
func (s Said) concerns(uid string) bool { return s.UID == "" || s.UID == uid }

// keptFor is how long an event says why a node is kept. While that is so, the controller repeats it every 15 minutes
// (the pauses of controller/apply, as in Karpenter); the next one may be missed.
const keptFor = 2 * 15 * time.Minute

// keeps reports whether the event says why a node is kept at a time; at the zero time, whether it ever did.
func (s Said) keeps(now time.Time) bool {
	return (s.Reason == "Unconsolidatable" || s.Reason == "DisruptionBlocked") && now.Sub(s.At) <= keptFor
}
