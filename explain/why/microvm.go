package why

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// onFargate reports whether a node belongs to a single pod: a node of AWS Fargate, or a microVM. Either argument may
// be nil.
func onFargate(node *corev1.Node, claim *karpv1.NodeClaim) bool {
	return node != nil && node.Labels[fargate.ComputeType] == fargate.ComputeTypeFargate ||
		claim != nil && claim.Labels[fargate.ComputeType] == fargate.ComputeTypeFargate
}

// microVM answers about the node of a single pod.
func (q *nodeQuestion) microVM() {
	whose := "one pod"
	for _, pod := range q.c.State.PodsOnNode(q.n.Name) {
		if pod.Spec.SchedulerName == fargate.SchedulerName {
			whose = "pod " + pod.Namespace + "/" + pod.Name
		}
	}
	q.conclude(q.state(), Kept, "it belongs to %s alone and is removed when that pod ends or is deleted", whose)
}

// waitsForMicroVM answers about a pod that a FargateProfile selects and that has no node: it was refused, or its
// microVM is starting.
func (q *podQuestion) waitsForMicroVM() {
	pod, waited := q.pod, q.waited()
	if claim := q.c.State.Claim(fargate.ClaimName(pod.UID)); claim != nil && claim.DeletionTimestamp == nil {
		q.conclude(waited, Launching, "its microVM is starting: %s",
			cmp.Or(firstLacking(claim), "its kubelet has to start the pod"))
		q.say("nodeclaim", claim.Name)
		return
	}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
	profile := cmp.Or(pod.Labels[fargate.ProfileLabel], "?")
	if i < 0 {
		q.conclude(waited, NotManaged, "FargateProfile %s selects it, and %s has not given it a microVM yet", profile,
			fargate.SchedulerName)
		return
	}
	c := &pod.Status.Conditions[i]
	q.conclude(waited, Unschedulable, "it gets no microVM: %s", cmp.Or(c.Message, c.Reason))
	q.sayf("decided by", "%s, %s ago: %s", fargate.SchedulerName, q.ago(c.LastTransitionTime.Time), c.Reason)
	q.say("profile", profile)
	q.say("what helps", refusedRemedy(c.Reason))
}

// refusedRemedy says what to do if fargate-scheduler refuses a pod for a reason; "" if its message says so.
func refusedRemedy(reason string) string {
	switch reason {
	case fargate.ReasonUnsupported:
		return "remove from the pod what the message names, or annotate its template " + fargate.ComputeType + ": " +
			fargate.ComputeTypeEC2 +
			" so that it runs on a NodePool's nodes"
	case fargate.ReasonTooLarge:
		return "request less, or annotate its template " + fargate.ComputeType + ": " + fargate.ComputeTypeEC2 +
			" so that it runs on a NodePool's nodes"
	}
	return ""
}
