package nodeclaim

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/nodeclaim/surge"
)

// surging is the Deployments that were read in one look at a machine, by namespace and name; nil values are not there.
type surging map[types.NamespacedName]*appsv1.Deployment

// surgeAgain is when it is tried again to read or to roll over a pod's Deployment.
const surgeAgain = time.Second

// waitsForNext reports whether a pod that is to be evicted is left alone for now, since its Deployment, whose only one it is, brings another
// one first. A machine that the cloud takes away does not wait for that.
func (l *Lifecycle) waitsForNext(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim, pod *corev1.Pod, seen surging) bool {
	name := surge.Deployment(&pod.ObjectMeta)
	if name == "" || !podReady(pod) || l.surgeSettled(pod.UID) || claim != nil && isInterrupted(claim) {
		return false
	}
	d, err := l.deployment(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, seen)
	now := l.now()
	if surge.Passes(err) {
		l.noteSurge(pod.UID, now.Add(surgeAgain))
		return true
	}
	if d == nil {
		l.noteSurge(pod.UID, time.Time{})
		return false
	}
	decision := surge.Decide(d, &pod.ObjectMeta, now)
	if decision.Begin != "" {
		switch err := l.rollOver(ctx, d, decision.Begin); {
		case surge.Passes(err):
			decision.Until = now.Add(surgeAgain)
			delete(seen, client.ObjectKeyFromObject(d))
		case err != nil:
			decision.Until, decision.Problem = time.Time{}, err.Error()
		default:
			l.o.Recorder.Event(d, corev1.EventTypeNormal, "Surging", fmt.Sprintf("Another pod comes before %s leaves Node %s, which is going", pod.Name, node.Name))
		}
	}
	if decision.Problem != "" {
		l.o.Recorder.Event(d, corev1.EventTypeWarning, "SurgeImpossible", fmt.Sprintf("Pod %s is evicted before another is ready: %s", pod.Name, decision.Problem))
	}
	l.noteSurge(pod.UID, decision.Until)
	return !decision.Until.IsZero()
}

// deployment reads a Deployment past the cache, nil if there is none.
func (l *Lifecycle) deployment(ctx context.Context, key types.NamespacedName, seen surging) (*appsv1.Deployment, error) {
	if d, known := seen[key]; known {
		return d, nil
	}
	d := &appsv1.Deployment{}
	err := l.o.Client.Get(ctx, key, d)
	switch {
	case apierrors.IsNotFound(err):
		d = nil
	case err != nil:
		return nil, fmt.Errorf("read Deployment %s: %w", key, err)
	}
	seen[key] = d
	return d, nil
}

// rollOver writes the mark on the Deployment's pod template, as kubectl rollout restart does with one of its own: its controller
// brings up a pod of the new template and ends the old one when that is ready.
func (l *Lifecycle) rollOver(ctx context.Context, d *appsv1.Deployment, mark string) error {
	before := d.DeepCopy()
	if d.Spec.Template.Annotations == nil {
		d.Spec.Template.Annotations = map[string]string{}
	}
	d.Spec.Template.Annotations[surge.Mark] = mark
	err := l.o.Client.Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("nodeless may not change Deployments: %w; allow it with `nodeless rbac --surge | kubectl apply -f -`", err)
	}
	return err
}

// surgeSettled reports whether it was decided that a pod is evicted.
func (l *Lifecycle) surgeSettled(pod types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.evictions[pod].settled
}

// noteSurge notes until when a pod is left alone; zero = it is evicted, and nobody need ask again.
func (l *Lifecycle) noteSurge(pod types.UID, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.evictions[pod]
	a.surges, a.settled = !until.IsZero(), until.IsZero()
	if a.surges {
		a.notBefore = until
	}
	l.evictions[pod] = a
}

func podReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
