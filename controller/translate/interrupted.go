package translate

import (
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// AnnotationInterrupted says that the cloud takes the machine of a NodeClaim away, why, and since when that is known,
// such as "spot_interrupted 2026-11-22T01:16:15Z". Such a machine goes: its pods get their next places before it is
// drained.
const AnnotationInterrupted = "nodeless.sh/interrupted"

// Interruption is the value of AnnotationInterrupted.
func Interruption(kind string, at time.Time) string {
	return kind + " " + at.UTC().Format(time.RFC3339)
}

// Interrupted reads AnnotationInterrupted; ok is false for a claim without. A time that cannot be read is long ago.
func Interrupted(claim *karpv1.NodeClaim) (kind string, at time.Time, ok bool) {
	if claim == nil || claim.Annotations[AnnotationInterrupted] == "" {
		return "", time.Time{}, false
	}
	kind, when, _ := strings.Cut(claim.Annotations[AnnotationInterrupted], " ")
	at, _ = time.Parse(time.RFC3339, when)
	return kind, at, true
}
