package transition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/migrate/drain"
	"github.com/nodeless/nodeless/migrate/fromaws"
)

// groupNodes returns the nodes of the groups, by name: those whose instances the groups have.
func (t *Transition) groupNodes(ctx context.Context, s *State) ([]corev1.Node, error) {
	ours, err := t.groups.members(ctx, s.Groups)
	if err != nil {
		return nil, err
	}
	list, err := t.kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return ours[fromaws.InstanceID(&n)] == "" })
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// nodesMissing says which nodes of the groups are not there yet; "" if all are.
func (t *Transition) nodesMissing(ctx context.Context, s *State) (string, error) {
	nodes, err := t.groupNodes(ctx, s)
	if err != nil {
		return "", err
	}
	want, ready := 0, 0
	for _, g := range s.Groups {
		want += int(g.Desired)
	}
	for i := range nodes {
		if slices.ContainsFunc(nodes[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			ready++
		}
	}
	if ready >= want {
		return "", nil
	}
	return fmt.Sprintf("%d of %d are ready", ready, want), nil
}

func isOurTaint(taint corev1.Taint) bool { return taint.Key == v1alpha1.MigrationTaint }

// taint keeps new pods off nodes. With v1alpha1.MigrationDrain as value, Nodeless launches nodes for those that are
// there.
func (t *Transition) taint(ctx context.Context, nodes []corev1.Node, value string) error {
	want := corev1.Taint{Key: v1alpha1.MigrationTaint, Value: value, Effect: corev1.TaintEffectNoSchedule}
	// All at once, so that the nodes for their pods are chosen together.
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(50)
	for i := range nodes {
		work.Go(func() error {
			return t.drainer().ChangeNode(ctx, nodes[i].Name, func(n *corev1.Node) bool {
				if slices.Contains(n.Spec.Taints, want) {
					return false
				}
				n.Spec.Taints = append(slices.DeleteFunc(n.Spec.Taints, isOurTaint), want)
				return true
			})
		})
	}
	return work.Wait()
}

// untaint lets pods onto a node again.
func (t *Transition) untaint(ctx context.Context, n *corev1.Node) error {
	return t.drainer().ChangeNode(ctx, n.Name, func(n *corev1.Node) bool {
		before := len(n.Spec.Taints)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isOurTaint)
		return len(n.Spec.Taints) != before
	})
}

// drainer drains the cluster's nodes.
func (t *Transition) drainer() drain.Drainer { return drain.Drainer{Client: t.kubernetes, Say: t.Say} }

// checkPods counts the pods that a drain moves, and reports those that must not be evicted or that nothing would create
// again.
func (t *Transition) checkPods(ctx context.Context, nodes []corev1.Node) (n int, err error) {
	var bad []string
	for i := range nodes {
		pods, err := t.drainer().Pods(ctx, nodes[i].Name)
		if err != nil {
			return 0, err
		}
		n += len(pods)
		for j := range pods {
			p := &pods[j]
			if why := drain.Objection(p); why != "" {
				bad = append(bad, fmt.Sprintf("%s/%s %s", p.Namespace, p.Name, why))
			}
		}
	}
	if len(bad) == 0 || t.Force {
		return n, nil
	}
	more := ""
	if len(bad) > 10 {
		more = fmt.Sprintf(" and %d more", len(bad)-10)
		bad = bad[:10]
	}
	return n, fmt.Errorf("pods are in the way: %s%s; wait until they end, delete them, or evict them too with --force",
		strings.Join(bad, "; "), more)
}

// drain evicts the pods of a node, as fast as their budgets allow, waits until the pods that take their place are
// scheduled, and returns how many it evicted.
func (t *Transition) drain(ctx context.Context, n *corev1.Node) (int, error) {
	begun := t.now()
	pods, err := t.drainer().Pods(ctx, n.Name)
	if err != nil || len(pods) == 0 {
		return 0, err
	}
	if err := t.drainer().Evict(ctx, pods, 0); err != nil {
		return 0, fmt.Errorf("drain node %s: %w", n.Name, err)
	}
	return len(pods), t.settled(ctx, begun)
}

// now returns the time as the API server writes creation times, without fractions.
func (t *Transition) now() metav1.Time { return metav1.NewTime(t.Clock.Now().Truncate(time.Second)) }

// settled waits until the pods that were created since a time are scheduled.
func (t *Transition) settled(ctx context.Context, since metav1.Time) error {
	return t.poll(ctx, "evicted pods' successors", func() (string, error) {
		list, err := t.kubernetes.CoreV1().Pods("").List(ctx, metav1.ListOptions{
			FieldSelector: "status.phase=Pending,spec.nodeName=",
		})
		if err != nil {
			return "", fmt.Errorf("list pods: %w", err)
		}
		var waiting []string
		for i := range list.Items {
			p := &list.Items[i]
			if !p.CreationTimestamp.Before(&since) && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 {
				waiting = append(waiting, p.Namespace+"/"+p.Name)
			}
		}
		if len(waiting) == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d have no node yet, such as %s (nodeless why pod says why)", len(waiting), waiting[0]), nil
	})
}
