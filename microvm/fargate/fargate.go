// Package fargate knows the rules of pods that are their own node, as EKS Fargate has them: which profile selects a pod, how
// large its microVM is, and why a pod is refused. It is pure: objects go in, values come out (reference
// fargate-and-auto-mode.md, part 1).
package fargate

import "k8s.io/apimachinery/pkg/types"

// Names that EKS gives to labels, annotations and objects, so that manifests written for Fargate mean the same here.
const (
	// ProfileLabel is the profile of a pod; a user sets it to prefer one of several that select the pod.
	ProfileLabel = "eks.amazonaws.com/fargate-profile"
	// ComputeType is an annotation of pods, with the value ec2 for those that no profile is to select, and a label and
	// taint of Nodes, with the value fargate.
	ComputeType        = "eks.amazonaws.com/compute-type"
	ComputeTypeEC2     = "ec2"
	ComputeTypeFargate = "fargate"
	// CapacityProvisioned and Logging are annotations that say what a pod got.
	CapacityProvisioned = "CapacityProvisioned"
	Logging             = "Logging"
	// SchedulerName is who gives pods their microVMs.
	SchedulerName = "fargate-scheduler"
	// PriorityClass and Priority are those of every pod on Fargate; the user's own are overwritten.
	PriorityClass = "system-node-critical"
	Priority      = 2000001000
	// LoggingNamespace, LoggingConfigMap: where the log router is configured. The namespace has to have the label
	// aws-observability: enabled.
	LoggingNamespace = "aws-observability"
	LoggingConfigMap = "aws-logging"
	LoggingLabel     = "aws-observability"
)

// ClaimName is the name of the NodeClaim of a pod's microVM.
func ClaimName(pod types.UID) string { return "fargate-" + string(pod) }
