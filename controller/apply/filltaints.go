package apply

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// fillTaint begins the keys of the taints by which earlier versions had kube-scheduler fill some nodes after others.
const fillTaint = "nodeless.sh/filled-later-"

// RemoveFillTaints takes those taints off Nodes, and reports whether none is left.
func (a *Applier) RemoveFillTaints(ctx context.Context, s *model.Snapshot) bool {
	var group errgroup.Group
	group.SetLimit(a.o.Parallel)
	for i := range s.Nodes {
		node := a.o.State.Node(s.Nodes[i].Name)
		if node == nil || !slices.ContainsFunc(node.Spec.Taints, isFillTaint) {
			continue
		}
		group.Go(func() error {
			changed := node.DeepCopy()
			changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isFillTaint)
			err := a.o.Client.Patch(ctx, changed, locked(node))
			if err == nil {
				a.o.State.Update(changed)
			}
			return err
		})
	}
	return group.Wait() == nil
}

func isFillTaint(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectPreferNoSchedule && strings.HasPrefix(t.Key, fillTaint)
}
