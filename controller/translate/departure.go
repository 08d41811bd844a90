package translate

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Departure is why the machine of a NodeClaim goes or went, in words, as far as claim and pool say it; "" if nothing
// says that it goes. pool is the claim's, nil if there is none.
func Departure(claim *karpv1.NodeClaim, pool *karpv1.NodePool, now time.Time) string {
	if kind, at, ok := Interrupted(claim); ok {
		return fmt.Sprintf("the cloud reclaims it (%s, heard at %s)", strings.ReplaceAll(kind, "_", " "),
			at.UTC().Format(time.RFC3339))
	}
	method := model.Method(claim.Annotations[AnnotationDisruption])
	if c, ok, err := CommandOf(claim); ok && err == nil {
		method = c.Method
	}
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeDisruptionReason && c.Status == metav1.ConditionTrue && method == "" {
			method = model.Method(c.Reason)
		}
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

// methodText is why machines go by a method.
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
