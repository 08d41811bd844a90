package incluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

// Annotations of a FargateProfile for EKS's fields that Kubernetes lacks.
const (
	annotationRole    = "nodeless.sh/pod-execution-role-arn"
	annotationSubnets = "nodeless.sh/subnets" // IDs, separated by commas
	annotationTags    = "nodeless.sh/tags"    // a JSON object
)

// finalizer keeps a profile that EKS is deleting until its pods are gone.
const finalizer = "nodeless.sh/eks"

// FargateProfiles implements awsapi.Kubernetes.
func (c *Cluster) FargateProfiles(ctx context.Context) ([]awsapi.FargateProfile, error) {
	objects, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]awsapi.FargateProfile, len(objects))
	for i := range objects {
		out[i] = profileOf(&objects[i])
	}
	return out, nil
}

// list returns the profiles; none if the CRD is not installed.
func (c *Cluster) list(ctx context.Context) ([]v1alpha1.FargateProfile, error) {
	var list v1alpha1.FargateProfileList
	err := c.client.List(ctx, &list)
	if apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	return list.Items, err
}

// profileOf converts a profile to EKS's type. It is CREATING until a controller has set its Ready condition, then
// ACTIVE. If the condition is not true, its message is a health issue.
func profileOf(p *v1alpha1.FargateProfile) awsapi.FargateProfile {
	out := awsapi.FargateProfile{UID: string(p.UID), FargateProfile: types.FargateProfile{
		FargateProfileName: aws.String(fargate.NameOf(p)), CreatedAt: &p.CreationTimestamp.Time,
		Status:    types.FargateProfileStatusCreating,
		Health:    &types.FargateProfileHealth{Issues: []types.FargateProfileIssue{}},
		Selectors: []types.FargateProfileSelector{},
	}}
	if role := p.Annotations[annotationRole]; role != "" {
		out.PodExecutionRoleArn = &role
	}
	if subnets := p.Annotations[annotationSubnets]; subnets != "" {
		out.Subnets = strings.Split(subnets, ",")
	}
	_ = json.Unmarshal([]byte(p.Annotations[annotationTags]), &out.Tags) // none if a user wrote something else
	for _, s := range p.Spec.Selectors {
		labels := map[string]string{}
		for key, value := range s.Labels {
			labels[key] = string(value)
		}
		out.Selectors = append(out.Selectors,
			types.FargateProfileSelector{Namespace: aws.String(s.Namespace), Labels: labels})
	}
	ready := apimeta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case p.DeletionTimestamp != nil:
		out.Status = types.FargateProfileStatusDeleting
	case ready != nil:
		out.Status = types.FargateProfileStatusActive
	}
	if ready != nil && ready.Status != metav1.ConditionTrue {
		out.Health.Issues = append(out.Health.Issues, types.FargateProfileIssue{
			Code: types.FargateProfileIssueCodeInternalFailure, Message: &ready.Message, ResourceIds: []string{p.Name},
		})
	}
	return out
}

// objectName converts a name to a Kubernetes object name: EKS also allows capitals and underscores.
func objectName(name string) string {
	return strings.TrimRight(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "-")
}

// CreateFargateProfile implements awsapi.Kubernetes.
func (c *Cluster) CreateFargateProfile(ctx context.Context, in types.FargateProfile) error {
	name := aws.ToString(in.FargateProfileName)
	p := &v1alpha1.FargateProfile{ObjectMeta: metav1.ObjectMeta{Name: objectName(name), Annotations: map[string]string{
		annotationRole: aws.ToString(in.PodExecutionRoleArn),
	}}}
	if p.Name != name {
		p.Annotations[fargate.NameAnnotation] = name
	}
	if len(in.Subnets) > 0 {
		p.Annotations[annotationSubnets] = strings.Join(in.Subnets, ",")
	}
	if err := setTags(p, in.Tags); err != nil {
		return err
	}
	for _, s := range in.Selectors {
		selector := v1alpha1.FargateProfileSelector{Namespace: aws.ToString(s.Namespace)}
		for key, value := range s.Labels {
			if selector.Labels == nil {
				selector.Labels = map[string]v1alpha1.LabelPattern{}
			}
			selector.Labels[key] = v1alpha1.LabelPattern(value)
		}
		p.Spec.Selectors = append(p.Spec.Selectors, selector)
	}
	return refused(c.client.Create(ctx, p))
}

