package why

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
)

// remedy says how to make a change in a manifest and, if the manifest is the pod's, what to do then; "" if the change's
// own text says everything.
func remedy(pod *corev1.Pod, c *model.Change, then string) string {
	where := "spec"
	if of := owner(pod); of != "" {
		where = "spec.template.spec of " + of
	}
	how := inManifest(where, c)
	if then != "" && strings.HasPrefix(how, "in "+where) {
		how += "; " + then
	}
	return how
}

// inManifest says how to make a change; where names the pod's specification.
func inManifest(where string, c *model.Change) string {
	switch c.Rule {
	case model.RuleTaint:
		text, effect, _ := strings.Cut(c.Object, ":")
		key, value, valued := strings.Cut(text, "=")
		if !valued {
			return fmt.Sprintf("in %s: tolerations: [{key: %s, operator: Exists, effect: %s}]", where, key, effect)
		}
		return fmt.Sprintf("in %s: tolerations: [{key: %s, value: %q, effect: %s}]", where, key, value, effect)
	case model.RuleResource:
		return fmt.Sprintf("in %s: resources.requests: {%s: %s} over all containers of the pod", where, c.Object, c.To)
	case model.RuleSpread:
		return fmt.Sprintf("in %s: topologySpreadConstraints: whenUnsatisfiable: %s for %s", where, c.To, c.Object)
	case model.RuleAffinity, model.RuleAntiAffinity:
		return fmt.Sprintf("in %s: move the term on %s from requiredDuringSchedulingIgnoredDuringExecution to "+
			"preferredDuringSchedulingIgnoredDuringExecution", where, c.Object)
	case model.RuleRequirement:
		if key, ofPool := strings.CutPrefix(c.Object, "requirement "); ofPool {
			return fmt.Sprintf("in NodePool %s: let %s in spec.template.spec.requirements allow %s too", c.Pool, key, c.To)
		}
		if c.To == "" {
			return fmt.Sprintf("in %s: remove %s from nodeSelector or nodeAffinity", where, c.Object)
		}
		return fmt.Sprintf("in %s: let nodeSelector or nodeAffinity allow %s: %s", where, c.Object, c.To)
	case model.RuleMinValues:
		return fmt.Sprintf("in NodePool %s: minValues: %s for %s in spec.template.spec.requirements", c.Pool, c.To, c.Object)
	case model.RuleLimit:
		return fmt.Sprintf("in NodePool %s: spec.limits: {%s: %q}", c.Pool, strings.TrimPrefix(c.Object, "limit "), c.To)
	case model.RuleHostPort:
		return fmt.Sprintf("in %s: remove hostPort from ports for %s", where, c.From)
	case model.RulePriority:
		return fmt.Sprintf("in %s: priorityClassName: one of value %s or more (kubectl get priorityclasses)", where, c.To)
	case model.RuleVolumeLimit:
		return fmt.Sprintf("in %s: use at most %s volumes of driver %s; move the rest to other pods", where, c.To, c.Object)
	case model.RuleNoPool:
		return "kubectl apply a NodePool and an EC2NodeClass; docs/how-do-i-run-it-on-my-cluster.md has an example"
	}
	return ""
}

// mayNotRead reports whether a kind exists but may not be read.
func (q *podQuestion) mayNotRead(kind string) bool {
	return slices.ContainsFunc(q.c.Gaps(), func(gap error) bool {
		var lacks *capture.MissingKind
		return errors.As(gap, &lacks) && lacks.Kind == kind && !lacks.NotServed
	})
}
