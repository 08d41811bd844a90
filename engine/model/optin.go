package model

import "time"

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
