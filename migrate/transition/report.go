package transition

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/migrate/fromaws"
)

// Report says where the pods of a cluster run.
type Report struct {
	State  *State
	Groups []Place // those of State
	Pools  []Place // all NodePools with nodes
}

// Place is a group or a pool, with its nodes and the number of their pods, not counting those of DaemonSets.
type Place struct {
	Name  string
	Nodes []*corev1.Node
	Pods  int
}

// Report describes the cluster as it is now. Before a migration has begun, the groups are those that it would record.
func (t *Transition) Report(ctx context.Context) (*Report, error) {
	s, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.discover(ctx, s); err != nil {
		return nil, err
	}
	nodes, err := t.kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := t.podsByNode(ctx)
	if err != nil {
		return nil, err
	}
	groupOf, err := t.groups.members(ctx, s.Groups)
	if err != nil {
		return nil, err
	}
	byGroup, byPool := map[string]*Place{}, map[string]*Place{}
	for _, g := range s.Groups {
		byGroup[g.Name] = &Place{Name: g.Title()}
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		at := byGroup[groupOf[fromaws.InstanceID(n)]]
		if pool := n.Labels[karpv1.NodePoolLabelKey]; pool != "" {
			if at = byPool[pool]; at == nil {
				at = &Place{Name: pool}
				byPool[pool] = at
			}
		}
		if at != nil {
			at.Nodes = append(at.Nodes, n)
			at.Pods += pods[n.Name]
		}
	}
	r := &Report{State: s}
	for _, g := range s.Groups {
		r.Groups = append(r.Groups, *byGroup[g.Name])
	}
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		r.Pools = append(r.Pools, *byPool[name])
	}
	return r, nil
}

// podsByNode counts the pods of each node that a drain would evict.
func (t *Transition) podsByNode(ctx context.Context) (map[string]int, error) {
	list, err := t.kubernetes.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	out := map[string]int{}
	for i := range list.Items {
		p := &list.Items[i]
		owner := metav1.GetControllerOf(p)
		done := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
		if !done && !mirror && (owner == nil || owner.Kind != "DaemonSet") {
			out[p.Spec.NodeName]++
		}
	}
	return out, nil
}
