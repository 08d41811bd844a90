package model

import "time"

// Window is the times at which machines of a pool may go, as computed by controller/translate, cron and time zone and all.
type Window struct {
	Empty, Drifted, Underused bool // the reasons it binds, as in budgets; none = there is no window
	Open                      bool
	Until                     time.Time // when it opens or closes next; zero if it never does
}

// Binds reports whether machines may go by the method only while the window is open. What replaces a machine whatever it
// costs is bound as drift is.
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

// CrowdedPatience is how long a DaemonSet's pod must have waited for room on a machine before that is CrowdedOut: kube-scheduler
// may be about to make some by evicting pods of lower priority.
const CrowdedOutAfter = time.Minute

// Lacking is a DaemonSet whose pod waits for one machine, which no other can take.
type MissingDaemon struct {
	DaemonSet string // namespace/name
	Since     time.Time
}
