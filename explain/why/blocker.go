package why

import (
	"fmt"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// blocker is a reason to keep a machine in words, with when it clears.
func (q *question) blocker(n *model.Node, r *model.Reason) Blocker {
	b := Blocker{Rule: r.Rule, Text: reason.Undone(*r), Group: r.Group}
	at := func(t time.Time) {
		if !t.IsZero() {
			t = t.Add(time.Second - time.Nanosecond).Truncate(time.Second).UTC() // not before it is so
			b.At = &t
			b.Clears = "at " + stamp(t)
		}
	}
	at(r.Until)
	switch r.Rule {
	case model.RuleDoNotDisrupt:
		b.Clears = fmt.Sprintf("when annotation %s is removed, or the pod ends", karpv1.DoNotDisruptAnnotationKey)
		if n.DoNotDisrupt {
			b.Clears = fmt.Sprintf("when annotation %s is removed from the node", karpv1.DoNotDisruptAnnotationKey)
		} else if until := q.heldUntil(n, r.Object); until.Before(translate.Forever) {
			at(until)
		}
	case model.RuleHeld:
		b.Clears = "when more of its pods are ready, or the PodDisruptionBudget changes"
	case model.RuleBudget:
		q.budget(n, r, &b)
	case model.RuleTooYoung:
		b.Clears += ", if no pod comes or goes before"
		if left, err := time.ParseDuration(r.Detail); err == nil {
			b.Text = fmt.Sprintf("consolidateAfter of pool %s is over in %s", r.Object, age(left))
		}
	case model.RuleNever, model.RuleWhenEmpty, model.RuleBalanced, model.RuleSmallSaving, model.RuleUnclear:
		b.Clears = "when NodePool " + n.Pool + " says otherwise"
		if r.Rule == model.RuleSmallSaving && r.BestOf != "" {
			b.Clears = "when fewer pods come and go"
		}
	case model.RuleSpotToSpot:
		b.Clears = "when the feature gate SpotToSpotConsolidation is on"
		if r.Detail != "" {
			b.Clears = "when more types cost less"
		}
	case model.RuleJob:
		b.Clears = "when that pod has ended"
	case model.RuleStatic:
		b.Clears = "when spec.replicas of NodePool " + r.Object + " is less"
	case model.RuleNoHelp:
		b.Clears = "when the pool may launch larger types, or the DaemonSet requests less"
	case model.RulePoolNotReady:
		b.Clears = "when the pool is ready"
	case model.RuleLimit:
		b.Clears = "when limit nodes of NodePool " + r.Object + " is raised"
	case model.RuleCapacity:
		b.Clears = "when the cloud has capacity again"
	case model.RuleNoPrice:
		b.Clears = "when the price of its type is known"
	case model.RuleNeeded:
		if r.Until.IsZero() {
			b.Clears = "when these pods are bound"
		}
	case model.RuleNotCheaper, model.RuleMoreMachines, model.RuleNoPlace, model.RuleFragile:
		b.Clears = fmt.Sprintf("when pods, nodes or prices change; the controller looks at each change, and at least every %s", age(cycle.LookAgain))
	}
	return b
}

// budget says which budget keeps a machine, how much of it is used up and by whom.
func (q *question) budget(n *model.Node, r *model.Reason, b *Blocker) {
	b.Clears = "when the budget allows more"
	np := q.c.World.NodePool(n.Pool)
	if np == nil {
		return
	}
	machines, going := q.c.World.Budgeted(n.Pool)
	if name, most := translate.Strictest(np, disruptionReason(n), q.s.Now, machines); name != "" {
		named := fmt.Sprintf("%s of NodePool %s lets %d of its %s be removed at a time", name, n.Pool, most, counted(machines, "node"))
		if going > 0 {
			named += fmt.Sprintf(", and %d are being removed", going)
			b.Clears = "when fewer are being removed, or the budget allows more"
		}
		if len(r.Group) == 0 {
			b.Text = named
		} else {
			b.Text = reason.Group(r.Group) + ", but " + named
			b.Clears = "when other nodes have been replaced: they come first; or the budget allows more"
		}
	}
	if next := translate.NextWindow(np, q.s.Now); !next.IsZero() {
		b.Clears += "; a schedule of the pool begins or ends at " + stamp(next)
	}
}

// disruptionReason is for which reason a machine would be removed.
func disruptionReason(n *model.Node) karpv1.DisruptionReason {
	switch {
	case n.Drifted != "":
		return karpv1.DisruptionReasonDrifted
	case slices.ContainsFunc(n.Pods, func(p model.BoundPod) bool { return !p.Daemon && !p.Terminal }):
		return karpv1.DisruptionReasonUnderutilized
	}
	return karpv1.DisruptionReasonEmpty
}

// heldUntil is until when a pod that is named as Reasons do must not be disrupted.
func (q *question) heldUntil(n *model.Node, named string) time.Time {
	for _, pod := range q.c.World.PodsOnNode(n.Name) {
		if "pod "+pod.Namespace+"/"+pod.Name == named {
			return translate.ReadPod(pod).HeldUntil
		}
	}
	return translate.Forever
}