func setTags(p *v1alpha1.FargateProfile, tags map[string]string) error {
	if len(tags) == 0 {
		delete(p.Annotations, annotationTags)
		return nil
	}
	text, err := json.Marshal(tags)
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, annotationTags, string(text))
	return err
}

// refused converts an error of the API server to EKS's.
func refused(err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return awsapi.ErrExists
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		message := err.Error()
		if errors.As(err, &status) {
			message = status.Status().Message
		}
		return &region.APIError{Code: "InvalidParameterException", Message: message}
	case apimeta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsInternalError(err):
		return &region.APIError{Code: "ServiceUnavailableException", Message: err.Error()}
	}
	return err
}

// find returns the profile with an EKS name.
func (c *Cluster) find(ctx context.Context, name string) (*v1alpha1.FargateProfile, error) {
	objects, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	for i := range objects {
		if fargate.NameOf(&objects[i]) == name {
			return &objects[i], nil
		}
	}
	return nil, &region.APIError{
		Code: "ResourceNotFoundException", Message: "No Fargate Profile found with name: " + name + ".",
	}
}

// TagFargateProfile implements awsapi.Kubernetes.
func (c *Cluster) TagFargateProfile(ctx context.Context, name string, tags map[string]string) error {
	p, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	before := p.DeepCopy()
	if err := setTags(p, tags); err != nil {
		return err
	}
	return refused(c.client.Patch(ctx, p, client.MergeFrom(before)))
}

// DeleteFargateProfile implements awsapi.Kubernetes.
func (c *Cluster) DeleteFargateProfile(ctx context.Context, name string) error {
	p, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	before := p.DeepCopy()
	if controllerutil.AddFinalizer(p, finalizer) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := c.client.Patch(ctx, p, patch); err != nil {
			return refused(err)
		}
	}
	if err := c.client.Delete(ctx, p); err != nil {
		return refused(err)
	}
	c.deleted.Set()
	return nil
}

// pause is the interval at which the pods of a profile being deleted are checked.
const pause = 250 * time.Millisecond

// finish deletes the pods of profiles being deleted, as EKS does, and removes the finalizers of profiles whose pods
// are gone.
func (c *Cluster) finish(ctx context.Context) {
	for {
		left, err := c.step(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("cannot finish the deletion of a Fargate profile; retrying", "error", err)
		}
		if left == 0 && err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// step performs one pass of finish and returns the number of profiles left.
func (c *Cluster) step(ctx context.Context) (left int, err error) {
	objects, err := c.list(ctx)
	if err != nil {
		return 0, err
	}
	for i := range objects {
		p := &objects[i]
		if p.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(p, finalizer) {
			continue
		}
		gone, err := c.deletePods(ctx, p.Name)
		if err != nil {
			return left + 1, err
		}
		if !gone {
			left++
			continue
		}
		before := p.DeepCopy()
		controllerutil.RemoveFinalizer(p, finalizer)
		if err := c.client.Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return left + 1, fmt.Errorf("remove the finalizer of FargateProfile %s: %w", p.Name, err)
		}
	}
	return left, nil
}

// deletePods deletes a profile's pods and reports whether all are gone.
func (c *Cluster) deletePods(ctx context.Context, profile string) (gone bool, err error) {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.MatchingLabels{fargate.ProfileLabel: profile}); err != nil {
		return false, fmt.Errorf("list pods of FargateProfile %s: %w", profile, err)
	}
	gone = true
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.SchedulerName != fargate.SchedulerName {
			continue
		}
		gone = false
		if pod.DeletionTimestamp != nil {
			continue
		}
		if err := c.client.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return gone, nil
}
