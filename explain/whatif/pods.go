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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
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
			break // the caller checks ctx
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

// reserve reserves room for nominated pods on their nodes where the rules allow it, and returns these nodes by pod.
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

// place binds a pod to a node, where it runs at once. The caller recounts the PodDisruptionBudgets.
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

// ending reports whether a pod terminates when the forecast starts, which leaves it out. A static pod does not: it
// stays as long as its node.
func ending(pod *corev1.Pod) bool {
	p := translate.ReadPod(pod)
	return p.Deleting && !p.Static
}

// returns reports whether a pod that ends gets a successor then: a StatefulSet's. Those of others exist already.
func returns(pod *corev1.Pod) bool {
	p := translate.ReadPod(pod)
	return p.Stateful && !p.Terminal
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

// makePod creates a pending copy of a pod.
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

// drainable reports whether a drain evicts the pod: not if it stays until its node is deleted (controller/nodeclaim).
func drainable(pod *corev1.Pod) bool {
	p := translate.ReadPod(pod)
	_, refused := model.Untolerated(disrupted, translate.Tolerations(pod.Spec.Tolerations))
	return refused && !p.Daemon() && !p.Terminal
}

// disrupted is the taint of nodes being removed: pods that tolerate it are not evicted.
var disrupted = translate.Taints([]corev1.Taint{karpv1.DisruptedNoScheduleTaint})

// mayEvict consults the PodDisruptionBudgets, as the Eviction API does (k8s.io/kubernetes
// pkg/registry/core/pod/storage/eviction.go).
func (r *run) mayEvict(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodPending {
		return true
	}
	var covering []*policyv1.PodDisruptionBudget
	for _, b := range r.pdbs {
		if b.Namespace == pod.Namespace && covers(b, pod) {
			covering = append(covering, b)
		}
	}
	if len(covering) != 1 {
		return len(covering) == 0
	}
	b := covering[0]
	if !ready(pod) && (ptr.Deref(b.Spec.UnhealthyPodEvictionPolicy, "") == policyv1.AlwaysAllow ||
		b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0) {
		return true
	}
	return b.Status.DisruptionsAllowed > 0
}

func covers(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// changedNamespaces returns the namespaces in which the change adds or deletes pods. The PodDisruptionBudgets of
// others have the status that the cluster reports.
func changedNamespaces(objects, before []client.Object) map[string]bool {
	out := map[string]bool{}
	if before == nil {
		return out
	}
	added := map[*corev1.Pod]int{} // -1: deleted; 0: as before
	for by, list := range map[int][]client.Object{1: objects, -1: before} {
		for _, o := range list {
			if pod, ok := o.(*corev1.Pod); ok {
				added[pod] += by
			}
		}
	}
	for pod, n := range added {
		if n != 0 {
			out[pod.Namespace] = true
		}
	}
	return out
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
		now := b.Status
		now.DisruptionsAllowed = int32(max(healthy-want, 0))
		now.CurrentHealthy, now.DesiredHealthy = int32(healthy), int32(max(want, 0))
		if now.DisruptionsAllowed != b.Status.DisruptionsAllowed || now.CurrentHealthy != b.Status.CurrentHealthy ||
			now.DesiredHealthy != b.Status.DesiredHealthy {
			b = b.DeepCopy()
			b.ResourceVersion, b.Status = "", now
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
