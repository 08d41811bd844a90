package translate

import (
	"fmt"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// RemovalCause returns why a NodeClaim is being or was removed, according to it and its NodePool; "" if nothing says
// that it is. pool is nil if there is none.
func RemovalCause(claim *karpv1.NodeClaim, pool *karpv1.NodePool, now time.Time) string {
	if kind, at, ok := Interrupted(claim); ok {
		return fmt.Sprintf("the cloud reclaims it (%s, heard at %s)", strings.ReplaceAll(kind, "_", " "),
			at.UTC().Format(time.RFC3339))
	}
	method := model.Method(claim.Annotations[AnnotationDisruption])
	if c, ok, err := CommandOf(claim); ok && err == nil {
		method = c.Method
	}
	if c := conditions.Of(claim, karpv1.ConditionTypeDisruptionReason); c != nil && c.IsTrue() && method == "" {
		method = model.Method(c.Reason)
	}
	if method != "" {
		return methodText(method)
	}
	if after := claim.Spec.ExpireAfter.Duration; after != nil && !now.Before(claim.CreationTimestamp.Add(*after)) {
		return fmt.Sprintf("it is older than its expireAfter of %s", after)
	}
	name := claim.Labels[karpv1.NodePoolLabelKey]
	switch {
	case name != "" && pool == nil:
		return "its NodePool " + name + " no longer exists"
	case pool != nil && pool.DeletionTimestamp != nil:
		return "its NodePool " + name + " is being deleted"
	case claim.DeletionTimestamp != nil:
		return "its NodeClaim was deleted, by a person or another program; no reason was recorded on it"
	}
	return ""
}

// methodText returns why a method removes nodes.
func methodText(m model.Method) string {
	switch m {
	case model.Empty:
		return "it was empty"
	case model.Drifted:
		return "it no longer matches its NodePool and node class"
	case model.Underutilized:
		return "its pods cost less elsewhere"
	case model.Expired:
		return "it is older than its pool's " + AnnotationSoftExpireAfter
	case model.CrowdedOut:
		return "a DaemonSet pod does not fit on it"
	case model.Overprovisioned:
		return "its static pool has more nodes than replicas"
	}
	return string(m)
}

// Reasons for drift from a NodePool (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption).
const (
	NodePoolDrifted     = "NodePoolDrifted"
	RequirementsDrifted = "RequirementsDrifted"
)

// PoolDrift returns why a NodeClaim no longer matches its pool, "" if it does: the hash of the pool's template was
// different at the launch, or the claim's labels do not meet the template's requirements.
func PoolDrift(claim *karpv1.NodeClaim, pool, was, hash string, want model.Requirements) (reason, message string) {
	if was != hash {
		return NodePoolDrifted, fmt.Sprintf("spec.template of NodePool %s has changed since the launch", pool)
	}
	if key := Labels(claim.Labels).Conflict(want, nil); key != "" {
		return RequirementsDrifted,
			fmt.Sprintf("label %s=%q is not what spec.template.spec.requirements of NodePool %s ask for", key,
				claim.Labels[key], pool)
	}
	return "", ""
}

// AnnotationInterrupted says that the cloud is reclaiming the instance of a NodeClaim, why, and since when that has
// been known, such as "spot_interrupted 2026-11-22T01:16:15Z". The pods get new places before the node is drained.
const AnnotationInterrupted = "nodeless.sh/interrupted"

// Interruption returns the value of AnnotationInterrupted.
func Interruption(kind string, at time.Time) string {
	return kind + " " + at.UTC().Format(time.RFC3339)
}

// Interrupted reads AnnotationInterrupted; ok is false for a claim without it. A time that cannot be read is zero.
func Interrupted(claim *karpv1.NodeClaim) (kind string, at time.Time, ok bool) {
	if claim == nil || claim.Annotations[AnnotationInterrupted] == "" {
		return "", time.Time{}, false
	}
	kind, when, _ := strings.Cut(claim.Annotations[AnnotationInterrupted], " ")
	at, _ = time.Parse(time.RFC3339, when)
	return kind, at, true
}
