// Package fargate implements EKS Fargate's rules for pods that each get a node of their own: which profile selects a
// pod, how large its microVM is, and why a pod is refused. Its functions are pure. Sources: EKS User Guide, AWS
// Fargate; observed messages of Fargate.
package fargate

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// Names that EKS gives to labels, annotations and objects, so that manifests written for Fargate mean the same here.
const (
	// ProfileLabel names the profile of a pod. A user sets it to choose among several profiles that select the pod.
	ProfileLabel = "eks.amazonaws.com/fargate-profile"
	// NameAnnotation is a profile's EKS name, which may have capitals and underscores, if the object's name differs.
	NameAnnotation = "nodeless.sh/eks-name"
	// ComputeType is an annotation of pods, with the value ec2 for pods that no profile may select, and a label and
	// taint of Nodes, with the value fargate.
	ComputeType        = "eks.amazonaws.com/compute-type"
	ComputeTypeEC2     = "ec2"
	ComputeTypeFargate = "fargate"
	// CapacityProvisioned and Logging are annotations with the size of a pod's microVM and whether its logs are routed.
	CapacityProvisioned = "CapacityProvisioned"
	Logging             = "Logging"
	// SchedulerName is the scheduler that assigns pods to microVMs.
	SchedulerName = v1alpha1.FargateScheduler
	// PriorityClass and Priority are those of every pod on Fargate. They overwrite the user's.
	PriorityClass = "system-node-critical"
	Priority      = 2000001000
	// LoggingNamespace and LoggingConfigMap configure the log router. The namespace must have the label
	// aws-observability: enabled.
	LoggingNamespace = "aws-observability"
	LoggingConfigMap = "aws-logging"
	LoggingLabel     = "aws-observability"
	// MutatingWebhooks and ValidatingWebhooks are the configurations of the admission webhook. The mutating one sorts
	// early, as Fargate's own does (0500-amazon-eks-fargate-mutation): reinvocation sizes what other webhooks add
	// later.
	MutatingWebhooks   = "0500-nodeless-fargate-mutation"
	ValidatingWebhooks = "nodeless-fargate-validation"
	// WebhookSecret holds the certificates of the webhook, which all replicas share.
	WebhookSecret = "nodeless-webhook"
	// ControllerLabel marks the controller's own pods, whatever their release is called. The webhook is not called for
	// them, so that the controller can start.
	ControllerLabel = "nodeless.sh/controller"
)

// ClaimName returns the name of the NodeClaim of a pod's microVM.
func ClaimName(pod types.UID) string { return "fargate-" + string(pod) }
