package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/wire"
)

// restartRules translates a container's rules. Rules of other kinds are skipped, as by a kubelet.
func restartRules(c *corev1.Container) (out []wire.RestartRule) {
	for _, r := range c.RestartPolicyRules {
		if r.ExitCodes == nil {
			continue
		}
		rule := wire.RestartRule{
			Except: r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpNotIn,
			All:    r.Action == corev1.ContainerRestartRuleActionRestartAllContainers,
		}
		for _, code := range r.ExitCodes.Values {
			rule.Codes = append(rule.Codes, int(code))
		}
		out = append(out, rule)
	}
	return out
}

// isRestarting returns the kubelet's condition of a pod whose rules may restart all containers (pkg/kubelet/status,
// Kubernetes 1.36). over is the reason of a pod that has ended.
func isRestarting(a Account, over string) corev1.PodCondition {
	out := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse, Reason: over}
	if slices.ContainsFunc(a.Pod.Containers, func(c wire.ContainerStatus) bool {
		return c.State == wire.Waiting && c.Reason == wire.RestartingAll
	}) {
		out.Status, out.Reason = corev1.ConditionTrue, "RestartAllContainersStarted"
		out.Message = "container exited with restart policy rule"
	}
	return out
}
