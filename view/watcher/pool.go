package watcher

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/view"
)

func (f *Feed) pool(o *karpv1.NodePool) *view.Pool {
	p := &view.Pool{Name: o.Name, Ready: true}
	if o.Spec.Weight != nil {
		p.Weight = int(*o.Spec.Weight)
	}
	for _, c := range o.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			p.Conditions = append(p.Conditions, view.Condition{
				Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message,
				Since: c.LastTransitionTime.Time,
			})
		}
		if c.Type == "Ready" && c.Status != metav1.ConditionTrue {
			p.Ready, p.Problem = false, c.Reason
			if c.Message != "" {
				p.Problem += ": " + c.Message
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Spec.Limits)) {
		most, used := o.Spec.Limits[name], o.Status.Resources[name]
		l := view.Limit{Resource: string(name), Used: used.String(), Most: most.String()}
		if most.Sign() > 0 {
			l.UsedShare = used.AsApproximateFloat64() / most.AsApproximateFloat64()
		}
		p.Limits = append(p.Limits, l)
	}
	for _, b := range o.Spec.Disruption.Budgets {
		p.Budgets = append(p.Budgets, budget(b))
	}
	if o.Spec.Disruption.Budgets == nil {
		p.Budgets = []string{"10%"} // the default of karpenter.sh/v1
	}
	rules := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Annotations: o.Annotations}}
	rules.Spec.Disruption = o.Spec.Disruption
	p.Allowed = func(now time.Time, nodes int) (out [len(view.Reasons)]int) {
		for i, reason := range view.Reasons {
			out[i] = min(nodes, translate.AllowedDisruptions(rules, karpv1.DisruptionReason(reason), now, nodes))
		}
		return out
	}
	p.Disruption = func(now time.Time) view.Disruption { return disruption(rules, now) }
	return p
}

// disruption returns a pool's budgets and disruption window, and which of them are in force.
func disruption(np *karpv1.NodePool, now time.Time) view.Disruption {
	turns := translate.TurnsOf(np, now, view.Calendar)
	out := view.Disruption{Zone: turns.Zone}
	if np.Spec.Disruption.Budgets == nil {
		out.Budgets = []view.Budget{{Turn: view.Turn{Active: true}, Nodes: "10%"}}
	}
	for i, b := range np.Spec.Disruption.Budgets {
		shown := view.Budget{Turn: view.Turn(turns.Budgets[i]), Nodes: b.Nodes, Reasons: words(b.Reasons)}
		if b.Schedule != nil && b.Duration != nil {
			shown.Schedule, shown.Duration = *b.Schedule, b.Duration.Duration
			shown.Spans = spans(turns.BudgetSpans[i])
		}
		out.Budgets = append(out.Budgets, shown)
	}
	if w := turns.Window; w != nil {
		out.Window = &view.DisruptionWindow{
			Turn: view.Turn(*w), Schedules: np.Annotations[translate.AnnotationWindows], Reasons: words(turns.For),
			Spans: spans(turns.WindowSpans),
		}
	}
	return out
}

func spans(of []translate.Span) []view.Span {
	out := make([]view.Span, len(of))
	for i, s := range of {
		out[i] = view.Span(s)
	}
	return out
}

func words(reasons []karpv1.DisruptionReason) (out []string) {
	for _, r := range reasons {
		out = append(out, string(r))
	}
	return out
}

// budget describes a budget in words: how many nodes, for which reasons, when.
func budget(b karpv1.Budget) string {
	said := []string{b.Nodes}
	if len(b.Reasons) > 0 {
		said = append(said, strings.Join(words(b.Reasons), "+"))
	}
	if b.Schedule != nil && b.Duration != nil {
		said = append(said, *b.Schedule, "for", b.Duration.Duration.String())
	}
	return strings.Join(said, " ")
}

func (f *Feed) claimSeen(old, now any) {
	if c, ok := now.(*view.Claim); ok {
		f.o.Model.SetClaim(c)
	} else if c, ok := old.(*view.Claim); ok {
		f.o.Model.DeleteClaim(c.Name)
	}
}

func (f *Feed) poolSeen(old, now any) {
	if p, ok := now.(*view.Pool); ok {
		f.o.Model.SetPool(p)
	} else if p, ok := old.(*view.Pool); ok {
		f.o.Model.DeletePool(p.Name)
	}
}

func (f *Feed) podSeen(old, now any) {
	before, _ := old.(*view.Pod)
	after, _ := now.(*view.Pod)
	// After a lost watch, a list shows a pod that was deleted and created again as a change.
	if before != nil && (after == nil || after.UID != before.UID) {
		f.o.Model.DeletePod(before.UID)
	}
	if after != nil {
		f.o.Model.SetPod(after)
	}
}

func (f *Feed) eventSeen(old, now any) {
	before, _ := old.(*saying)
	after, _ := now.(*saying)
	switch {
	case after != nil:
		f.o.Model.Say(after.about, after.said)
	case before != nil:
		f.o.Model.Unsay(before.about, before.said.At)
	}
}
