package view

import "time"

// MaxResources is how many resources are counted at once.
const MaxResources = 4

// Amounts are what is offered or asked for of each resource of a Model, by its index: CPU in millicores, pods in
// pieces, everything else in base units.
type Amounts [MaxResources]int64

func (a *Amounts) add(b *Amounts, sign int64) {
	for i := range a {
		a[i] += sign * b[i]
	}
}

// Node is what is shown of a Node. Whoever gave it to a Model does not change it any more; so with all facts.
type Node struct {
	Name, ProviderID string
	Labels           map[string]string
	Created          time.Time
	Ready            bool
	ReadyChanged     time.Time // when Ready became what it is
	Cordoned         bool      // spec.unschedulable
	Disrupted        bool      // the taint karpenter.sh/disrupted
	Deleting         bool
	DoNotDisrupt     bool
	Unknown          bool   // no more than its name is known
	Pod              string // namespace/name of the pod whose microVM this is
	Allocatable      Amounts
	Price            int64 // millionths of a dollar an hour; 0 = not known
}

// Claim is what is shown of a NodeClaim.
type Claim struct {
	Name, Node, ProviderID            string
	Labels                            map[string]string
	Created                           time.Time
	Launched, Registered, Initialized time.Time // zero: not yet
	Deleting                          bool
	DoNotDisrupt                      bool
	Disruption                        string // why it goes, such as "Underutilized"
	Drift                             string // why it is drifted
	Interruption                      string // why the cloud takes it away
	Problem                           string // why it was not launched or has not registered
	Pod                               string // namespace/name of the pod whose microVM this is
	Allocatable                       Amounts
	Price                             int64 // millionths of a dollar an hour; 0 = not known
}

// Phase is a pod's.
type Phase uint8

// The phases of pods that are told apart; pods that ended count nowhere.
const (
	Pending Phase = iota
	Running
	Ended
)

// String is the phase as Kubernetes writes it, but for pods that ended one way or the other.
func (p Phase) String() string { return [...]string{"Pending", "Running", "Ended"}[p] }

// Pod is what is shown of a pod.
type Pod struct {
	UID                   string
	Namespace, Name, Node string
	Created               time.Time
	Phase                 Phase
	Requests              Amounts // one pod included, where pods are counted
	Deleting              bool
	Gated                 bool   // it has scheduling gates
	Verdict               string // the scheduler's message, of a pod without a place
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
	// Allowed is how many of so many nodes may be going at once, those that are included, for each of Reasons.
	Allowed func(now time.Time, nodes int) [len(Reasons)]int
	// Conditions are those that are not True.
	Conditions []Condition
	// Disruption is what of its budgets is in force at a time; nil = that is not known.
	Disruption func(now time.Time) Disruption
}

// Condition is one of an object's conditions.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time
}

// Turn says whether something is in force, and when that changes; zero if never.
type Turn struct {
	Active bool
	Next   time.Time
}

// Span is a time in which something is in force.
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
	Reasons  []string      // none: for any
	Schedule string        // as written; "" = it is always in force
	Duration time.Duration // of each time that it is in force by its schedule
	Spans    []Span        // when it is by its schedule, within Calendar
}

// DisruptionWindow is when alone nodes may be disrupted for some reasons.
type DisruptionWindow struct {
	Turn
	Schedules string // as written
	Reasons   []string
	Spans     []Span // when it is open, within Calendar
}

// Reasons are the disruption reasons that budgets tell apart.
var Reasons = [...]string{"Empty", "Drifted", "Underutilized"}

// Object names what an event is about.
type Object struct{ Kind, Namespace, Name string }

// Said is the newest event of ours about an object.
type Said struct {
	Reason, Message string
	At              time.Time
	UID             string // of the object; "" = the event does not tell
}

// concerns reports whether the event can be about the object of a UID, and not about another one of the same name.
func (s Said) concerns(uid string) bool { return s.UID == "" || s.UID == uid }
