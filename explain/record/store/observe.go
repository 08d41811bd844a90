package store

import (
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/record"
)

// maxPods is how many pods of a removed node are named.
const maxPods = 256

// ofNodePool reports whether a claim belongs to a NodePool. The claim of a pod's microVM does not, and no decision is
// about it.
func ofNodePool(claim *karpv1.NodeClaim) bool { return claim.Labels[karpv1.NodePoolLabelKey] != "" }

// observe handles changes of NodeClaims.
func (r *Recorder) observe(old, now client.Object) {
	at := r.o.Clock.Now()
	claim, there := now.(*karpv1.NodeClaim)
	if now == nil || !there {
		if gone, ok := old.(*karpv1.NodeClaim); ok && ofNodePool(gone) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.add(r.tracker.Deleted(gone.Name, "", at))
		}
		return
	}
	if !ofNodePool(claim) {
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
