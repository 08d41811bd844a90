package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/nodeclaim/drain"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// Back-off of refused evictions (sigs.k8s.io/karpenter/pkg/controllers/node/termination), and how long a granted one
// may take to show.
const (
	firstEviction = 100 * time.Millisecond
	maxEviction   = 10 * time.Second
	evictionShown = 5 * time.Second
)

// eviction is the state of a pod that is to be evicted.
type eviction struct {
	tries         int
	notBefore     time.Time
	noted         string // the reason of the last event about its do-not-disrupt
	surging       bool   // the drainer waits for a replacement from its Deployment
	surgeAnswered bool   // the drainer does not wait for a replacement, whether one was requested or not
}

// drainer removes pods from Nodes.
type drainer struct{ *objects }

// drain carries out drain.Step, and returns when to call it again; 0 once no pod is left to wait for.
func (d *drainer) drain(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim) (time.Duration, error) {
	pods, err := podsOn(ctx, d.cache, node.Name)
	if err != nil {
		return 0, err
	}
	if claim != nil && isInterrupted(claim) {
		d.stopSurges(pods)
	}
	end := deadline(claim)
	step := drain.Step(d.now(), end, d.drainPods(pods))
	if step.Done {
		// A pod that was just bound is not in the cache yet. From here on the taint keeps new pods away.
		if pods, err = podsOn(ctx, d.client, node.Name); err != nil {
			return 0, err
		}
		if step = drain.Step(d.now(), end, d.drainPods(pods)); step.Done {
			d.forgetEvictions(pods)
			return 0, nil
		}
	}
	byKey := make(map[model.PodKey]*corev1.Pod, len(pods))
	for i := range pods {
		byKey[podKey(&pods[i])] = &pods[i]
		d.noteBlocked(&pods[i])
	}
	refused, seen := 0, deployments{}
	for _, k := range step.Evict {
		if !d.surge(ctx, node, claim, byKey[k], seen) && !d.evict(ctx, node, byKey[k]) {
			refused++
		}
	}
	for _, k := range step.Delete {
		if err := d.deletePod(ctx, byKey[k.Key], k.Grace, end); err != nil {
			return 0, err
		}
	}
	if refused > 0 {
		d.recorder.Event(node, corev1.EventTypeWarning, "FailedDraining",
			fmt.Sprintf("Failed to drain node, %d pods are waiting to be evicted", refused))
	}
	if err := d.noteDraining(ctx, claim, step); err != nil {
		return 0, err
	}
	if len(step.Evict)+len(step.Delete) > 0 {
		return firstEviction, nil
	}
	if step.Next.IsZero() {
		return untilEvent, nil
	}
	return max(step.Next.Sub(d.now()), time.Millisecond), nil
}

// noteDraining writes on the claim, once, that its Node is being drained; the message describes the beginning.
func (d *drainer) noteDraining(ctx context.Context, claim *karpv1.NodeClaim, step drain.Result) error {
	if claim == nil {
		return nil
	}
	if c := claim.StatusConditions().Get(karpv1.ConditionTypeDrained); c != nil && c.Status == metav1.ConditionUnknown {
		return nil
	}
	message := fmt.Sprintf("%d pods are left", len(step.Evict)+len(step.Delete)+len(step.Waiting))
	if len(step.Waiting) > 0 {
		w := step.Waiting[0]
		message = fmt.Sprintf("pod %s/%s is not evicted yet: %s", w.Key.Namespace, w.Key.Name, w.Why)
	}
	return d.noteWaiting(ctx, claim, karpv1.ConditionTypeDrained, "Draining", message)
}

