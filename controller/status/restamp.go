package status

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// stamp is a hash carried by a pool or class and by the claims made from it, and the version of its computation.
type stamp struct {
	hashKey, versionKey string
	hash, version       string
}

// on writes the stamp on an object.
func (s stamp) on(o client.Object) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[s.hashKey], annotations[s.versionKey] = s.hash, s.version
	o.SetAnnotations(annotations)
}

// restamp gives claims a hash of the current version, since hashes of different versions cannot be compared. A
// drifted claim stays drifted: whether it still has drifted cannot be known (Karpenter:
// designs/drift-hash-versioning.md). A claim that carries this version keeps its hash: a user who writes a pool from
// a file or a copy may remove the pool's annotations in the same update as a change that must make its claims drift.
func (s stamp) restamp(ctx context.Context, o *Options, ours func(*karpv1.NodeClaim) bool) error {
	for _, claim := range o.Cluster.Claims() {
		if claim.DeletionTimestamp != nil || !ours(claim) || claim.Annotations[s.versionKey] == s.version {
			continue
		}
		now := claim.DeepCopy()
		if conditions.Of(now, karpv1.ConditionTypeDrifted) == nil {
			s.on(now)
		} else {
			metav1.SetMetaDataAnnotation(&now.ObjectMeta, s.versionKey, s.version)
		}
		if equal(claim.Annotations, now.Annotations) {
			continue
		}
		if err := o.Client.Patch(ctx, now, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("annotate NodeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}
