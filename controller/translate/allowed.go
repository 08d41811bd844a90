package translate

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// AllowedDisruptions is how many of a pool's machines may be going at the same time for a reason, those that are
// included; 0 if its budgets or annotations cannot be read, or its disruption window for that reason is closed.
func AllowedDisruptions(np *karpv1.NodePool, reason karpv1.DisruptionReason, now time.Time, machines int) int {
	wishes, err := ReadWishes(np)
	if err != nil {
		return 0
	}
	shown := wall(now, wishes.zone)
	n, err := allowed(np.Spec.Disruption.Budgets, reason, shown, machines)
	if open, _ := inWindows(wishes.windows, shown); err != nil || len(wishes.windows) > 0 && !open &&
		wishes.binds.Binds(model.Method(reason)) {
		return 0
	}
	return n
}
