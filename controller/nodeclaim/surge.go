package nodeclaim

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/nodeclaim/surge"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// deployments are those read while draining a Node once; nil values do not exist.
type deployments map[types.NamespacedName]*appsv1.Deployment

// surgeRetry is the delay before retrying a Deployment that could not be read or rolled over.
const surgeRetry = time.Second

// surge reports whether a pod that is to be evicted is left alone for now because it is the only pod of its
// Deployment, which starts a replacement first. A Node that the cloud takes away does not wait for that.
func (d *drainer) surge(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim, pod *corev1.Pod,
	seen deployments,
) bool {
	name := surge.Deployment(&pod.ObjectMeta)
	if name == "" || !conditions.PodReady(pod) || d.state.pods.get(pod.UID).surgeAnswered || claim != nil &&
		isInterrupted(claim) {
		return false
	}
	found, err := d.deployment(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, seen)
	now := d.now()
	if surge.Passes(err) {
		return d.waitForSurge(pod, now.Add(surgeRetry))
	}
	if found == nil {
		return d.waitForSurge(pod, time.Time{})
	}
	decision := surge.Decide(found, &pod.ObjectMeta, now)
	if decision.Begin != "" {
		switch err := d.rollOver(ctx, found, decision.Begin); {
		case surge.Passes(err):
			decision.Until = now.Add(surgeRetry)
			delete(seen, client.ObjectKeyFromObject(found))
		case err != nil:
			decision.Until, decision.Problem = time.Time{}, err.Error()
		default:
			d.recorder.Event(found, corev1.EventTypeNormal, "Surging",
				fmt.Sprintf("Another pod starts before %s is evicted from Node %s, which is being removed", pod.Name, node.Name))
		}
	}
	if decision.Problem != "" {
		d.recorder.Event(found, corev1.EventTypeWarning, "SurgeImpossible",
			fmt.Sprintf("Pod %s is evicted before another is ready: %s", pod.Name, decision.Problem))
	}
	return d.waitForSurge(pod, decision.Until)
}

// deployment reads a Deployment, bypassing the cache; nil if there is none.
func (d *drainer) deployment(ctx context.Context, key types.NamespacedName, seen deployments) (*appsv1.Deployment,
	error,
) {
	if known, ok := seen[key]; ok {
		return known, nil
	}
	found := &appsv1.Deployment{}
	err := d.client.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err):
		found = nil
	case err != nil:
		return nil, fmt.Errorf("read Deployment %s: %w", key, err)
	}
	seen[key] = found
	return found, nil
}

// rollOver writes the mark on the Deployment's pod template, as kubectl rollout restart does with its own: the
// Deployment's controller starts a pod of the new template, and deletes the old one when the new one is ready.
func (d *drainer) rollOver(ctx context.Context, deployment *appsv1.Deployment, mark string) error {
	before := deployment.DeepCopy()
	metav1.SetMetaDataAnnotation(&deployment.Spec.Template.ObjectMeta, surge.Mark, mark)
	err := d.client.Patch(ctx, deployment, locked(before))
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("nodeless may not change Deployments: %w; "+
			"allow it with `nodeless rbac --surge | kubectl apply -f -`", err)
	}
	return err
}

// waitForSurge records until when a pod is left alone, and reports whether it is; with a zero time it is evicted and
// not left alone again.
func (d *drainer) waitForSurge(pod *corev1.Pod, until time.Time) bool {
	wait := !until.IsZero()
	d.state.pods.update(pod.UID, func(e *eviction) {
		if e.surging, e.surgeAnswered = wait, !wait; wait {
			e.notBefore = until
		}
	})
	return wait
}

// stopSurges ends the wait for replacements of these pods.
func (d *drainer) stopSurges(pods []corev1.Pod) {
	for i := range pods {
		if uid := pods[i].UID; d.state.pods.get(uid).surging {
			d.state.pods.update(uid, func(e *eviction) { e.surging, e.notBefore = false, time.Time{} })
		}
	}
}

func isInterrupted(claim *karpv1.NodeClaim) bool {
	_, _, ok := translate.Interrupted(claim)
	return ok
}