func podsOn(ctx context.Context, r client.Reader, node string) ([]corev1.Pod, error) {
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
func (d *drainer) drainPods(pods []corev1.Pod) []drain.Pod {
	out := make([]drain.Pod, len(pods))
	for i := range pods {
		p := &pods[i]
		read, last := translate.ReadPod(p), d.state.pods.get(p.UID)
		out[i] = drain.Pod{
			Key: read.Key, Daemon: read.DaemonSet != "", Static: read.Static ||
				p.Annotations[corev1.MirrorPodAnnotationKey] != "",
			Terminal: read.Terminal, BlockedUntil: read.HeldUntil, Tolerant: toleratesDisruption(p),
			Critical: p.Spec.PriorityClassName == "system-cluster-critical" ||
				p.Spec.PriorityClassName == "system-node-critical",
			Grace:     time.Duration(grace(p)) * time.Second,
			NotBefore: last.notBefore, Surging: last.surging,
		}
		if p.DeletionTimestamp != nil {
			out[i].Ends = p.DeletionTimestamp.Time
		}
	}
	return out
}

// toleratesDisruption reports whether a pod tolerates the taint of a Node being removed.
func toleratesDisruption(p *corev1.Pod) bool {
	taints := translate.Taints([]corev1.Taint{karpv1.DisruptedNoScheduleTaint})
	_, refused := model.Untolerated(taints, translate.Tolerations(p.Spec.Tolerations))
	return !refused
}

// grace returns a pod's termination grace period in seconds.
func grace(p *corev1.Pod) int64 { return ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 30) }

// evict requests the eviction of a pod, and reports whether it was granted. A PodDisruptionBudget may refuse it.
func (d *drainer) evict(ctx context.Context, node *corev1.Node, pod *corev1.Pod) bool {
	uid := pod.UID
	err := d.requestEviction(ctx, pod, nil)
	code := 200
	if s, ok := err.(apierrors.APIStatus); ok {
		code = int(s.Status().Code)
	} else if err != nil {
		code = 0
	}
	d.metrics.Eviction(code)
	done := err == nil || isOver(err)
	if err == nil {
		d.metrics.PodDrained(d.cluster.Claim(claimOwner(node)))
		d.recorder.Event(pod, corev1.EventTypeNormal, "Evicted", "Evicted pod: node "+node.Name+" is being removed")
	}
	now := d.now()
	d.state.pods.update(uid, func(e *eviction) {
		if done {
			e.tries, e.notBefore = 0, now.Add(evictionShown)
		} else {
			e.notBefore = now.Add(min(firstEviction<<min(e.tries, 10), maxEviction))
			e.tries++
		}
	})
	return done
}

// requestEviction requests the eviction of a pod, with the pod's own grace period if seconds is nil.
func (d *drainer) requestEviction(ctx context.Context, pod *corev1.Pod, seconds *int64) error {
	return d.client.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &pod.UID}, GracePeriodSeconds: seconds,
		},
	})
}

// isOver reports whether a request failed because its pod is gone: a conflict means that another pod has its name.
func isOver(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// isDenied reports whether the API server has understood a request about a pod that is there, and denies it.
func isDenied(err error) bool {
	s, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && s.ErrStatus.Code >= http.StatusBadRequest && s.ErrStatus.Code < http.StatusInternalServerError &&
		!apierrors.IsTooManyRequests(err) && !isOver(err)
}

// deletePod deletes a pod that the Node's deadline leaves no time to evict.
func (d *drainer) deletePod(ctx context.Context, pod *corev1.Pod, wait time.Duration, end time.Time) error {
	uid, seconds := pod.UID, max(int64(wait/time.Second), 1)
	err := d.client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &uid}, client.GracePeriodSeconds(seconds))
	if err != nil && !isOver(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	d.recorder.Event(pod, corev1.EventTypeNormal, "Disrupted", fmt.Sprintf(
		"Deleting the pod to accommodate the terminationTime %s of the node. The pod was granted %d seconds of "+
			"grace-period of its %d "+
			"terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.",
		end.Format(time.RFC3339), seconds, grace(pod)))
	return nil
}

// removeLost removes the pods left on a Node whose instance is gone. No kubelet will confirm their end, which
// StatefulSets wait for; Kubernetes' pod garbage collector, which would take a minute, handles the pods of
// DaemonSets, static pods and terminal ones.
func (d *drainer) removeLost(ctx context.Context, node string) error {
	pods, err := d.lostOn(ctx, node)
	if err != nil {
		return err
	}
	return d.removeAll(ctx, pods)
}

// removeOrphans is removeLost for a claim whose Node was deleted before its instance was gone. By now another
// instance may have the Node's name, which is its address.
func (d *drainer) removeOrphans(ctx context.Context, claim *karpv1.NodeClaim) error {
	name := claim.Status.NodeName
	if name == "" {
		return nil
	}
	pods, err := d.lostOn(ctx, name)
	if err != nil || len(pods) == 0 {
		return err
	}
	err = d.client.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		return d.removeAll(ctx, pods)
	}
	return err
}

