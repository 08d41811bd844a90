package transition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/migrate/drain"
	"github.com/nodeless/nodeless/migrate/fromaws"
)

// groupNodes returns the nodes whose instances belong to the groups, by name.
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

// nodesMissing says how much of the groups' sizes has Ready nodes; "" if all has.
func (t *Transition) nodesMissing(ctx context.Context, s *State) (string, error) {
	found, err := t.groups.named(ctx, s.Groups)
	if err != nil {
		return "", err
	}
	nodes, err := t.kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	ready := map[string]bool{} // instances
	for i := range nodes.Items {
		ready[fromaws.InstanceID(&nodes.Items[i])] = conditions.NodeReady(&nodes.Items[i])
	}
	want, have := 0, 0
	for i := range s.Groups {
		at := slices.IndexFunc(found, func(a scalingtypes.AutoScalingGroup) bool {
			return aws.ToString(a.AutoScalingGroupName) == s.Groups[i].Name
		})
		if at < 0 {
			want += int(s.Groups[i].Desired)
			continue
		}
		want += s.Groups[i].size(&found[at])
		for j := range found[at].Instances {
			if in := &found[at].Instances[j]; ready[aws.ToString(in.InstanceId)] {
				have += units(&found[at], in)
			}
		}
	}
	if have >= want {
		return "", nil
	}
	return fmt.Sprintf("%d of %d are ready", have, want), nil
}

func isOurTaint(taint corev1.Taint) bool { return taint.Key == v1alpha1.MigrationTaint }

// taint keeps new pods off nodes, and reports whether that changed any node. With the value v1alpha1.MigrationDrain,
// Nodeless launches nodes for the pods already there.
func (t *Transition) taint(ctx context.Context, nodes []corev1.Node, value string) (changed bool, err error) {
	want := corev1.Taint{Key: v1alpha1.MigrationTaint, Value: value, Effect: corev1.TaintEffectNoSchedule}
	// Taint all at once, so that the nodes for their pods are chosen together.
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(50)
	var updated atomic.Bool
	for i := range nodes {
		work.Go(func() error {
			return t.drainer().ChangeNode(ctx, nodes[i].Name, func(n *corev1.Node) bool {
				if slices.Contains(n.Spec.Taints, want) {
					return false
				}
				n.Spec.Taints = append(slices.DeleteFunc(n.Spec.Taints, isOurTaint), want)
				updated.Store(true)
				return true
			})
		})
	}
	err = work.Wait()
	return updated.Load(), err
}

// untaint lets pods onto a node again.
func (t *Transition) untaint(ctx context.Context, n *corev1.Node) error {
	return t.drainer().ChangeNode(ctx, n.Name, func(n *corev1.Node) bool {
		before := len(n.Spec.Taints)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isOurTaint)
		return len(n.Spec.Taints) != before
	})
}

// drainer returns a Drainer of the cluster's nodes.
func (t *Transition) drainer() drain.Drainer { return drain.Drainer{Client: t.kubernetes, Say: t.Say} }

// checkPods counts the pods that a drain evicts. Unless Force is set, it returns an error for those that must not be
// evicted or that nothing would create again.
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
	return n, fmt.Errorf("pods are in the way: %s; wait until they end, delete them, or evict them too with --force",
		few(bad))
}

// drain evicts the pods of a node as fast as their budgets allow, waits until their replacements are scheduled, and
// returns how many it evicted.
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

// now returns the time in whole seconds, as the API server writes creation times.
func (t *Transition) now() metav1.Time { return metav1.NewTime(t.Clock.Now().Truncate(time.Second)) }

// settled waits until all pods created since a time are scheduled.
func (t *Transition) settled(ctx context.Context, since metav1.Time) error {
	return t.poll(ctx, "replacements of the evicted pods", func() (string, error) {
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
