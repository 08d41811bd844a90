package model

import (
	"cmp"
	"slices"
)

// Moves reports whether the pod has to find another place when its machine goes. The others go with the machine, are going
// already, or cannot be told to go now: nobody knows when these will need a place.
func (p *BoundPod) Moves() bool {
	return !p.Daemon && !p.Terminal && !p.Terminating && !p.Protected()
}

// Protected reports whether the pod must not be evicted now, be it a daemon's or not.
func (p *BoundPod) Protected() bool {
	return !p.Terminal && !p.Terminating && (p.DoNotDisrupt || p.EvictionBlocked != "")
}

// Leaving is the cluster in which these machines, by Name, are going: they are Deleting, and their pods that move are Pending,
// From there. What does not change is shared with s.
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

// Joined is the cluster in which the successors that are expected wait already.
func (s *Snapshot) WithExpected() *Snapshot {
	if len(s.Expected) == 0 {
		return s
	}
	out := *s
	out.Pending, out.Expected = slices.Concat(s.Pending, s.Expected), nil
	SortPending(out.Pending)
	return &out
}

// SortPending puts pods into the order of Snapshot.Pending.
func SortPending(pods []Pod) {
	slices.SortStableFunc(pods, func(a, b Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Leave makes the node one that goes, and adds its pods that move to the list.
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
