package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/kubescheduler"
)

// bind binds pending pods as kube-scheduler would, and reports whether it bound any.
func (r *run) bind(ctx context.Context) bool {
	s := r.cluster.Snapshot()
	var waiting []*model.Pod
	for i := range s.Pending {
		if p := &s.Pending[i]; p.From == "" && !p.Virtual {
			waiting = append(waiting, p)
		}
	}
	if len(waiting) == 0 {
		return false
	}
	slices.SortStableFunc(waiting, func(a, b *model.Pod) int { return cmp.Compare(b.Priority, a.Priority) })
	scheduler, changed := kubescheduler.New(s, kubescheduler.Options{SpreadShapes: true}), map[string]bool{}
	reserved := reserve(scheduler, s, waiting)
	for _, p := range waiting {
		if ctx.Err() != nil {
			break // the caller asks why
		}
		node, nominated := reserved[p.PodKey]
		if nominated {
			scheduler.Release(p.Shape, node)
		}
		if !nominated || !scheduler.Fits(p.Shape, node) {
			node = scheduler.Find(p.Shape)
		}
		switch {
		case node >= 0:
			scheduler.Bind(p.Shape, node)
			r.place(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, s.Nodes[node].Name)
			changed[p.Namespace] = true
		case nominated:
			scheduler.Reserve(p.Shape, reserved[p.PodKey])
		}
	}
	for namespace := range changed {
		r.recount(namespace)
	}
	return len(changed) > 0
}

// reserve keeps room for the nominated pods on their nodes where the rules allow them, and returns the nodes by pod.
func reserve(scheduler *kubescheduler.Scheduler, s *model.Snapshot, waiting []*model.Pod) map[model.PodKey]int {
	reserved := map[model.PodKey]int{}
	for _, p := range waiting {
		i, found := slices.BinarySearchFunc(s.Nodes, p.Nominated,
			func(n model.Node, name string) int { return cmp.Compare(n.Name, name) })
		if p.Nominated != "" && found && scheduler.Allows(p.Shape, i) {
			scheduler.Reserve(p.Shape, i)
			reserved[p.PodKey] = i
		}
	}
	return reserved
}

// place puts a pod on a node, where it runs at once. The caller recounts the PodDisruptionBudgets.
func (r *run) place(key types.NamespacedName, node string) {
	pod := r.pods[key].DeepCopy()
	now := metav1.NewTime(r.now())
	pod.ResourceVersion, pod.Generation = "", 0
	pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = node, corev1.PodRunning, &now
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}
	r.put(pod)
	r.lastChange = r.now()
}

func (r *run) removePod(pod *corev1.Pod) {
	delete(r.pods, client.ObjectKeyFromObject(pod))
	r.cluster.Delete(pod)
	r.recount(pod.Namespace)
}

// evict evicts a pod; its owner creates another one at once.
func (r *run) evict(pod *corev1.Pod, node string) {
	r.evictions = append(r.evictions, Eviction{Pod: pod.Namespace + "/" + pod.Name, Node: node, AfterSeconds: r.after()})
	r.lastChange = r.now()
	r.removePod(pod)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		r.makePod(pod)
		r.recount(pod.Namespace)
	}
}

// makePod creates a pending pod like another one.
func (r *run) makePod(like *corev1.Pod) {
	r.seq++
	pod := like.DeepCopy()
	name := like.Name
	if owner := metav1.GetControllerOfNoCopy(like); owner == nil || owner.Kind != "StatefulSet" {
		name = fmt.Sprintf("%s-next-%d", like.Name, r.seq)
	}
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: like.Namespace, Name: name, UID: uidOf(fmt.Sprintf("pod-%d", r.seq)),
		CreationTimestamp: metav1.NewTime(r.now()),
		Labels:            like.Labels, Annotations: like.Annotations, OwnerReferences: like.OwnerReferences,
	}
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	r.put(pod)
}

// mayEvict consults the PodDisruptionBudgets, as the Eviction API does.
func (r *run) mayEvict(pod *corev1.Pod) bool {
	var covering []*policyv1.PodDisruptionBudget
	for _, b := range r.pdbs {
		if b.Namespace == pod.Namespace && covers(b, pod) {
			covering = append(covering, b)
		}
	}
	return len(covering) == 0 || len(covering) == 1 && covering[0].Status.DisruptionsAllowed > 0
}

func covers(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// recount updates the PodDisruptionBudgets of a namespace, as their controller does.
func (r *run) recount(namespace string) {
	for i, b := range r.pdbs {
		if b.Namespace != namespace {
			continue
		}
		expected, healthy := 0, 0
		for _, pod := range r.pods {
			if pod.Namespace != namespace || pod.Status.Phase == corev1.PodSucceeded ||
				pod.Status.Phase == corev1.PodFailed || !covers(b, pod) {
				continue
			}
			expected++
			if ready(pod) && pod.DeletionTimestamp == nil {
				healthy++
			}
		}
		want := 0
		if least := b.Spec.MinAvailable; least != nil {
			want, _ = intstr.GetScaledValueFromIntOrPercent(least, expected, true)
		} else if most := b.Spec.MaxUnavailable; most != nil {
			n, _ := intstr.GetScaledValueFromIntOrPercent(most, expected, true)
			want = expected - n
		}
		if allowed := int32(max(healthy-want, 0)); allowed != b.Status.DisruptionsAllowed {
			b = b.DeepCopy()
			b.ResourceVersion, b.Status.DisruptionsAllowed = "", allowed
			r.pdbs[i] = b
			r.cluster.Update(b)
		}
	}
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
