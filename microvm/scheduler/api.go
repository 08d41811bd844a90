package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// api writes pods, their Nodes and NodeClaims. Reads of pods include its own writes that the cache has not seen yet.
type api struct {
	o     *Options
	wrote mutationcache.Cache[*corev1.Pod]
}

// latest returns a copy of the newest state of a pod: the given one, from the cache, or a later write.
func (a *api) latest(pod *corev1.Pod) *corev1.Pod { return a.wrote.Newest(pod).DeepCopy() }

// patchPod writes the changes to a pod's status since before. A pod that is gone is not an error.
func (a *api) patchPod(ctx context.Context, before, pod *corev1.Pod) error {
	err := a.o.Client.Status().Patch(ctx, pod, client.StrategicMergeFrom(before))
	if err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	a.wrote.Mutated(pod.DeepCopy())
	return nil
}

// deletePod removes a pod from the API, as a kubelet does once none of its containers run.
func (a *api) deletePod(ctx context.Context, pod *corev1.Pod) error {
	err := a.o.Client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// deleteClaim deletes a pod's NodeClaim; controller/nodeclaim does the rest.
func (a *api) deleteClaim(ctx context.Context, pod types.UID) error {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fargate.ClaimName(pod)}}
	if err := a.o.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete NodeClaim %s, whose pod is gone: %w", claim.Name, err)
	}
	return nil
}

// setCondition sets a condition of a pod. It keeps the transition time if the condition's status does not change.
func setCondition(pod *corev1.Pod, c corev1.PodCondition, now metav1.Time) {
	c.LastTransitionTime = now
	have := conditions.OfPod(pod, c.Type)
	if have == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, c)
		return
	}
	if have.Status == c.Status && !have.LastTransitionTime.IsZero() {
		c.LastTransitionTime = have.LastTransitionTime
	}
	*have = c
}
