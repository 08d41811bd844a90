package whatif

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/controller/gates"
)

// gatesInUse adds the feature gates that are evidently on in the cluster's controller: NodeOverlays have conditions,
// or a static pool has nodes.
func gatesInUse(on gates.Gates, objects []client.Object) gates.Gates {
	static := map[string]bool{}
	for _, o := range objects {
		switch o := o.(type) {
		case *karpv1alpha1.NodeOverlay:
			on.NodeOverlay = on.NodeOverlay || len(o.Status.Conditions) > 0
		case *karpv1.NodePool:
			static[o.Name] = o.Spec.Replicas != nil
		}
	}
	for _, o := range objects {
		if claim, ok := o.(*karpv1.NodeClaim); ok {
			on.StaticCapacity = on.StaticCapacity || static[claim.Labels[karpv1.NodePoolLabelKey]]
		}
	}
	return on
}
