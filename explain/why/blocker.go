package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// blocker describes a reason to keep a node, and when it clears.
func (q *nodeQuestion) blocker(r *model.Reason) Blocker {
	b := Blocker{Rule: r.Rule, Text: reason.Undone(*r), Group: r.Group}
	q.clearsAt(&b, r.Until)
	switch r.Rule {
	case model.RuleDoNotDisrupt:
		by := q.heldBy(r.Object)
		b.Text = strings.ReplaceAll(b.Text, karpv1.DoNotDisruptAnnotationKey, by)
		b.Clears = fmt.Sprintf("when annotation %s is removed or the pod ends", by)
		if q.n.DoNotDisrupt {
			b.Clears = fmt.Sprintf("when annotation %s is removed from the node", by)
		} else if until := q.heldUntil(r.Object); until.Before(translate.Forever) {
			q.clearsAt(&b, until)
		}
	case model.RuleBudget:
		q.budget(r, &b)
	case model.RuleTooYoung:
		b.Clears += " unless pods are added or removed before"
		if left, err := time.ParseDuration(r.Detail); err == nil {
			b.Text = fmt.Sprintf("consolidateAfter of pool %s passes in %s", r.Object, duration.HumanDuration(left))
		}
	default:
		b.Clears = cmp.Or(q.clears(r), b.Clears)
	}
	return b
}

// clearsAt sets when a blocker clears, rounded up to the second.
func (q *nodeQuestion) clearsAt(b *Blocker, t time.Time) {
	if !t.IsZero() {
		t = t.Add(time.Second - time.Nanosecond).Truncate(time.Second).UTC()
		b.At, b.Clears = &t, "at "+stamp(t)
	}
}

// clears says what must happen for a blocker to clear; "" if only time must pass.
func (q *nodeQuestion) clears(r *model.Reason) string {
	switch r.Rule {
	case model.RuleNever, model.RuleWhenEmpty, model.RuleBalanced, model.RuleSmallSaving, model.RuleUnclear:
		return "when NodePool " + q.n.Pool + " is changed"
	case model.RuleSpotToSpot:
		if r.Detail != "" {
			return "when more types cost less"
		}
	case model.RuleStatic:
		return "when spec.replicas of NodePool " + r.Object + " is lowered"
	case model.RuleMinNodes:
		return "when the minimum of its Auto Scaling group is lowered, or the pool has more nodes"
	case model.RuleLimit:
		return "when limit nodes of NodePool " + r.Object + " is raised"
	case model.RuleNeeded:
		if !r.Until.IsZero() {
			return ""
		}
	case model.RuleNotCheaper, model.RuleNoPlace, model.RuleFragile:
		return fmt.Sprintf("when pods, nodes or prices change; re-evaluated on every change and at least every %s",
			duration.HumanDuration(cycle.LookAgain))
	}
	return clears[r.Rule]
}

// clears says what must happen for the blockers of a rule to clear.
var clears = map[model.Rule]string{
	model.RuleEvictionBlocked: "when more of its pods are ready or the PodDisruptionBudget changes",
	model.RuleSpotToSpot:      "when feature gate SpotToSpotConsolidation is on",
	model.RuleJob:             "when that pod has ended",
	model.RuleNoHelp:          "when the pool allows only larger types or the DaemonSet requests less",
	model.RulePoolNotReady:    "when the pool is ready",
	model.RuleCapacity:        "when the cloud has capacity again",
	model.RuleNoPrice:         "when the price of its type is known",
	model.RuleNeeded:          "when these pods are bound",
	model.RulePreflight:       "when that is over",
}

// budget says which budget keeps a node, and how much of it is used.
func (q *nodeQuestion) budget(r *model.Reason, b *Blocker) {
	n := q.n
	b.Clears = "when the budget allows more"
	np := q.c.State.NodePool(n.Pool)
	if np == nil {
		return
	}
	nodes, removing := q.c.State.Budgeted(n.Pool)
	if name, most := translate.Strictest(np, q.disruptionReason(r), q.s.Now, nodes); name != "" {
		named := fmt.Sprintf("%s of NodePool %s allows %d of its %s to be removed at a time", name, n.Pool, most,
			reason.Count(nodes, "node"))
		if removing > 0 {
			named += fmt.Sprintf(", and %d are being removed or not ready", removing)
			b.Clears = "when fewer are being removed or not ready, or the budget allows more"
		}
		if len(r.Group) == 0 {
			b.Text = named
		} else {
			b.Text = reason.Group(r.Group) + ", but " + named
			b.Clears = "when the other nodes, which come first, have been replaced, or the budget allows more"
		}
	}
	if next := translate.NextWindow(np, q.s.Now); !next.IsZero() {
		b.Clears += "; a budget schedule starts or ends at " + stamp(next)
	}
}

// disruptionReason returns the reason for which the node that a budget keeps would be removed: with a group of nodes to
// save money, or alone.
func (q *nodeQuestion) disruptionReason(r *model.Reason) karpv1.DisruptionReason {
	n := q.n
	switch {
	case len(r.Group) == 0 && q.countsAsDrifted():
		return karpv1.DisruptionReasonDrifted
	case slices.ContainsFunc(n.Pods, func(p model.BoundPod) bool { return !p.Daemon && !p.Terminal }):
		return karpv1.DisruptionReasonUnderutilized
	}
	return karpv1.DisruptionReasonEmpty
}

// countsAsDrifted reports whether the node is replaced within the budgets for drift.
func (q *nodeQuestion) countsAsDrifted() bool {
	pool := q.s.Pool(q.n.Pool)
	if pool == nil {
		return q.n.Drifted != ""
	}
	how, _ := engine.Cause(q.s, &pool.Disruption, q.n)
	return how != ""
}

// heldUntil returns the time until which a pod, named as in reasons, must not be disrupted.
func (q *nodeQuestion) heldUntil(named string) time.Time {
	if pod := q.podNamed(named); pod != nil {
		return translate.ReadPod(pod).HeldUntil
	}
	return translate.Forever
}

// heldBy returns the annotation that protects a pod, named as in reasons, or the node itself from disruption.
func (q *nodeQuestion) heldBy(named string) string {
	by := ""
	if pod := q.podNamed(named); pod != nil {
		by = translate.HeldBy(pod)
	} else if node := q.c.State.Node(q.n.Name); node != nil {
		by = translate.NodeHeldBy(node)
	}
	return cmp.Or(by, karpv1.DoNotDisruptAnnotationKey) // of the NodeClaim
}

// podNamed returns a pod of the node by its name in reasons, or nil.
func (q *nodeQuestion) podNamed(named string) *corev1.Pod {
	for _, pod := range q.c.State.PodsOnNode(q.n.Name) {
		if "pod "+pod.Namespace+"/"+pod.Name == named {
			return pod
		}
	}
	return nil
}
