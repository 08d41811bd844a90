package status

import (
	"context"
	"fmt"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
)

// stamp is a hash that pools or classes and the claims made of them carry, and how it is computed.
type stamp struct {
	hashKey, versionKey string
	hash, version       string
}

func poolStamp(pool *karpv1.NodePool) stamp {
	return stamp{karpv1.NodePoolHashAnnotationKey, karpv1.NodePoolHashVersionAnnotationKey, pool.Hash(), karpv1.NodePoolHashVersion}
}

func classStamp(hash string) stamp {
	return stamp{ec2v1.AnnotationEC2NodeClassHash, ec2v1.AnnotationEC2NodeClassHashVersion, hash, ec2v1.EC2NodeClassHashVersion}
}

// on puts the stamp on an object.
func (s stamp) on(o *metav1.ObjectMeta) {
	metav1.SetMetaDataAnnotation(o, s.hashKey, s.hash)
	metav1.SetMetaDataAnnotation(o, s.versionKey, s.version)
}

// restamp gives claims a hash of the present version, since hashes of different versions cannot be compared. A claim that
// has drifted already stays so: whether it still has cannot be known (Karpenter: designs/drift-hash-versioning.md). One
// that carries this version keeps its hash: whoever writes a pool from a file or a copy of his own takes the pool's
// annotations away together with a change that makes its claims drift.
func (k *Keeper) restamp(ctx context.Context, s stamp, of func(*karpv1.NodeClaim) bool) error {
	for _, claim := range k.o.World.Claims() {
		if claim.DeletionTimestamp != nil || !of(claim) || claim.Annotations[s.versionKey] == s.version {
			continue
		}
		now := claim.DeepCopy()
		if now.StatusConditions(opstatus.WithObservedOnly()).Get(karpv1.ConditionTypeDrifted) == nil {
			s.on(&now.ObjectMeta)
		} else {
			metav1.SetMetaDataAnnotation(&now.ObjectMeta, s.versionKey, s.version)
		}
		if equal(claim.Annotations, now.Annotations) {
			continue
		}
		if err := k.o.Client.Patch(ctx, now, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("annotate NodeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// restampPool has the claims of a pool carry hashes that can be compared with the pool's.
func (k *Keeper) restampPool(ctx context.Context, pool *karpv1.NodePool, s stamp) error {
	return k.restamp(ctx, s, func(c *karpv1.NodeClaim) bool { return c.Labels[karpv1.NodePoolLabelKey] == pool.Name })
}

// restampClass has the claims of a class carry hashes that can be compared with the class's. A claim without one was not
// launched yet.
func (k *Keeper) restampClass(ctx context.Context, ref cloud.ClassRef, s stamp) error {
	return k.restamp(ctx, s, func(c *karpv1.NodeClaim) bool {
		return translate.ClassRef(c.Spec.NodeClassRef) == ref && c.Annotations[s.hashKey] != ""
	})
}
