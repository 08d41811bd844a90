package model

import (
	"cmp"
	"slices"
)

// Moves reports whether the pod needs another node when its node is removed: it occupies the node, and can be
// evicted.
func (p *BoundPod) Moves() bool { return p.Occupies() && !p.Protected() }

// Occupies reports whether the pod keeps its node from being empty (Karpenter: the pod is reschedulable).
func (p *BoundPod) Occupies() bool { return !p.Daemon && !p.Terminal && (!p.Terminating || p.Returns) }

// Protected reports whether the pod must not be evicted now, whether or not a DaemonSet owns it.
func (p *BoundPod) Protected() bool {
	return !p.Terminal && !p.Terminating && (p.DoNotDisrupt || p.EvictionBlocked != "")
}

// Draining returns the cluster as it is when the named nodes are being drained: they are Deleting, and their pods
// that move are Pending, with From set. The result shares with s whatever does not change.
func (s *Snapshot) Draining(names map[string]bool) *Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	var moving []Pod
	for i := range out.Nodes {
		if n := &out.Nodes[i]; names[n.Name] {
			moving = n.Drain(s.Shapes, moving)
		}
	}
	if len(moving) == 0 {
		return &out
	}
	out.Pending = slices.Concat(s.Pending, moving)
	SortPending(out.Pending)
	return &out
}

// WithExpected returns the cluster with the expected pods already pending, but for those of which only a template is
// known.
func (s *Snapshot) WithExpected() *Snapshot {
	if len(s.Expected) == 0 {
		return s
	}
	out := *s
	out.Pending, out.Expected = slices.Grow(slices.Clone(s.Pending), len(s.Expected)), nil
	for _, p := range s.Expected {
		if !p.FromTemplate {
			out.Pending = append(out.Pending, p)
		}
	}
	SortPending(out.Pending)
	return &out
}

// SortPending sorts pods into the order of Snapshot.Pending.
func SortPending(pods []Pod) {
	slices.SortStableFunc(pods, func(a, b Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Drain marks the node as Deleting and moves its pods that need another node to the end of moving, which it returns.
func (n *Node) Drain(shapes []Shape, moving []Pod) []Pod {
	n.Deleting = true
	var stay []BoundPod
	for i := range n.Pods {
		p := &n.Pods[i]
		if !p.Moves() {
			stay = append(stay, *p)
			continue
		}
		pod := p.Pod
		pod.From = n.Name
		moving = append(moving, pod)
		if p.Shape >= 0 && p.Shape < len(shapes) {
			n.Used = n.Used.Minus(shapes[p.Shape].Requests)
		}
	}
	n.Pods = stay
	return moving
}
