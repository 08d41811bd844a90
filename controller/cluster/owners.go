package cluster

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// maxExpected bounds Snapshot.Expected over all owners: replicas with too many digits must not fill the memory. The
// rest is expected once these pods exist.
const maxExpected = 10_000

// owner is a controller of pods, such as a ReplicaSet, as known from its pods and its own object.
type owner struct {
	read      bool // its object has been seen
	name      types.NamespacedName
	desired   int // pods that it should have, by its spec
	remaining int // of a Job: pods that have yet to succeed, by its status; -1 = unlimited
	active    int // its pods that are neither terminating nor finished, whatever their scheduler
	succeeded int // its pods that have succeeded and still exist
	done      int // of a Job: succeeded pods, by its status
	failing   bool
	progress  time.Time // when it or its newest pod was created, or it was seen to want more
}

// owners are the controllers of pods. Pods that an owner wants and has not created yet are expected: ReplicaSets and
// Jobs create 1, 2, 4, 8 … pods, one batch after another (k8s.io/kubernetes pkg/controller/replicaset,
// slowStartBatch), and nodes should be sized for all of them.
type owners struct {
	*hub
	objects *objects
	pods    *pods
	apart   func(*corev1.Pod) bool // Options.Apart
	by      map[types.UID]*owner

	starting map[types.UID]*starting // by owner

	expected []model.Pod               // as in the last snapshot
	keys     map[string][]model.PodKey // the same by owner's UID
	until    time.Time                 // when an owner that creates nothing counts as stuck, zero if no pods are expected
}

func newOwners(h *hub, objects *objects, pods *pods, apart func(*corev1.Pod) bool) *owners {
	return &owners{
		hub: h, objects: objects, pods: pods, apart: apart, by: map[types.UID]*owner{}, starting: map[types.UID]*starting{},
	}
}

func (os *owners) of(uid types.UID) *owner {
	o := os.by[uid]
	if o == nil {
		o = &owner{remaining: -1}
		os.by[uid] = o
	}
	return o
}

// recount replaces the previous state of a pod by its new one; nil for a pod that did not exist or is gone.
func (os *owners) recount(before, now *corev1.Pod) {
	os.count(before, -1)
	os.count(now, 1)
	if before == nil {
		os.created(now)
	}
}

// created notes a new pod. If its owner cannot be read, the pod could not be expected, and counts as a workload.
func (os *owners) created(pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return
	}
	os.started(ref.UID)
	if o := os.by[ref.UID]; o != nil && !o.read && pod.Spec.NodeName == "" {
		os.workloads++
	}
}

// count adds a pod to its owner's counts, or removes it if n is -1; nil counts nothing.
func (os *owners) count(pod *corev1.Pod, n int) {
	if pod == nil {
		return
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind == "DaemonSet" || ref.Kind == "Node" {
		return
	}
	o := os.of(ref.UID)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		o.succeeded += n
	case pod.Status.Phase != corev1.PodFailed && pod.DeletionTimestamp == nil:
		o.active += n
	}
	if pod.CreationTimestamp.After(o.progress) {
		o.progress = pod.CreationTimestamp.Time
	}
	if !o.read && o.active+o.succeeded == 0 {
		delete(os.by, ref.UID)
	}
}

// update records what the owner's object says.
func (os *owners) update(object metav1.Object, now time.Time, says owner) {
	o := os.of(object.GetUID())
	before := *o
	if object.GetDeletionTimestamp() != nil {
		says.desired = 0
	}
	o.name = types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	o.read, o.desired, o.remaining, o.done, o.failing = true, says.desired, says.remaining, says.done, says.failing
	switch created := object.GetCreationTimestamp().Time; {
	case before.read && (o.desired > before.desired || before.failing && !o.failing):
		o.progress = now
	case created.After(o.progress):
		o.progress = created
	}
	if o.missing() > 0 && (!before.read || before.desired == 0) {
		os.workloads++
	}
	if o.missing() != before.missing() {
		os.poke()
	}
}

func (os *owners) forget(object metav1.Object) {
	os.started(object.GetUID())
	if o := os.by[object.GetUID()]; o != nil {
		o.read = false
		if o.active+o.succeeded == 0 {
			delete(os.by, object.GetUID())
		}
	}
}

// missing returns how many pods the owner has yet to create.
func (o *owner) missing() int {
	if !o.read || o.failing {
		return 0
	}
	wants := o.desired
	if o.remaining >= 0 {
		wants = min(wants, o.remaining-max(o.succeeded-o.done, 0))
	}
	return max(wants-o.active, 0)
}

// expects returns how many pods of a Job the last snapshot expects.
func (os *owners) expects(job types.NamespacedName) (n int) {
	for uid, keys := range os.keys {
		if o := os.by[types.UID(uid)]; o != nil && o.name == job {
			n += len(keys)
		}
	}
	return n
}