// lostOn returns the pods that are lost with a Node, except those of DaemonSets, static and terminal ones.
func (d *drainer) lostOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := podsOn(ctx, d.cache, node)
	if err != nil {
		return nil, err
	}
	var lost []corev1.Pod
	for i, p := range d.drainPods(pods) {
		if !p.Daemon && !p.Static && !p.Terminal {
			lost = append(lost, pods[i])
		}
	}
	return lost, nil
}

// removeAll evicts pods whose instance is gone, without grace period, so that their Jobs can tell a disruption from a
// failure, and deletes those whose eviction is refused, by PodDisruptionBudgets or by an admission policy. Pods whose
// deletion is denied as well are left to Kubernetes, which collects the pods of a Node that is gone.
func (d *drainer) removeAll(ctx context.Context, pods []corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		err := d.requestEviction(ctx, pod, new(int64(0)))
		if err != nil && !isOver(err) {
			err = d.client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &pod.UID}, client.GracePeriodSeconds(0))
		}
		switch {
		case isDenied(err):
			d.log.Warn("a pod whose node's instance is gone cannot be removed; Kubernetes removes it after its Node", "pod",
				client.ObjectKeyFromObject(pod), "node", pod.Spec.NodeName, "error", err)
			continue
		case err != nil && !isOver(err):
			return fmt.Errorf("remove pod %s/%s, whose node's instance is gone: %w", pod.Namespace, pod.Name, err)
		}
		d.log.Info("removed a pod whose node's instance is gone", "pod", client.ObjectKeyFromObject(pod),
			"node", pod.Spec.NodeName)
	}
	return nil
}

// forgetEvictions drops the records of pods that are gone; pods are those that remain.
func (d *drainer) forgetEvictions(pods []corev1.Pod) {
	stay, now := map[types.UID]bool{}, d.now()
	for i := range pods {
		stay[pods[i].UID] = true
	}
	d.state.pods.drop(func(uid types.UID, e *eviction) bool { return !stay[uid] && now.Sub(e.notBefore) > time.Minute })
}

// noteBlocked records, once for each state, how the do-not-disrupt of a pod affects the drain of its Node. "true"
// needs no event (sigs.k8s.io/karpenter/pkg/controllers/node/termination/terminator).
func (d *drainer) noteBlocked(pod *corev1.Pod) {
	value := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if value == "" || value == "true" || pod.DeletionTimestamp != nil {
		return
	}
	kind, reason, message := doNotDisrupt(pod, value, d.now())
	if reason == "" || d.state.pods.get(pod.UID).noted == reason {
		return
	}
	d.state.pods.update(pod.UID, func(e *eviction) { e.noted = reason })
	d.recorder.Event(pod, kind, reason, message)
}

// doNotDisrupt says what a do-not-disrupt other than "true" means now; nothing while the pod's start is unknown.
func doNotDisrupt(pod *corev1.Pod, value string, now time.Time) (kind, reason, message string) {
	const key = karpv1.DoNotDisruptAnnotationKey
	until := translate.ReadPod(pod).HeldUntil
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return corev1.EventTypeWarning, "InvalidDoNotDisruptAnnotation", fmt.Sprintf(
			"Invalid %s annotation: %q is neither \"true\" nor a duration such as 30m, ignoring annotation", key, value)
	case d <= 0:
		return corev1.EventTypeWarning, "InvalidDoNotDisruptAnnotation",
			fmt.Sprintf("Invalid %s annotation: duration %q must be positive, ignoring annotation", key, value)
	case pod.Status.StartTime == nil:
		return "", "", ""
	case now.Before(until):
		return corev1.EventTypeNormal, "DoNotDisruptUntil",
			fmt.Sprintf("The %s grace period will elapse at %s", key, until.Format(time.RFC3339))
	}
	return corev1.EventTypeNormal, "DoNotDisruptGracePeriodElapsed",
		fmt.Sprintf("The %s grace period has elapsed, pod is now disruptable", key)
}
