package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/engine/suggest"
	"github.com/nodeless/nodeless/explain/query"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// podQuestion is a question about one pod.
type podQuestion struct {
	*question
	of   Subject
	pod  *corev1.Pod
	info translate.Pod
}

// aboutPod answers about a pod, and reports whether it exists.
func (q *question) aboutPod(ctx context.Context, of Subject) bool {
	pod := q.c.State.Pod(types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
	if pod == nil {
		return false
	}
	(&podQuestion{q, of, pod, q.c.State.ReadPod(pod)}).answer(ctx)
	return true
}

func (q *podQuestion) answer(ctx context.Context) {
	pod, info := q.pod, &q.info
	waited := q.waited()
	switch {
	case info.Terminal:
		q.conclude(string(pod.Status.Phase), Ended, "it has ended%s", because(pod.Status.Reason, pod.Status.Message))
		q.say("node", info.Node)
	case info.Node != "":
		q.placed(ctx)
		q.address(ctx)
	case info.Deleting:
		q.conclude("Terminating", Ended, "it has been terminating for %s%s", q.ago(pod.DeletionTimestamp.Time), held(pod))
	case len(pod.Spec.SchedulingGates) > 0:
		var gates []string
		for _, g := range pod.Spec.SchedulingGates {
			gates = append(gates, g.Name)
		}
		q.conclude(waited, NotManaged, "its scheduling gates have to be removed: %s", strings.Join(gates, ", "))
		q.say("who can", "whoever added them; schedulers and provisioners ignore the pod until then")
	case info.Apart:
		q.waitsForMicroVM()
	case info.Daemon():
		q.daemon()
	case !info.Waiting:
		q.conclude(waited, NotManaged, "it uses scheduler %q; nodes are launched only for pods of %s",
			pod.Spec.SchedulerName, strings.Join(q.c.Scheduler().Names(), ", "))
	default:
		q.pending(ctx)
	}
}

// waited returns the state of a pod without a node.
func (q *podQuestion) waited() string { return "Pending for " + q.ago(q.info.Created) }

func because(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case message == "":
		return ": " + reason
	case reason == "":
		return ": " + message
	}
	return ": " + reason + ": " + message
}

func held(pod *corev1.Pod) string {
	if len(pod.Finalizers) == 0 {
		return ""
	}
	return "; its finalizers keep it: " + strings.Join(pod.Finalizers, ", ")
}

// daemon answers about a DaemonSet's pod without a node.
func (q *podQuestion) daemon() {
	info := &q.info
	n, why := q.nodeNamed(info.Only), "but kube-scheduler has not bound it"+because("", q.unscheduled())
	free, fits := model.Resources{}, true
	if n != nil {
		if free, fits = q.freeForDaemon(n); !fits {
			why = "which has no room for it"
		}
	}
	q.conclude(q.waited(), Unschedulable, "it is the pod of DaemonSet %s for node %s, %s", info.DaemonSet,
		cmp.Or(info.Only, "?"), why)
	if n == nil {
		return
	}
	q.sayf("free there", "%s of %s", cmp.Or(free.NonNegative().Amounts(q.s.ResourceNames), "nothing"),
		cmp.Or(n.Type, "a node of unknown type"))
	switch {
	case onFargate(q.c.State.Node(n.Name), q.c.State.Claim(n.Claim)):
		q.sayf("what helps", "a microVM runs no pod but its own: keep the DaemonSet off such nodes with a required "+
			"nodeAffinity: {key: %s, operator: NotIn, values: [%s]}",
			fargate.ComputeType, fargate.ComputeTypeFargate)
	case fits:
	case n.Pool != "":
		q.sayf("what helps", "annotation %s on NodePool %s replaces such nodes with larger ones",
			translate.AnnotationMakeRoom, n.Pool)
	default:
		q.say("what helps", "fewer pods on the node, or a larger node; it belongs to no NodePool, so Nodeless does not "+
			"replace it")
	}
}

// freeForDaemon returns what a node has free for the DaemonSet's pod, and whether the pod fits there. Node.Used
// includes the pod if its DaemonSet runs on the node and has no other pod there.
func (q *podQuestion) freeForDaemon(n *model.Node) (free model.Resources, fits bool) {
	free = n.Free()
	there := slices.ContainsFunc(q.c.State.PodsOnNode(n.Name), func(pod *corev1.Pod) bool {
		return translate.ReadPod(pod).DaemonSet == q.info.DaemonSet
	})
	for i := range q.s.Daemons {
		d := &q.s.Daemons[i]
		if !there && d.Namespace+"/"+d.Name == q.info.DaemonSet && translate.RunsOn(d, n) {
			free = free.Plus(d.Shape.Requests)
		}
	}
	return free, q.c.State.Names().Shape(q.pod, nil).Requests.Fits(free)
}

// requests says what the pod requires of a node.
func (q *podQuestion) requests(shape *model.Shape) {
	text := q.amounts(shape.Requests)
	if len(shape.Required) > 0 {
		text += "; " + shape.Required.String()
	}
	for i, term := range shape.AnyOf {
		joint := "; "
		if i > 0 {
			joint = " or "
		}
		text += joint + term.String()
	}
	q.say("requests", text)
	if owner := owner(q.pod); owner != "" {
		q.say("owner", owner)
	}
}

