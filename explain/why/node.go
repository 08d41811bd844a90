package why

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/query"
)

// nodeQuestion is a question about a node: a Node, its NodeClaim, or both; node or claim may be nil.
type nodeQuestion struct {
	*question
	n     *model.Node
	node  *corev1.Node
	claim *karpv1.NodeClaim
}

// aboutNode answers about a Node, and reports whether it exists.
func (q *question) aboutNode(ctx context.Context, name string) bool {
	object := q.c.State.Node(name)
	n := q.nodeNamed(name)
	if object == nil || n == nil {
		return false
	}
	(&nodeQuestion{q, n, object, q.c.State.Claim(n.Claim)}).answer(ctx)
	return true
}

// aboutClaim answers about a NodeClaim, and reports whether it exists.
func (q *question) aboutClaim(ctx context.Context, name string) bool {
	claim := q.c.State.Claim(name)
	n := q.nodeOfClaim(name)
	if claim == nil || n == nil {
		return false
	}
	(&nodeQuestion{q, n, q.c.State.Node(n.Name), claim}).answer(ctx)
	return true
}

func (q *nodeQuestion) answer(ctx context.Context) {
	n, state := q.n, q.state()
	q.describe()
	switch {
	case onFargate(q.node, q.claim) && n.State == model.Initialized && !n.Deleting:
		q.microVM()
		return
	case q.claim == nil:
		q.conclude(state, NotManaged, "it belongs to no NodeClaim, so Nodeless does not remove it")
		q.say("who can", "whoever created it: a node group, another provisioner, a person")
		return
	case q.foreign(q.claim.Spec.NodeClassRef):
		q.leave(state, q.claim.Spec.NodeClassRef)
		q.progress()
		return
	case n.Deleting:
		q.removing(ctx)
		return
	case n.State != model.Initialized:
		q.conclude(state, Launching, "it is not ready yet: %s", firstLacking(q.claim))
		q.progress()
		q.launchedFor()
		return
	}
	q.launchedFor()
	q.kept()
}

func (q *nodeQuestion) state() string {
	n := q.n
	since := q.ago(n.Created)
	switch {
	case n.Deleting:
		return "Removing"
	case q.node == nil:
		return "Launching for " + since
	case n.State != model.Initialized:
		return "Registered"
	}
	if _, ready := translate.ReadySince(q.node); !ready {
		return "NotReady"
	}
	if n.Cordoned {
		return "Ready,SchedulingDisabled"
	}
	return "Ready for " + q.ago(n.Initialized)
}

// describe says what the node is and what runs on it.
func (q *nodeQuestion) describe() {
	n := q.n
	what := strings.TrimSpace(n.Type + " " + n.CapacityType)
	if n.Zone != "" {
		what += " in " + n.Zone
	}
	if n.Price > 0 {
		what += " at " + reason.Dollars(n.Price)
	}
	if n.Pool != "" {
		what += ", pool " + n.Pool
	}
	if q.node != nil && q.claim != nil {
		what += ", nodeclaim " + q.claim.Name
	}
	q.sayf("node", "%s, %s old", cmp.Or(what, "of unknown type"), q.ago(n.Created))
	if q.node == nil {
		return
	}
	pods, daemons := 0, 0
	for i := range n.Pods {
		switch p := &n.Pods[i]; {
		case p.Terminal:
		case p.Daemon:
			daemons++
		default:
			pods++
		}
	}
	var used []string
	for _, r := range []int{model.CPU, model.Memory} {
		if n.Allocatable[r] > 0 {
			used = append(used, fmt.Sprintf("%s %d%%", q.s.ResourceNames[r], min(100*max(n.Used[r], 0)/n.Allocatable[r], 999)))
		}
	}
	text := reason.Count(pods, "pod") + ", " + reason.Count(daemons, "daemon")
	if len(used) > 0 {
		text += "; requested: " + strings.Join(used, ", ")
	}
	q.say("runs", text)
	q.overhead()
}

// launchedFor says what the node was launched for.
func (q *nodeQuestion) launchedFor() {
	claim := q.claim
	if c, replaces, err := translate.ReplacingOf(claim); replaces && err == nil {
		q.sayf("launched for", "the replacement of %s (%s)", reason.Some(victims(c), 3), strings.ToLower(string(c.Method)))
		return
	}
	if np := q.c.State.NodePool(claim.Labels[karpv1.NodePoolLabelKey]); np != nil && np.Spec.Replicas != nil {
		q.sayf("launched for", "static pool %s, which keeps %s whatever pods there are", np.Name,
			reason.Count(int(*np.Spec.Replicas), "replica"))
		return
	}
	if owners := claim.Annotations[translate.AnnotationReserves]; owners != "" {
		q.sayf("launched for", "pods of %s before they were created, which request %s",
			reason.Some(strings.Split(owners, ","), 3), amounts(claim.Spec.Resources.Requests))
		return
	}
	if claim.Annotations[translate.AnnotationLaunch] != "" {
		q.sayf("launched for", "pending pods that requested %s", amounts(claim.Spec.Resources.Requests))
	}
}

// amounts formats requests for CPU and memory.
func amounts(list corev1.ResourceList) string {
	var parts []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := list[name]; ok {
			parts = append(parts, string(name)+" "+quantity.String())
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// kept says what keeps the node, one blocker after another, and what would happen to it without them.
func (q *nodeQuestion) kept() {
	n, state := q.n, q.state()
	m, ok := query.OfNode(q.s, q.policy, n.Name, engine.Disrupt)
	if !ok {
		return
	}
	then := ""
	switch {
	case m.Removal != nil:
		then = reason.Removal(m.Snapshot, *m.Removal)
	case m.Command != nil:
		then = reason.Command(m.Snapshot, *m.Command)
	}
	if len(m.Blockers) == 0 && then == "" {
		q.conclude(state, Kept, "no decision about it is known")
		return
	}
	if len(m.Blockers) == 0 {
		q.conclude(state, Due, "nothing keeps it; its removal has not started yet")
		q.say("next", then)
		q.sayf("starts", "in the controller's next cycle: at once if something changes, else within %s of the last "+
			"cycle, or within %s if pods only "+
			"had to grow older", duration.HumanDuration(cycle.LookAgain), duration.HumanDuration(cycle.MinRipening))
		return
	}
	q.conclude(state, Kept, "it is kept: %s", q.blocker(&m.Blockers[0]).Text)
	for i := range m.Blockers {
		b := q.blocker(&m.Blockers[i])
		q.a.Blockers = append(q.a.Blockers, b)
		label := "kept because"
		if i > 0 {
			label = "and then"
		}
		text := b.Text
		if b.Clears != "" {
			text += "; clears " + b.Clears
		}
		q.say(label, text)
	}
	switch {
	case m.More:
		q.say("and then", "further reasons of this kind")
	case then != "":
		q.a.Then = then
		q.say("otherwise", then)
	}
}