func replicasOf(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

func (os *owners) updateReplicaSet(o *appsv1.ReplicaSet, now time.Time) {
	says := owner{desired: replicasOf(o.Spec.Replicas), remaining: -1}
	for i := range o.Status.Conditions {
		c := &o.Status.Conditions[i]
		says.failing = says.failing || c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
	}
	before := os.by[o.UID]
	grown := before == nil || !before.read || before.desired < says.desired || before.failing
	os.update(o, now, says)
	switch after := os.of(o.UID); {
	case after.missing() == 0:
		os.started(o.UID)
	case grown && after.active == 0:
		os.starts(o)
	}
}

func (os *owners) updateReplicationController(o *corev1.ReplicationController, now time.Time) {
	says := owner{desired: replicasOf(o.Spec.Replicas), remaining: -1}
	for i := range o.Status.Conditions {
		c := &o.Status.Conditions[i]
		says.failing = says.failing ||
			c.Type == corev1.ReplicationControllerReplicaFailure && c.Status == corev1.ConditionTrue
	}
	os.update(o, now, says)
}

// updateStatefulSet expects pods of a StatefulSet only if it creates them in parallel: otherwise each pod is created
// when the one before it is ready, which takes longer than launching a node.
func (os *owners) updateStatefulSet(o *appsv1.StatefulSet, now time.Time) {
	says := owner{remaining: -1}
	if o.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		says.desired = replicasOf(o.Spec.Replicas)
	}
	os.update(o, now, says)
}

func (os *owners) updateJob(o *batchv1.Job, now time.Time) {
	says := owner{desired: replicasOf(o.Spec.Parallelism), remaining: -1, done: int(o.Status.Succeeded)}
	switch {
	case o.Spec.Completions != nil:
		says.remaining = int(*o.Spec.Completions) - says.done
	case o.Status.Succeeded > 0:
		says.desired = 0 // a work queue creates no more pods once one has succeeded
	}
	if o.Spec.Suspend != nil && *o.Spec.Suspend {
		says.desired = 0
	}
	for i := range o.Status.Conditions {
		if o.Status.Conditions[i].Status == corev1.ConditionTrue {
			says.desired = 0 // complete, failed, suspended, or about to be
		}
	}
	os.update(o, now, says)
}

// renderExpected returns Snapshot.Expected: the successors of evicted pods, and the other pods that owners have yet
// to create.
func (s *State) renderExpected(now time.Time) []model.Pod {
	due := s.successors.renderExpected()
	successors := map[string]int{}
	for _, d := range s.successors.due {
		successors[d.Maker]++
	}
	coming := s.owners.render(s.nominations, s.quotas, successors, now)
	switch {
	case len(coming) == 0:
		return due
	case len(due) == 0:
		return coming
	}
	both := slices.Concat(due, coming)
	model.SortPending(both)
	return both
}

// render returns what Snapshot.Expected has beside the successors of evicted pods: for each owner of waiting pods, as
// many pods like its newest waiting one as it has yet to create and as its namespace's quotas allow. An owner that
// has created nothing for the duration nominated is stuck, and no more pods are expected of it. While any pod waits,
// ReplicaSets that have no pod yet are expected to follow their templates: kube-controller-manager works on five of
// them at a time (--concurrent-replicaset-syncs), so that the sixth begins when one of the others is complete.
func (os *owners) render(nm *nominations, quotas *quotas, successors map[string]int, now time.Time) []model.Pod {
	os.until, os.keys = time.Time{}, map[string][]model.PodKey{}
	newest := map[types.UID]*pod{}
	var order []types.UID
	for _, p := range os.pods.waiting {
		if p.Owner == "" {
			continue
		}
		if newest[p.Owner] == nil {
			order = append(order, p.Owner)
		}
		newest[p.Owner] = p
	}
	if len(os.pods.waiting) > 0 {
		order = append(order, os.awaited(newest)...)
	}
	var out []model.Pod
	rooms := quotas.rooms()
	for _, uid := range order {
		o, like := os.by[uid], newest[uid]
		if o == nil {
			continue
		}
		stuck := o.progress.Add(nominated)
		n := min(o.missing()-successors[like.Maker], maxExpected-len(out))
		if n <= 0 || !stuck.After(now) {
			continue
		}
		object := os.objects.pods.live[types.NamespacedName{Namespace: like.Key.Namespace, Name: like.Key.Name}]
		s := os.starting[uid]
		template := s != nil && s.pod == like
		if template {
			object = s.object
		}
		if n = rooms.take(object, n); n <= 0 {
			continue
		}
		if os.until.IsZero() || stuck.Before(os.until) {
			os.until = stuck
		}
		coming := os.expect(nm, o, string(uid), like, n)
		for i := range coming {
			if coming[i].FromTemplate = template; template {
				coming[i].Nominated = "" // a place is kept for the pods once they exist, not before
			}
		}
		out = append(out, coming...)
	}
	model.SortPending(out)
	if !slices.Equal(os.expected, out) {
		os.expected = out
	}
	return os.expected
}

// expect makes the pods that an owner has yet to create. Their numbers continue after its existing pods: a pod that
// is created takes the first number, and what was planned for it.
func (os *owners) expect(nm *nominations, o *owner, uid string, like *pod, n int) []model.Pod {
	out := make([]model.Pod, n)
	for i := range out {
		out[i] = like.model()
		number := o.active + i + 1
		out[i].Name, out[i].UID = fmt.Sprintf("%s-expected-%06d", o.name.Name, number), fmt.Sprintf("%s-%06d", uid, number)
		os.keys[uid] = append(os.keys[uid], out[i].PodKey)
		out[i].Nominated = nm.promisedNode(out[i].PodKey)
	}
	return out
}

// arrived gives a newly created pod the place of its owner's first expected pod.
func (os *owners) arrived(nm *nominations, p *pod) {
	keys := os.keys[string(p.Owner)]
	if p.Owner == "" || len(keys) == 0 {
		return
	}
	nm.inherit(keys[0], p.Key)
	os.keys[string(p.Owner)] = keys[1:]
}
