package nodeclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/nodeclaim/drain"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// Back-off of evictions that are refused (karpenter.md §3.2), and how long one that was granted may take to show.
const (
	firstEviction = 100 * time.Millisecond
	mostEviction  = 10 * time.Second
	evictionShown = 5 * time.Second
)

// attempt is the last eviction of a pod.
type attempt struct {
	tries     int
	notBefore time.Time
	told      string // the last event about its do-not-disrupt
	surges    bool   // another pod of its Deployment comes first
	settled   bool   // none comes first, whether one was asked for or not
}

// drain does what drain.Step says, and when to look again; 0 when no pod is left that is waited for.
func (l *Lifecycle) drain(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim) (time.Duration, error) {
	pods, err := l.podsOn(ctx, l.o.Cache, node.Name)
	if err != nil {
		return 0, err
	}
	end := deadline(claim)
	step := drain.Step(l.now(), end, l.drainPods(pods))
	if step.Done {
		// A pod that was bound in the last moment is not in the cache yet. The taint keeps others away from here on.
		if pods, err = l.podsOn(ctx, l.o.Client, node.Name); err != nil {
			return 0, err
		}
		if step = drain.Step(l.now(), end, l.drainPods(pods)); step.Done {
			l.forgetEvictions(pods)
			return 0, nil
		}
	}
	byKey := make(map[model.PodKey]*corev1.Pod, len(pods))
	for i := range pods {
		byKey[podKey(&pods[i])] = &pods[i]
		l.tellHeld(&pods[i])
	}
	refused, seen := 0, surging{}
	for _, k := range step.Evict {
		if !l.waitsForNext(ctx, node, claim, byKey[k], seen) && !l.evict(ctx, node, byKey[k]) {
			refused++
		}
	}
	for _, d := range step.Delete {
		if err := l.deletePod(ctx, byKey[d.Key], d.Grace, end); err != nil {
			return 0, err
		}
	}
	if refused > 0 {
		l.o.Recorder.Event(node, corev1.EventTypeWarning, "FailedDraining", fmt.Sprintf("Failed to drain node, %d pods are waiting to be evicted", refused))
	}
	message := fmt.Sprintf("%d pods are waiting to leave", len(step.Evict)+len(step.Delete)+len(step.Waiting))
	if len(step.Waiting) > 0 {
		message = fmt.Sprintf("pod %s/%s has not left: %s", step.Waiting[0].Key.Namespace, step.Waiting[0].Key.Name, step.Waiting[0].Why)
	}
	if err := l.noteDraining(ctx, claim, message); err != nil {
		return 0, err
	}
	if len(step.Evict)+len(step.Delete) > 0 {
		return firstEviction, nil
	}
	if step.Next.IsZero() {
		return untilEvent, nil
	}
	return max(step.Next.Sub(l.now()), time.Millisecond), nil
}

// noteDraining says once on the claim that it is being drained; the message is that of the first look.
func (l *Lifecycle) noteDraining(ctx context.Context, claim *karpv1.NodeClaim, message string) error {
	if claim == nil {
		return nil
	}
	if c := claim.StatusConditions().Get(karpv1.ConditionTypeDrained); c != nil && c.Status == metav1.ConditionUnknown {
		return nil
	}
	return l.noteWaiting(ctx, claim, karpv1.ConditionTypeDrained, "Draining", message)
}

func (l *Lifecycle) podsOn(ctx context.Context, r client.Reader, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := r.List(ctx, &list, client.MatchingFields{byNodeName: node}); err != nil {
		return nil, fmt.Errorf("list pods of Node %s: %w", node, err)
	}
	return list.Items, nil
}

func podKey(p *corev1.Pod) model.PodKey {
	return model.PodKey{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// drainPods translates pods for drain.Step.
func (l *Lifecycle) drainPods(pods []corev1.Pod) []drain.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]drain.Pod, len(pods))
	for i := range pods {
		p := &pods[i]
		read := translate.ReadPod(p)
		out[i] = drain.Pod{
			Key: read.Key, Daemon: read.DaemonSet != "", Static: read.Static || p.Annotations[corev1.MirrorPodAnnotationKey] != "",
			Terminal: read.Terminal, HeldUntil: read.HeldUntil, Tolerant: tolerant(p),
			Critical:  p.Spec.PriorityClassName == "system-cluster-critical" || p.Spec.PriorityClassName == "system-node-critical",
			Grace:     time.Duration(orDefault(p.Spec.TerminationGracePeriodSeconds, 30)) * time.Second,
			NotBefore: l.evictions[p.UID].notBefore, Surges: l.evictions[p.UID].surges,
		}
		if p.DeletionTimestamp != nil {
			out[i].Ends = p.DeletionTimestamp.Time
		}
	}
	return out
}

// tolerant reports whether a pod tolerates that its machine goes.
func tolerant(p *corev1.Pod) bool {
	_, refused := model.Untolerated(translate.Taints([]corev1.Taint{karpv1.DisruptedNoScheduleTaint}), translate.Tolerations(p.Spec.Tolerations))
	return !refused
}

func orDefault(v *int64, other int64) int64 {
	if v == nil {
		return other
	}
	return *v
}

// evict asks the API to evict a pod, which it refuses if a PodDisruptionBudget says so; false if it was refused.
func (l *Lifecycle) evict(ctx context.Context, node *corev1.Node, pod *corev1.Pod) bool {
	uid := pod.UID
	err := l.o.Client.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	code := 200
	if s, ok := err.(apierrors.APIStatus); ok {
		code = int(s.Status().Code)
	} else if err != nil {
		code = 0
	}
	l.metrics.Eviction(code)
	done := err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) // conflict: another pod has the name now
	if err == nil {
		l.metrics.PodDrained(l.o.World.Claim(claimOwner(node)))
		l.o.Recorder.Event(pod, corev1.EventTypeNormal, "Evicted", "Evicted pod: node "+node.Name+" is going")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.evictions[uid]
	if done {
		a.tries, a.notBefore = 0, l.now().Add(evictionShown)
	} else {
		a.notBefore = l.now().Add(min(firstEviction<<min(a.tries, 10), mostEviction))
		a.tries++
	}
	l.evictions[uid] = a
	return done
}

// deletePod ends a pod that the machine's deadline does not leave the time to be evicted.
func (l *Lifecycle) deletePod(ctx context.Context, pod *corev1.Pod, grace time.Duration, end time.Time) error {
	uid, seconds := pod.UID, max(int64(grace/time.Second), 1)
	err := l.o.Client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &uid}, client.GracePeriodSeconds(seconds))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	l.o.Recorder.Event(pod, corev1.EventTypeNormal, "Disrupted", fmt.Sprintf(
		"Deleting the pod to accommodate the terminationTime %s of the node. The pod was granted %d seconds of grace-period of its %d terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.",
		end.Format(time.RFC3339), seconds, orDefault(pod.Spec.TerminationGracePeriodSeconds, 30)))
	return nil
}

// forgetEvictions drops the attempts on pods that are no longer there; pods are those that stay.
func (l *Lifecycle) forgetEvictions(pods []corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	stay := map[types.UID]bool{}
	for i := range pods {
		stay[pods[i].UID] = true
	}
	for uid, a := range l.evictions {
		if !stay[uid] && now.Sub(a.notBefore) > time.Minute {
			delete(l.evictions, uid)
		}
	}
}
