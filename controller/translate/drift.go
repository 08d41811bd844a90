package translate

import (
	"fmt"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Reasons of drift that follow from a NodePool (karpenter.md §3.1).
const (
	NodePoolDrifted     = "NodePoolDrifted"
	RequirementsDrifted = "RequirementsDrifted"
)

// PoolDrift is why a machine no longer is what its pool asks for: the hash of the pool's template was another one at
// the launch, or the claim's labels are not what the template requires; "" if it is.
func PoolDrift(claim *karpv1.NodeClaim, pool, was, hash string, want model.Requirements) (reason, message string) {
	if was != hash {
		return NodePoolDrifted, fmt.Sprintf("spec.template of NodePool %s has changed since the launch", pool)
	}
	if key := Labels(claim.Labels).Conflict(want, nil); key != "" {
		return RequirementsDrifted,
			fmt.Sprintf("label %s=%q is not what spec.template.spec.requirements of NodePool %s ask for", key,
				claim.Labels[key], pool)
	}
	return "", ""
}
