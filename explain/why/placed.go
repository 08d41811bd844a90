package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// placed answers about a pod that has a node.
func (q *podQuestion) placed(ctx context.Context) {
	info := &q.info
	state := string(q.pod.Status.Phase)
	if info.Deleting {
		state = "Terminating"
	}
	q.a.Node = info.Node
	n := q.nodeNamed(info.Node)
	if n == nil {
		gone := "does not exist"
		if q.existed(ctx, info.Node) {
			gone = "no longer exists"
		}
		q.conclude(state, Placed, "it is bound to node %s, which %s", info.Node, gone)
		return
	}
	switch {
	case info.Daemon():
		q.conclude(state, Placed, "it runs on %s and is removed with it", nodeText(n))
	case info.Apart:
		q.conclude(state, Placed, "it is bound to %s, a node of its own", nodeText(n))
	default:
		q.conclude(state, Placed, "it is bound to %s", nodeText(n))
	}
	claim := q.c.State.Claim(n.Claim)
	q.say("scheduling", q.scheduled(claim, n))
	if s := q.shapeOf(n, info.Key); s != nil {
		q.requests(s)
	}
	q.cost(n, claim)
	q.evictable(n)
}

// existed reports whether decisions or events mention a node of that name.
func (q *podQuestion) existed(ctx context.Context, node string) bool {
	of := Subject{Kind: NodeKind, Name: node}
	if h, err := q.past.read(ctx, of); err == nil && len(h.about) > 0 {
		return true
	}
	events, err := q.past.events(ctx, of)
	return err == nil && len(events) > 0
}

// nodeNamed returns a node by name, or nil.
func (q *question) nodeNamed(name string) *model.Node {
	if i := slices.IndexFunc(q.s.Nodes, func(n model.Node) bool { return n.Name == name }); i >= 0 {
		return &q.s.Nodes[i]
	}
	return nil
}

// nodeOfClaim returns the node of a claim, or nil.
func (q *question) nodeOfClaim(claim string) *model.Node {
	if i := slices.IndexFunc(q.s.Nodes, func(n model.Node) bool { return n.Claim == claim }); i >= 0 {
		return &q.s.Nodes[i]
	}
	return nil
}

// boundAt returns when the pod was bound, zero if unknown.
func boundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// scheduled says how the pod got its node.
func (q *podQuestion) scheduled(claim *karpv1.NodeClaim, n *model.Node) string {
	info, bound := &q.info, boundAt(q.pod)
	waited := ""
	if !bound.IsZero() && !bound.Before(info.Created) {
		waited = fmt.Sprintf(", %s after it was created", duration.HumanDuration(bound.Sub(info.Created)))
	}
	switch {
	case info.Daemon():
		return "its DaemonSet runs a pod on every node that fits" + waited
	case info.Apart:
		return fargate.SchedulerName + " gave it a node of its own and bound it there" + waited
	case claim == nil:
		return "kube-scheduler bound it" + waited + "; Nodeless does not manage the node"
	}
	launched := claim.CreationTimestamp.Time
	if c, replaces, err := translate.ReplacingOf(claim); replaces && err == nil && !launched.Before(info.Created) {
		return fmt.Sprintf("kube-scheduler bound it%s; the node was launched as the replacement of %s (%s)", waited,
			reason.Some(victims(c), 3), c.Method)
	}
	if launched.Before(info.Created.Add(-time.Second)) {
		return fmt.Sprintf("kube-scheduler bound it to a node that was %s old%s",
			duration.HumanDuration(info.Created.Sub(launched)), waited)
	}
	ready := ""
	if !n.Initialized.Before(launched) {
		ready = fmt.Sprintf("; it was ready %s after that", duration.HumanDuration(n.Initialized.Sub(launched)))
	}
	return fmt.Sprintf("the node was launched for pods that were pending then%s; kube-scheduler bound this one%s",
		ready, waited)
}

func victims(c translate.Command) []string {
	var out []string
	for _, v := range c.Victims {
		out = append(out, v.Claim)
	}
	return out
}

// shapeOf returns the shape of a pod on a node, nil if unknown.
func (q *podQuestion) shapeOf(n *model.Node, key model.PodKey) *model.Shape {
	for i := range n.Pods {
		if p := &n.Pods[i]; p.PodKey == key && p.Shape >= 0 && p.Shape < len(q.s.Shapes) {
			return &q.s.Shapes[p.Shape]
		}
	}
	return nil
}

// cost says what a node costs, and which types its claim also allowed, at current prices.
func (q *podQuestion) cost(n *model.Node, claim *karpv1.NodeClaim) {
	if n.Price > 0 {
		text := reason.Dollars(n.Price)
		if n.Pool != "" {
			text += ", pool " + n.Pool
		}
		q.say("node costs", text)
	}
	if claim == nil {
		return
	}
	l := &model.Launch{Pool: n.Pool}
	var err error
	if l.Requirements, err = translate.Requirements(claim.Spec.Requirements); err != nil {
		return
	}
	types, ok := l.Requirements.Get(model.LabelInstanceType)
	if !ok || types.Complement {
		return
	}
	l.Types = types.Values
	var parts []string
	for _, c := range model.Alternatives(q.s, l, maxAlternatives) {
		parts = append(parts, c.Type+" "+reason.Dollars(c.Price))
	}
	if len(parts) > 0 {
		q.sayf("why this type", "its NodeClaim allowed %s; the cheapest at today's prices: %s",
			reason.Count(len(l.Types), "type"), strings.Join(parts, ", "))
	}
}

// evictable says whether the pod may be evicted.
func (q *podQuestion) evictable(n *model.Node) {
	info := &q.info
	switch {
	case info.Daemon():
		return
	case info.Apart:
		q.say("evictable", "no: its node runs no other pod and is removed when the pod ends or is deleted")
		return
	case n.Claim == "" || q.onForeign(n):
		q.say("evictable", "no: Nodeless does not manage its node")
		return
	case info.HeldUntil.Equal(translate.Forever):
		q.sayf("evictable", "no: annotation %s forbids it", translate.HeldBy(q.pod))
		return
	case info.HeldUntil.After(q.s.Now):
		q.sayf("evictable", "not before %s: annotation %s forbids it", stamp(info.HeldUntil),
			karpv1.DoNotDisruptAnnotationKey)
		return
	}
	for i := range n.Pods {
		if p := &n.Pods[i]; p.PodKey == info.Key && p.EvictionBlocked != "" {
			q.sayf("evictable", "not now: %s", p.EvictionBlocked)
			return
		}
	}
	q.sayf("evictable", "yes, if that saves money; see node/%s", n.Name)
}

// stamp formats a time, in UTC.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
