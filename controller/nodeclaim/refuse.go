package nodeclaim

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// settle is how long after a Node began to refuse pods its machine is not ended yet: a scheduler that has not heard of it
// may still bind some.
const settle = time.Second

// refusal is how a Node keeps pods away.
type refusal struct {
	since time.Time
	told  bool // that its pods will be deleted at some time
}

// refusePods keeps new pods and load balancers away.
func (l *Lifecycle) refusePods(ctx context.Context, node *corev1.Node) error {
	before := node.DeepCopy()
	if !hasTaint(node, karpv1.DisruptedNoScheduleTaint) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
		node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[excludeLabel] = excludeValue
	if err := l.writeNode(ctx, before, node); err != nil {
		return err
	}
	l.noteRefusal(node)
	return nil
}

// noteRefusal notes since when a Node refuses pods, or that it does not.
func (l *Lifecycle) noteRefusal(node *corev1.Node) {
	refuses := hasTaint(node, karpv1.DisruptedNoScheduleTaint)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.refusals[node.Name]
	switch {
	case refuses && !known:
		l.refusals[node.Name] = refusal{since: l.now()}
	case !refuses:
		delete(l.refusals, node.Name)
	}
}

// unsettled is how long a machine must still be there for pods that may be on their way to it.
func (l *Lifecycle) unsettled(node string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.refusals[node]; !known { // an older state of the Node was seen meanwhile
		l.refusals[node] = refusal{since: l.now()}
	}
	return l.refusals[node].since.Add(settle).Sub(l.now())
}

// tellGrace says once on a Node when its pods will be gone at the latest.
func (l *Lifecycle) tellGrace(node *corev1.Node, end time.Time) {
	l.mu.Lock()
	r := l.refusals[node.Name]
	tell := !end.IsZero() && !r.told
	if tell {
		r.told = true
		l.refusals[node.Name] = r
	}
	l.mu.Unlock()
	if tell {
		l.o.Recorder.Event(node, corev1.EventTypeWarning, graceExpiring, "All pods will be deleted by "+end.Format(time.RFC3339))
	}
}
