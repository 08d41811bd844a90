package roll

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/migrate/drain"
)

func isRollTaint(t corev1.Taint) bool { return t.Key == v1alpha1.RollTaint }

// mark taints the nodes that need an update, so that evicted pods prefer others, and removes the taint from the rest.
func (r *Roller) mark(ctx context.Context, g *Group) error {
	for i := range g.Members {
		m := &g.Members[i]
		if m.Node == nil || slices.ContainsFunc(m.Node.Spec.Taints, isRollTaint) == (m.Outdated != "") {
			continue
		}
		err := r.drainer.ChangeNode(ctx, m.Node.Name, func(n *corev1.Node) bool {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isRollTaint)
			if m.Outdated != "" {
				n.Spec.Taints = append(n.Spec.Taints,
					corev1.Taint{Key: v1alpha1.RollTaint, Effect: corev1.TaintEffectPreferNoSchedule})
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Objections returns the pods on the nodes to be replaced that must not or cannot be evicted, each with the reason.
func (r *Roller) Objections(ctx context.Context, g *Group) ([]string, error) {
	budgets, err := r.kubernetes.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	var out []string
	for i := range g.Members {
		m := &g.Members[i]
		if m.Node == nil || m.Outdated == "" && (!r.Force || g.rolling()) {
			continue
		}
		pods, err := r.drainer.Pods(ctx, m.Node.Name)
		if err != nil {
			return nil, err
		}
		for j := range pods {
			p := &pods[j]
			why := drain.Objection(p)
			for k := range budgets.Items {
				if b := &budgets.Items[k]; why == "" && covers(b, p) && never(b) {
					why = "is never to be evicted by its PodDisruptionBudget " + b.Name
				}
			}
			if why != "" {
				out = append(out, fmt.Sprintf("%s/%s %s", p.Namespace, p.Name, why))
			}
		}
	}
	return out, nil
}

// covers reports whether a PodDisruptionBudget selects a pod.
func covers(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && b.Namespace == p.Namespace && selector.Matches(labels.Set(p.Labels))
}

// never reports whether a PodDisruptionBudget requires all of its pods to be healthy, so that waiting does not help.
func never(b *policyv1.PodDisruptionBudget) bool {
	return b.Status.ExpectedPods > 0 && b.Status.DesiredHealthy >= b.Status.ExpectedPods
}

// drain cordons a node, excludes it from load balancers, evicts its pods, and returns their number.
func (r *Roller) drain(ctx context.Context, node string) (int, error) {
	err := r.drainer.ChangeNode(ctx, node, func(n *corev1.Node) bool {
		_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
		done := excluded && n.Spec.Unschedulable
		n.Spec.Unschedulable = true
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[corev1.LabelNodeExcludeBalancers] = ""
		return !done
	})
	if err != nil {
		return 0, err
	}
	pods, err := r.drainer.Pods(ctx, node)
	if err != nil {
		return 0, err
	}
	if err := r.drainer.Evict(ctx, pods, r.DrainTimeout); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, fmt.Errorf("drain node %s: %s", node, r.left(ctx, node, err))
	}
	return len(pods), nil
}

// left returns which pods a failed drain has left on a node, each with what keeps it there.
func (r *Roller) left(ctx context.Context, node string, failed error) string {
	pods, err := r.drainer.Pods(ctx, node)
	if err != nil || len(pods) == 0 {
		return failed.Error()
	}
	var names []string
	for i := range pods[:min(len(pods), 10)] {
		names = append(names, fmt.Sprintf("%s/%s (%s)", pods[i].Namespace, pods[i].Name, r.keptBy(ctx, &pods[i])))
	}
	return fmt.Sprintf("after %s %d pods are left: %s", r.DrainTimeout, len(pods), strings.Join(names, ", "))
}

// keptBy returns what keeps a pod on its node.
func (r *Roller) keptBy(ctx context.Context, p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "is terminating"
	}
	budgets, err := r.kubernetes.PolicyV1().PodDisruptionBudgets(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Sprintf("its PodDisruptionBudget cannot be read: %v", err)
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		if covers(b, p) && b.Status.DisruptionsAllowed == 0 {
			return "PodDisruptionBudget " + b.Name + " allows no eviction"
		}
	}
	return "not evicted yet"
}

// critical names a critical pod that is not ready; "" if all are ready. Of the pods that have a node, only those on
// the given nodes count, as in kops: a broken node elsewhere does not stop a roll.
func critical(pods []corev1.Pod, on map[string]bool) string {
	for i := range pods {
		p := &pods[i]
		class := p.Spec.PriorityClassName
		if class != "system-cluster-critical" && class != "system-node-critical" || p.DeletionTimestamp != nil ||
			p.Status.Phase == corev1.PodSucceeded || p.Spec.NodeName != "" && !on[p.Spec.NodeName] {
			continue
		}
		if !conditions.PodReady(p) {
			return fmt.Sprintf("pod %s/%s (%s) is not ready", p.Namespace, p.Name, class)
		}
	}
	return ""
}
