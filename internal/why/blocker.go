package why

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/explain"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kube"
)

// blocker is a reason to keep a machine in words, with when it clears.
func (q *question) blocker(n *model.Node, r *model.Reason) Blocker {
	b := Blocker{Rule: r.Rule, Text: explain.Undone(*r)}
	at := func(t time.Time) {
		if !t.IsZero() {
			t = t.UTC()
			b.At = &t
			b.Clears = "at " + stamp(t)
		}
	}
	switch r.Rule {
	case model.RuleDoNotDisrupt:
		b.Clears = fmt.Sprintf("when annotation %s is taken away, or the pod ends", karpv1.DoNotDisruptAnnotationKey)
		if n.DoNotDisrupt {
			b.Clears = fmt.Sprintf("when annotation %s is taken off the node", karpv1.DoNotDisruptAnnotationKey)
		} else if until := q.heldUntil(n, r.Object); until.Before(kube.Forever) {
			at(until)
		}
	case model.RuleHeld:
		b.Clears = "when more of its pods are ready, or the PodDisruptionBudget changes"
	case model.RuleBudget:
		b.Clears = "when other machines of the pool that go are gone, or the budget allows more"
		if np := q.c.World.NodePool(n.Pool); np != nil {
			if next := kube.NextWindow(np, q.s.Now); !next.IsZero() {
				b.Clears += "; a schedule of the pool turns at " + stamp(next)
			}
		}
	case model.RuleTooYoung:
		if left, err := time.ParseDuration(r.Detail); err == nil {
			at(q.s.Now.Add(left).Truncate(time.Second))
			b.Clears += ", if no pod comes or goes before"
			b.Text = fmt.Sprintf("consolidateAfter of pool %s is over in %s", r.Object, age(left))
		}
	case model.RuleWindow:
		if t, err := time.Parse(time.RFC3339, r.Detail); err == nil {
			at(t)
		}
	case model.RuleNever, model.RuleWhenEmpty, model.RuleBalanced, model.RuleSmallSaving, model.RuleUnclear:
		b.Clears = "when NodePool " + n.Pool + " says otherwise"
		if r.Rule == model.RuleSmallSaving && r.BestOf != "" {
			b.Clears = "when fewer pods come and go"
		}
	case model.RulePayback:
		need, err1 := time.ParseDuration(r.Detail)
		have, err2 := time.ParseDuration(r.Best)
		if err1 == nil && err2 == nil && need > have {
			at(q.s.Now.Add(need - have).Truncate(time.Second))
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
		b.Clears = "when the pool may launch larger types, or the DaemonSet asks for less"
	case model.RulePoolNotReady:
		b.Clears = "when the pool is ready"
	case model.RuleLimit:
		b.Clears = "when limit nodes of NodePool " + r.Object + " is raised"
	case model.RuleCapacity:
		b.Clears = "when the cloud has capacity again"
	case model.RuleNoPrice:
		b.Clears = "when the price of its type is known"
	case model.RuleNeeded:
		b.Clears = "when these pods are bound"
	case model.RuleNotCheaper, model.RuleMoreMachines, model.RuleNoPlace, model.RuleFragile:
		b.Clears = "when prices, pods or other machines change"
	}
	return b
}

// heldUntil is until when a pod that is named as Reasons do must not be disrupted.
func (q *question) heldUntil(n *model.Node, named string) time.Time {
	for _, pod := range q.c.World.PodsOnNode(n.Name) {
		if "pod "+pod.Namespace+"/"+pod.Name == named {
			return kube.ReadPod(pod).HeldUntil
		}
	}
	return kube.Forever
}
