package kube

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// AllowedDisruptions is how many of a pool's machines may be going at the same time for a reason, those that are
// included; 0 if its budgets cannot be read.
func AllowedDisruptions(np *karpv1.NodePool, reason karpv1.DisruptionReason, now time.Time, machines int) int {
	n, err := allowed(np.Spec.Disruption.Budgets, reason, now, machines)
	if err != nil {
		return 0
	}
	return n
}
