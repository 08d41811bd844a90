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

// mostPods of a machine that goes are named.
const mostPods = 256

// ours reports whether a claim is of a NodePool: a pod's own microVM is nobody's decision here.
func ours(claim *karpv1.NodeClaim) bool { return claim.Labels[karpv1.NodePoolLabelKey] != "" }

// see takes in what the watch shows of NodeClaims.
func (r *Recorder) see(old, now client.Object) {
	at := r.o.Clock.Now()
	claim, there := now.(*karpv1.NodeClaim)
	if now == nil || !there {
		if gone, ok := old.(*karpv1.NodeClaim); ok && ours(gone) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.add(r.tracker.Went(gone.Name, "", at))
		}
		return
	}
	if !ours(claim) {
		return
	}
	if was, ok := old.(*karpv1.NodeClaim); ok && was.UID != claim.UID { // another one has taken the name in between
		r.mu.Lock()
		r.add(r.tracker.Went(was.Name, "", at))
		r.mu.Unlock()
	}
	s := r.seen(claim)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(r.tracker.See(s, at))
	if s.Leaves {
		r.stir() // what nobody has told of in a while is written down then
	}
}

// seen is what a claim says of itself.
func (r *Recorder) seen(claim *karpv1.NodeClaim) record.Seen {
	s := record.Seen{Claim: claim.Name, Node: claim.Status.NodeName}
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeInitialized && c.Status == "True" {
			s.Ready = c.LastTransitionTime.Time
		}
	}
	_, _, interrupted := translate.Interrupted(claim)
	s.Leaves = claim.DeletionTimestamp != nil || interrupted
	if s.Leaves {
		s.Method, _ = because(claim, "")
		s.Why = translate.Departure(claim, r.o.State.NodePool(claim.Labels[karpv1.NodePoolLabelKey]), r.o.Clock.Now())
	}
	s.Look = func() record.Machine { return r.machine(claim) }
	return s
}

// machine is what is known of the machine of a claim.
func (r *Recorder) machine(claim *karpv1.NodeClaim) record.Machine {
	if n, ok := r.o.State.Machine(claim.Name); ok && n.Type != "" {
		return record.MachineOf(&n, mostPods)
	}
	return record.Machine{
		Claim: claim.Name, Node: claim.Status.NodeName, Pool: claim.Labels[karpv1.NodePoolLabelKey],
		Offer: record.Offer{
			Type: claim.Labels[model.LabelInstanceType], Zone: claim.Labels[model.LabelZone],
			CapacityType: claim.Labels[model.LabelCapacityType],
		},
	}
}

// reasons are what controller/nodeclaim deletes claims for, and what is said of it.
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

// because says for which reason a claim goes, by the word of whoever deleted it, "" if that is not known.
func because(claim *karpv1.NodeClaim, word string) (method, why string) {
	if known, ok := reasons[word]; ok {
		return known[0], known[1]
	}
	if kind, _, ok := translate.Interrupted(claim); ok && (word == "" || word == kind) {
		// as the claim's watch tells it: nobody knows which is written down
		return "Interrupted", translate.Departure(claim, nil, time.Time{})
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
