package translate

import (
	"maps"
	"strings"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// ClassRef names the node class of a NodePool's template or of a NodeClaim; the zero value if there is none.
func ClassRef(ref *karpv1.NodeClassReference) cloud.ClassRef {
	if ref == nil {
		return cloud.ClassRef{}
	}
	return cloud.ClassRef{Group: ref.Group, Kind: ref.Kind, Name: ref.Name}
}

// ClassLabel is the label by which a NodeClaim and its Node say their node class, such as
// karpenter.k8s.aws/ec2nodeclass.
func ClassLabel(ref cloud.ClassRef) string { return ref.Group + "/" + strings.ToLower(ref.Kind) }

// LaunchRequest translates a NodeClaim for the cloud. The caller adds Unavailable. The error names the field of the
// claim that cannot be translated.
func (n *Names) LaunchRequest(claim *karpv1.NodeClaim) (cloud.LaunchRequest, error) {
	req := cloud.LaunchRequest{
		Token: string(claim.UID), Claim: claim.Name, Pool: claim.Labels[karpv1.NodePoolLabelKey],
		Class:  ClassRef(claim.Spec.NodeClassRef),
		Labels: maps.Clone(claim.Labels),
		Taints: Taints(claim.Spec.Taints), StartupTaints: Taints(claim.Spec.StartupTaints),
	}
	if req.Labels == nil {
		req.Labels = map[string]string{}
	}
	var err error
	if req.Requirements, err = Requirements(claim.Spec.Requirements); err != nil {
		return req, wrap("NodeClaim", claim.Name, err)
	}
	if req.Requests, err = n.Resources(claim.Spec.Resources.Requests); err != nil {
		return req, wrap("NodeClaim", claim.Name, err)
	}
	return req, nil
}
