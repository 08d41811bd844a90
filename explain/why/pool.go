package why

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/query"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// poolQuestion is a question about a NodePool.
type poolQuestion struct {
	*question
	np *karpv1.NodePool
	p  query.Pool
}

// aboutPool answers about a NodePool, and reports whether it exists.
func (q *question) aboutPool(name string) bool {
	np := q.c.State.NodePool(name)
	p, ok := query.OfPool(q.s, q.policy, name)
	if np == nil || !ok {
		return false
	}
	(&poolQuestion{q, np, p}).answer()
	return true
}

func (q *poolQuestion) answer() {
	np, p := q.np, &q.p
	if class := np.Spec.Template.Spec.NodeClassRef; q.foreign(class) {
		state := "NotReady"
		if conditions.IsTrue(np, status.ConditionReady) {
			state = "Ready"
		}
		q.leave(state, class)
		q.limits()
		q.nodes()
		return
	}
	switch {
	case p.Pool.NotReady != "":
		q.conclude("NotReady", NotReady, "it launches nothing: %s", p.Pool.NotReady)
	case p.Pool.Static:
		q.conclude("Ready", Ready, "it is static: it keeps %s whatever pods there are",
			reason.Count(int(p.Pool.Replicas), "node"))
	case len(p.Launches) > 0:
		q.conclude("Ready", Ready, "it is ready and launches %s for pending pods", reason.Count(len(p.Launches), "node"))
	default:
		q.conclude("Ready", Ready, "it is ready; no pending pod needs a node from it")
	}
	for _, c := range np.Status.Conditions {
		if c.Status == metav1.ConditionFalse && c.Type != "Ready" && c.Type != translate.ConditionRequirementsKnown {
			q.sayf("condition", "%s is False%s", c.Type, because("", c.Message))
		}
	}
	for _, u := range translate.UnknownKeys(np) {
		q.say("unknown key", u.String())
	}
	class := cluster.ClassRef(np.Spec.Template.Spec.NodeClassRef)
	q.sayf("node class", "%s %s", class.Kind, class.Name)
	q.mayLaunch()
	q.limits()
	q.nodes()
	q.disruption()
	q.waiting()
}

// mayLaunch says what the pool can launch.
func (q *poolQuestion) mayLaunch() {
	p := &q.p
	q.say("requires", p.Pool.Requirements.String())
	if len(p.Pool.Taints) > 0 {
		var taints []string
		for _, t := range p.Pool.Taints {
			taints = append(taints, taintText(t))
		}
		q.say("taints", strings.Join(taints, ", "))
	}
	q.sayf("may launch", "%d of %d types that its node class offers; %d of them are available now", p.Allowed,
		p.Offered, p.Available)
	var cheapest []string
	for _, c := range p.Cheapest {
		cheapest = append(cheapest, c.Type+" "+c.CapacityType+" "+reason.Dollars(c.Price))
	}
	q.say("cheapest", strings.Join(cheapest, ", "))
}

func taintText(t model.Taint) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return text + ":" + string(t.Effect)
}

// limits says how much of its limits a pool uses.
func (q *poolQuestion) limits() {
	p := q.p.Pool
	var parts []string
	for r, set := range p.Limits.Set {
		if set && r < len(q.s.ResourceNames) {
			name := q.s.ResourceNames[r]
			parts = append(parts, fmt.Sprintf("%s %s of %s", name, model.Quantity(name, p.Usage[r]),
				model.Quantity(name, p.Limits.Max[r])))
		}
	}
	if p.Limits.NodesSet {
		parts = append(parts, fmt.Sprintf("nodes %d of %d", p.NodeCount, p.Limits.Nodes))
	}
	q.say("limits", cmp.Or(strings.Join(parts, ", "), "none"))
}

// nodes says how many nodes the pool has and what they cost.
func (q *poolQuestion) nodes() {
	total, ready, removing, n := model.Price(0), 0, 0, 0
	for i := range q.s.Nodes {
		m := &q.s.Nodes[i]
		if m.Pool != q.np.Name {
			continue
		}
		n++
		total += m.Price
		switch {
		case m.Deleting:
			removing++
		case m.State == model.Initialized:
			ready++
		}
	}
	q.sayf("nodes", "%d: %d ready, %d not ready, %d being removed; %s", n, ready, n-ready-removing, removing,
		reason.Dollars(total))
}

// disruption says when nodes of the pool may be removed.
func (q *poolQuestion) disruption() {
	d := &q.p.Pool.Disruption
	text := string(q.np.Spec.Disruption.ConsolidationPolicy)
	switch {
	case d.Never:
		text += ", never to save money (consolidateAfter: Never)"
	default:
		text += ", " + duration.HumanDuration(d.ConsolidateAfter) + " after the last pod was added or removed"
	}
	q.say("consolidation", text)
	budgets := fmt.Sprintf("%d empty, %d drifted, %d underutilized nodes may be removed now", d.AllowedEmpty,
		d.AllowedDrifted, d.AllowedUnderused)
	if next := translate.NextWindow(q.np, q.s.Now); !next.IsZero() {
		budgets += "; a schedule starts or ends at " + stamp(next)
	}
	q.say("budgets", budgets)
	if d.Unclear != "" {
		q.say("invalid", d.Unclear)
	}
}

// waiting says what the pool does for pending pods.
func (q *poolQuestion) waiting() {
	p := &q.p
	for i := range p.Launches {
		l := &p.Launches[i]
		q.a.Launches = append(q.a.Launches, q.launchOf(l))
		if i < maxAlternatives {
			q.say("launches", reason.Launch(q.s, *l))
		}
	}
	if more := len(p.Launches) - maxAlternatives; more > 0 {
		q.sayf("launches", "and %d more", more)
	}
	if p.Could > 0 {
		q.sayf("could take", "%s more, if other pods did not take the room", reason.Count(p.Could, "pod"))
	}
	for i, r := range p.Refusals {
		if i < maxAlternatives {
			why := strings.TrimPrefix(reason.Verdict(model.PoolVerdict{
				Pool: p.Pool.Name, Rule: r.Reason.Rule,
				Object: r.Reason.Object, Detail: r.Reason.Detail,
				Best: r.Reason.Best, BestOf: r.Reason.BestOf,
			}), "pool "+p.Pool.Name+": ")
			q.sayf("cannot take", "%s such as %s: %s", reason.Count(r.Count, "pod"), r.Such, why)
		}
	}
}
