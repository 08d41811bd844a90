package translate

import (
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// ConditionLaunchSucceeded is False on a NodePool whose last launch failed, and not for want of capacity, and on its
// node class; it is absent otherwise. Readiness does not depend on it: the pool launches again when its back-off
// ends.
const ConditionLaunchSucceeded = "LaunchSucceeded"

const launchesAgain = "; the NodePool launches again at "

// SetLaunchFailure writes on a NodePool why its last launch failed, and until when it launches nothing.
func SetLaunchFailure(np *karpv1.NodePool, reason, message string, until time.Time) {
	message += launchesAgain + until.UTC().Format(time.RFC3339)
	np.StatusConditions(status.WithObservedOnly()).SetFalse(ConditionLaunchSucceeded, reason, message)
}

// LaunchFailure reads what SetLaunchFailure wrote; ok is false if nothing is written.
func LaunchFailure(np *karpv1.NodePool) (reason, message string, until time.Time, ok bool) {
	c := np.StatusConditions(status.WithObservedOnly()).Get(ConditionLaunchSucceeded)
	if c == nil || !c.IsFalse() {
		return "", "", time.Time{}, false
	}
	i := strings.LastIndex(c.Message, launchesAgain)
	if i < 0 {
		return "", "", time.Time{}, false
	}
	until, err := time.Parse(time.RFC3339, c.Message[i+len(launchesAgain):])
	return c.Reason, c.Message[:i], until, err == nil
}
