package store

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/record"
)

// maxPods is how many pods of a removed node are named.
const maxPods = 256

// recorded reports whether decisions are about a claim: it belongs to a NodePool, as that of a pod's microVM does not,
// and to this controller.
func (r *Recorder) recorded(claim *karpv1.NodeClaim) bool {
	return claim.Labels[karpv1.NodePoolLabelKey] != "" && r.o.State.Manages(claim.Spec.NodeClassRef)
}

// observe handles changes of NodeClaims.
func (r *Recorder) observe(old, now client.Object) {
	at := r.o.Clock.Now()
	claim, there := now.(*karpv1.NodeClaim)
	if now == nil || !there {
		if gone, ok := old.(*karpv1.NodeClaim); ok && r.recorded(gone) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.add(r.tracker.Deleted(gone.Name, "", at))
		}
		return
	}
	if !r.recorded(claim) {
		return
	}
	if was, ok := old.(*karpv1.NodeClaim); ok && was.UID != claim.UID { // a new claim has taken the name
		r.mu.Lock()
		r.add(r.tracker.Deleted(was.Name, "", at))
		r.mu.Unlock()
	}
	s := r.stateOf(claim)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(r.tracker.Observe(s, at))
	if s.Leaving {
		r.wakeUp() // removals that no cycle reports are recorded later
	}
}

// stateOf describes a claim.
func (r *Recorder) stateOf(claim *karpv1.NodeClaim) record.ClaimState {
	s := record.ClaimState{Claim: claim.Name, Node: claim.Status.NodeName}
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeInitialized && c.Status == "True" {
			s.Ready = c.LastTransitionTime.Time
		}
	}
	_, _, interrupted := translate.Interrupted(claim)
	s.Leaving = claim.DeletionTimestamp != nil || interrupted
	if s.Leaving {
		s.Method, _ = deletionReason(claim, "")
		s.Why = translate.RemovalCause(claim, r.o.State.NodePool(claim.Labels[karpv1.NodePoolLabelKey]), r.o.Clock.Now())
	}
	s.Describe = func() record.RemovedNode { return r.removedNode(claim) }
	return s
}

// removedNode describes the node of a claim.
func (r *Recorder) removedNode(claim *karpv1.NodeClaim) record.RemovedNode {
	if n, ok := r.o.State.NodeOfClaim(claim.Name); ok && n.Type != "" {
		return record.NewRemovedNode(&n, maxPods)
	}
	return record.RemovedNode{
		Claim: claim.Name, Node: claim.Status.NodeName, Pool: claim.Labels[karpv1.NodePoolLabelKey],
		Offer: record.Offer{
			Type: claim.Labels[model.LabelInstanceType], Zone: claim.Labels[model.LabelZone],
			CapacityType: claim.Labels[model.LabelCapacityType],
		},
	}
}

// workloads returns what created the pods of a node, by UID.
func (r *Recorder) workloads(node string) map[string]record.Workload {
	out := map[string]record.Workload{}
	for _, pod := range r.o.State.PodsOnNode(node) {
		if w := WorkloadOf(pod); w != (record.Workload{}) {
			out[string(pod.UID)] = w
		}
	}
	return out
}

// WorkloadOf returns what created a pod: its controller, or the Deployment of its ReplicaSet, found by the label that
// Deployments give to their pods. It returns the zero value for a pod without a controller.
func WorkloadOf(pod *corev1.Pod) (none record.Workload) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return none
	}
	w := record.Workload{Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name}
	if template := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; w.Kind == "ReplicaSet" && template != "" {
		w.Kind, w.Name = "Deployment", strings.TrimSuffix(w.Name, "-"+template)
	}
	return w
}

// reasons maps the words with which controller/nodeclaim deletes claims to methods and sentences.
var reasons = map[string][2]string{
	"expired":               {"Expired", "it is older than its expireAfter"},
	"insufficient_capacity": {"NoCapacity", "the cloud had no capacity for it"},
	"nodeclass_not_ready":   {"NodeClassNotReady", "its node class was not ready"},
	"launch_failed":         {"LaunchFailed", "the cloud refused to launch its instance"},
	"launch_timeout":        {"LaunchTimeout", "the cloud did not launch its instance in time"},
	"registration_timeout":  {"RegistrationTimeout", "its Node did not register in time"},
	"garbage_collected":     {"Lost", "the cloud no longer knows its instance"},
	"node_missing":          {"Lost", "its Node no longer exists"},
	"node_deleted":          {"Deleted", "its Node was deleted by a person or another program"},
	"nodepool_deleted":      {"Deleted", "its NodePool no longer exists"},
	"unhealthy":             {"Unhealthy", "its Node was unhealthy for too long (node repair)"},
}

// deletionReason says why a claim is deleted, given the deleter's word, which may be "".
func deletionReason(claim *karpv1.NodeClaim, word string) (method, why string) {
	if known, ok := reasons[word]; ok {
		return known[0], known[1]
	}
	if kind, _, ok := translate.Interrupted(claim); ok && (word == "" || word == kind) {
		// The same text as from the claim's watch, since either may be recorded.
		return "Interrupted", translate.RemovalCause(claim, nil, time.Time{})
	}
	if word != "" {
		return "Interrupted", "the cloud reclaims it (" + strings.ReplaceAll(word, "_", " ") + ")"
	}
	if c, ok, err := translate.CommandOf(claim); ok && err == nil {
		return string(c.Method), ""
	}
	if m := claim.Annotations[translate.AnnotationDisruption]; m != "" {
		return m, ""
	}
	return "Deleted", ""
}