// amounts formats resources, without the slot that every pod takes.
func (q *question) amounts(r model.Resources) string {
	r[model.Pods] = 0
	return cmp.Or(r.Amounts(q.s.ResourceNames), "nothing")
}

// owner returns the workload to change, such as "Deployment web".
func owner(pod *corev1.Pod) string {
	of := metav1.GetControllerOfNoCopy(pod)
	if of == nil {
		return ""
	}
	hash := pod.Labels["pod-template-hash"]
	if name, cut := strings.CutSuffix(of.Name, "-"+hash); cut && of.Kind == "ReplicaSet" && hash != "" {
		return "Deployment " + name
	}
	return of.Kind + " " + of.Name
}

// refusals says why existing nodes do not accept the pod.
func (q *podQuestion) refusals(p *query.Pod) {
	all := len(q.s.Nodes)
	if all == 0 {
		q.say("existing nodes", "none")
		return
	}
	var parts []string
	for _, r := range p.Refusals {
		parts = append(parts, fmt.Sprintf("%d %s", r.Count, reason.Refusal(r.Reason)))
	}
	text := fmt.Sprintf("%d of %d can take it now", p.Open, all)
	if len(parts) > 0 {
		text += ": " + reason.Some(parts, 6)
	}
	q.say("existing nodes", text)
}

// reason says what prevents each pool from launching a node for the pod, and what would help.
func (q *podQuestion) reason(ctx context.Context, p *query.Pod) {
	r := p.Reason
	q.a.Reason = reasonOf(r)
	if r.Rule == model.RuleNoPool && q.mayNotRead("nodepools.karpenter.sh") {
		q.conclude(q.a.State, Unschedulable, "no existing node can take it; the NodePools may not be read")
		return
	}
	because := *r
	because.Change = model.Change{}
	if len(r.Pools) == 0 || r.Rule.BetweenPods() {
		q.say("blocked by", reason.Pod(because))
	}
	q.verdicts(r)
	for i := range p.Options {
		q.option(ctx, &p.Options[i], i == 0)
	}
	if len(p.Options) == 0 {
		q.say("smallest change", "none found: no single change would help")
	}
}

// option describes a change that would help, and how to make it.
func (q *podQuestion) option(ctx context.Context, o *suggest.Option, smallest bool) {
	patch, then := q.patchOf(ctx, &o.Change)
	c := changeOf(o, patch)
	q.a.Changes = append(q.a.Changes, *c)
	if !smallest {
		q.say("or", c.textWithNode(o.Node))
		return
	}
	q.a.Change = c
	q.say("smallest change", c.textWithNode(o.Node))
	q.say("how", remedy(q.pod, &o.Change, then))
	q.say(commandLabel, c.Command)
}

// verdicts adds each pool's verdict; pools with equal verdicts are named together.
func (q *podQuestion) verdicts(r *model.Reason) {
	var texts []string
	pools, whole := map[string][]string{}, map[string]string{}
	for _, v := range r.Pools {
		text := funnel(v) + q.besideDaemons(v)
		if r.Rule.BetweenPods() && v.Rule == r.Rule {
			text = strings.ReplaceAll(reason.Funnel(v), ", ", " → ")
		}
		key := strings.ReplaceAll(text, "pool "+v.Pool, "the pool")
		if pools[key] == nil {
			texts = append(texts, key)
			whole[key] = text
		}
		pools[key] = append(pools[key], v.Pool)
	}
	for _, key := range texts {
		text := key
		if len(pools[key]) == 1 {
			text = whole[key]
		}
		q.say("pool", reason.Some(pools[key], 5)+": "+text)
	}
}

// besideDaemons adds to a verdict about a type that is too small that DaemonSet pods take part of it.
func (q *podQuestion) besideDaemons(v model.PoolVerdict) string {
	resource := slices.Index(q.s.ResourceNames, v.Object)
	pool := slices.IndexFunc(q.s.Pools, func(p model.Pool) bool { return p.Name == v.Pool })
	if v.Rule != model.RuleResource || v.BestOf == "" || resource < 0 || pool < 0 {
		return ""
	}
	for _, t := range q.s.Pools[pool].Types {
		if all := model.Quantity(v.Object, t.Allocatable[resource]); t.Name == v.BestOf && all != v.Best {
			return fmt.Sprintf(" next to DaemonSet pods (%s in all)", all)
		}
	}
	return ""
}

// scheduler quotes kube-scheduler.
func (q *podQuestion) scheduler() {
	if message := q.unscheduled(); message != "" {
		q.say("kube-scheduler", message)
	}
}

// unscheduled returns why kube-scheduler has not bound the pod, in its words; "" if it says nothing.
func (q *podQuestion) unscheduled() string {
	if c := conditions.OfPod(q.pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return c.Message
	}
	return ""
}

// nodeText names a node and its type.
func nodeText(n *model.Node) string {
	text := n.Name
	if kind := strings.TrimSpace(n.Type + " " + n.CapacityType); kind != "" {
		text += " (" + kind
		if n.Zone != "" {
			text += " in " + n.Zone
		}
		text += ")"
	}
	return text
}
