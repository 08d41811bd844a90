package model

import (
	"math"
	"slices"
	"time"
)

// DisruptionPolicy is a pool's spec.disruption, evaluated for now, and its disruption annotations.
type DisruptionPolicy struct {
	ConsolidateAfter time.Duration
	Never            bool // consolidateAfter: Never
	WhenEmptyOnly    bool // consolidationPolicy: WhenEmpty
	Balanced         bool // consolidationPolicy: Balanced
	// how many empty nodes the budgets allow to be removed now; controller/translate evaluates schedules and
	// percentages
	AllowedEmpty     int
	AllowedDrifted   int // the same for drifted nodes
	AllowedUnderused int // the same for underutilized nodes

	Window Window // when nodes may be disrupted; the zero value = any time
	// Unclear says why nothing in the pool may be disrupted: one of its disruption annotations is invalid. "" = they
	// are valid.
	Unclear string
	// MinSaving is the minimum that consolidation must save per hour for each removed node, MinSavingPercent the same
	// as a percentage of the nodes' prices, 0 to 100; 0 = no minimum.
	MinSaving        Price
	MinSavingPercent int
	SoftExpireAfter  time.Duration // replaces nodes of this age as if they had drifted; 0 = never
	ReplaceCrowded   bool          // replaces nodes that have no room for a DaemonSet's pod
	WaitForJobs      bool          // consolidation waits for Job pods that will finish before moving them pays
}

// Window is the pool's disruption window as of now; controller/translate evaluates cron expressions and time zones.
type Window struct {
	Empty, Drifted, Underused bool // the methods it restricts, as in budgets; none = there is no window
	Open                      bool
	Until                     time.Time // when it opens or closes next; zero if never
}

// Binds reports whether the method may remove nodes only while the window is open. Expired and CrowdedOut count as
// drift.
func (w *Window) Binds(how Method) bool {
	switch how {
	case Empty:
		return w.Empty
	case Underutilized:
		return w.Underused
	case Drifted, Expired, CrowdedOut:
		return w.Drifted
	}
	return false
}

// CrowdedOutAfter is how long a DaemonSet's pod must have waited for room on a node before the node counts as
// CrowdedOut: until then kube-scheduler may still preempt pods of lower priority.
const CrowdedOutAfter = time.Minute

// MissingDaemon is a DaemonSet whose pod waits for one particular node.
type MissingDaemon struct {
	DaemonSet string // namespace/name
	Since     time.Time
}

// JobRun is what is known about how long a Job's pod will keep running.
type JobRun struct {
	Started time.Time
	Past    []time.Duration // run times of earlier successful pods of the Job or its CronJob; ascending
	EndsBy  time.Time       // when activeDeadlineSeconds expires; zero if there is no deadline
}

// Remaining estimates how much longer the pod will run, and reports whether there is anything to base an estimate on.
// The estimate is the median of the earlier runs that took longer than this one has so far, capped by the deadline.
func (j *JobRun) Remaining(now time.Time) (time.Duration, bool) {
	ran := now.Sub(j.Started)
	longer := j.Past
	for len(longer) > 0 && longer[0] <= ran {
		longer = longer[1:]
	}
	left, known := time.Duration(0), len(longer) > 0
	if known {
		left = longer[len(longer)/2] - ran
	}
	if deadline := j.EndsBy.Sub(now); !j.EndsBy.IsZero() && deadline > 0 && (!known || deadline < left) {
		left, known = deadline, true
	}
	return left, known
}

// Unknown is the Remaining of pods of unknown age: long enough for everything.
const Unknown = time.Duration(math.MaxInt64)

// Remaining returns how long half of the pods can be expected to keep running: as long as they have run so far. On
// traces of batch and service clusters a pod's age is the best single predictor of its remaining life. For lifetimes
// with a heavy tail, whose hazard falls with age as a/age, the age is the median of what remains at a = 1. Pods of
// unknown age count as old.
func Remaining(now time.Time, pods []Pod) time.Duration {
	ages := make([]time.Duration, 0, len(pods))
	for i := range pods {
		age := Unknown
		if created := pods[i].Created; !created.IsZero() {
			age = max(now.Sub(created), 0)
		}
		ages = append(ages, age)
	}
	if len(ages) == 0 {
		return Unknown
	}
	slices.Sort(ages)
	return ages[len(ages)/2]
}

// Handover is the time for which a node and its replacement are both paid: about as long as an EC2 instance takes
// from launch to Ready and its predecessor takes to drain.
const Handover = time.Minute

// Payback returns the time after which a command has saved what it costs: nodes paid twice during the handover, and
// moves, which cost this many thousandths of MovePrice. It is Unknown if nothing is saved.
func (p *Policy) Payback(saves, launched Price, moves int64) time.Duration {
	if saves <= 0 {
		return Unknown
	}
	hours := Handover.Hours()*float64(max(launched, 0)) + float64(max(p.MovePrice, 0))*float64(max(moves, 0))/1000
	hours /= float64(saves)
	if hours >= Unknown.Hours() {
		return Unknown
	}
	return time.Duration(hours * float64(time.Hour)).Round(time.Second)
}
