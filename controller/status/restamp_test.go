package status_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/plane/planetest"
)

// annotated changes an object's annotations.
func (s *story) annotated(o client.Object, pairs ...string) {
	s.Helper()
	planetest.Eventually(s, "annotations are written", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		a := o.GetAnnotations()
		for i := 0; i < len(pairs); i += 2 {
			a[pairs[i]] = pairs[i+1]
		}
		o.SetAnnotations(a)
		return s.api.Patch(ctx, o, client.MergeFrom(before))
	})
}

// carries waits until a claim has the annotations, and checks that it has not drifted.
func (s *story) carries(c *karpv1.NodeClaim, pairs ...string) {
	s.Helper()
	planetest.Eventually(s, fmt.Sprintf("%s carries %v", c.Name, pairs), func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		for i := 0; i < len(pairs); i += 2 {
			if c.Annotations[pairs[i]] != pairs[i+1] {
				return fmt.Errorf("annotations are %v", c.Annotations)
			}
		}
		if c.StatusConditions(opstatus.WithObservedOnly()).Get(karpv1.ConditionTypeDrifted) != nil {
			return errors.New("it has drifted")
		}
		return nil
	})
}

// A new hash version is no reason to replace nodes.
func TestHashesOfAnotherVersionAreRenewed(t *testing.T) {
	s := tell(t)
	c := class("renewed")
	s.create(c)
	s.says(c, opstatus.ConditionReady, metav1.ConditionTrue, "")
	np := pool("renewed", c.Name)
	s.create(np)
	s.says(np, opstatus.ConditionReady, metav1.ConditionTrue, "")
	s.says(np, karpv1.ConditionTypeNodeRegistrationHealthy, metav1.ConditionUnknown, "")
	user := claim("renewed-1", np.Name, c.Name)
	s.create(user)
	s.says(user, karpv1.ConditionTypeLaunched, metav1.ConditionTrue, "")

	const hash, version = karpv1.NodePoolHashAnnotationKey, karpv1.NodePoolHashVersionAnnotationKey
	s.annotated(user, hash, "of-old", version, "v0", ec2v1.AnnotationEC2NodeClassHash, "of-old",
		ec2v1.AnnotationEC2NodeClassHashVersion, "v0")
	s.annotated(np, hash, "of-old", version, "v0")
	s.annotated(c, ec2v1.AnnotationEC2NodeClassHash, "of-old", ec2v1.AnnotationEC2NodeClassHashVersion, "v0")
	s.carries(user, hash, np.Hash(), version, karpv1.NodePoolHashVersion,
		ec2v1.AnnotationEC2NodeClassHash, c.Hash(nil), ec2v1.AnnotationEC2NodeClassHashVersion, ec2v1.EC2NodeClassHashVersion)
}

// `kubectl replace` from a file removes the pool's annotations and changes its template in one write.
func TestAPoolThatLosesItsHashWithAChangeLetsItsMachinesDrift(t *testing.T) {
	s := tell(t)
	c := class("replaced")
	s.create(c)
	s.says(c, opstatus.ConditionReady, metav1.ConditionTrue, "")
	np := pool("replaced", c.Name)
	s.create(np)
	s.says(np, opstatus.ConditionReady, metav1.ConditionTrue, "")
	user := claim("replaced-1", np.Name, c.Name)
	s.create(user)
	s.says(user, karpv1.ConditionTypeLaunched, metav1.ConditionTrue, "")
	s.annotated(user, karpv1.NodePoolHashAnnotationKey, np.Hash(), karpv1.NodePoolHashVersionAnnotationKey,
		karpv1.NodePoolHashVersion)

	planetest.Eventually(t, "the pool is replaced", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(np), np); err != nil {
			return err
		}
		np.Annotations, np.Spec.Template.Labels = nil, map[string]string{"team": "b"}
		return s.api.Update(ctx, np)
	})
	s.says(user, karpv1.ConditionTypeDrifted, metav1.ConditionTrue, "")
}
