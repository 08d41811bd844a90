package status

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	opstatus "github.com/awslabs/operatorpkg/status"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/events"
)

// ConditionAnnotationsValid says whether the annotations with our prefix on a NodePool can be read. While they
// cannot, no node of the pool is disrupted; launches continue, so the pool's readiness does not depend on it.
const ConditionAnnotationsValid = "NodelessAnnotationsValid"

// ConditionPreflightPassed is False on a NodePool if some of its nodes would accept more pods than they have
// addresses for; otherwise it is absent. Readiness does not depend on it.
const ConditionPreflightPassed = "NodelessPreflightPassed"

// ConditionPodNetworkReady is False on a NodePool if some of its nodes would have no usable ENIConfig, under custom
// networking of the VPC CNI, or no addresses for pods on Windows; otherwise it is absent. No node is launched in the
// zones that it names.
const ConditionPodNetworkReady = "NodelessPodNetworkReady"

// ConditionWarmTargetsKept is False on a NodePool if none of its types can keep the warm targets of the VPC CNI;
// otherwise it is absent. Nodes are launched anyway, and take every address that they can hold.
const ConditionWarmTargetsKept = "NodelessWarmTargetsKept"

// clearCondition removes a condition. Clear fails only for conditions on which readiness depends.
func clearCondition(pool *karpv1.NodePool, kind string) {
	_ = pool.StatusConditions(opstatus.WithObservedOnly()).Clear(kind)
}

// setFalse sets a condition, and records an event when it turns false or gets another message.
func (p *poolReconciler) setFalse(pool *karpv1.NodePool, kind, reason, message string) {
	if was := conditions.Of(pool, kind); was == nil || was.IsTrue() || was.Message != message {
		p.o.Recorder.Event(pool, corev1.EventTypeWarning, reason, events.Message(message))
	}
	pool.StatusConditions(opstatus.WithObservedOnly()).SetFalse(kind, reason, message)
}

// judgeAnnotations sets the condition ConditionAnnotationsValid.
func (p *poolReconciler) judgeAnnotations(pool *karpv1.NodePool) {
	if !translate.HasDisruptionAnnotations(pool) {
		clearCondition(pool, ConditionAnnotationsValid)
		return
	}
	if _, err := translate.ReadDisruptionAnnotations(pool); err != nil {
		p.setFalse(pool, ConditionAnnotationsValid, "AnnotationInvalid",
			"no node of this NodePool is disrupted until this is corrected: "+err.Error())
		return
	}
	pool.StatusConditions(opstatus.WithObservedOnly()).SetTrue(ConditionAnnotationsValid)
}

// judgeKeys sets the condition about requirements with unknown keys.
func (p *poolReconciler) judgeKeys(pool *karpv1.NodePool) {
	var unknown []string
	for _, u := range translate.UnknownKeys(pool) {
		unknown = append(unknown, u.String())
	}
	if len(unknown) == 0 {
		clearCondition(pool, translate.ConditionRequirementsKnown)
		return
	}
	p.setFalse(pool, translate.ConditionRequirementsKnown, "UnknownRequirementKeys", strings.Join(unknown, "; "))
}

// judgePreflight sets the condition ConditionPreflightPassed.
func (p *poolReconciler) judgePreflight(pool *karpv1.NodePool) {
	found := ""
	if p.o.Preflight != model.Unchecked {
		found = p.o.Cluster.Unaddressed(pool.Name)
	}
	if found == "" {
		clearCondition(pool, ConditionPreflightPassed)
		return
	}
	what := "these stay ContainerCreating (failed to assign an IP address to container); --preflight=enforce launches " +
		"no such node"
	if p.o.Preflight == model.Enforce {
		what = "none is launched, and nodes that have drifted stay until others can take their pods (--preflight=enforce)"
	}
	p.setFalse(pool, ConditionPreflightPassed, "PodsWithoutAddress", found+"; "+what+". Give nodes more "+
		"addresses (ENABLE_PREFIX_DELEGATION of DaemonSet kube-system/aws-node), or lower spec.kubelet.maxPods of the node "+
		"class")
}

// judgePodNetwork sets the condition ConditionPodNetworkReady.
func (p *poolReconciler) judgePodNetwork(pool *karpv1.NodePool) {
	reason, problems := p.o.Cluster.PodNetworkProblems(pool.Name)
	if len(problems) == 0 {
		clearCondition(pool, ConditionPodNetworkReady)
		return
	}
	p.setFalse(pool, ConditionPodNetworkReady, reason, "pods of its nodes get no addresses, and none is "+
		"launched there: "+strings.Join(problems, ". "))
}

// judgeWarmTargets sets the condition ConditionWarmTargetsKept.
func (p *poolReconciler) judgeWarmTargets(pool *karpv1.NodePool) {
	if text := p.o.Cluster.UnkeptTarget(pool.Name); text != "" {
		p.setFalse(pool, ConditionWarmTargetsKept, "WarmTargetTooHigh", text)
		return
	}
	clearCondition(pool, ConditionWarmTargetsKept)
}

// judgeLaunches writes on a pool whether its last launch failed: see translate.ConditionLaunchSucceeded.
func (p *poolReconciler) judgeLaunches(pool *karpv1.NodePool) {
	f, failed := p.o.Cluster.LaunchFailure(pool.Name)
	if !failed {
		clearCondition(pool, translate.ConditionLaunchSucceeded)
		return
	}
	translate.SetLaunchFailure(pool, f.Reason, f.Message, f.Until)
}
