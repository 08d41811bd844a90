package apply

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// sayAgain is how long the same is not said of the same pod again (as Karpenter).
	sayAgain = 5 * time.Minute
	// disagreeAfter is how long a pod that fits a ready node may stay unbound before that is worth an event.
	// kube-scheduler tries a pod again after 10 s at most (KubeSchedulerConfiguration v1, podMaxBackoffSeconds).
	disagreeAfter = 15 * time.Second
	// settle is how long a new pod is not told that pools are not ready yet.
	settle = 5 * time.Second
)

// reporter says on pods and machines what was decided, sparingly.
type reporter struct {
	o         Options
	said      map[model.PodKey]said
	stuck     map[model.PodKey]stuck
	promised  map[model.PodKey]string // the machine that a pod was told of last: its NodeClaim, or its node if it has none
	nominated bucket
	failed    bucket
}

type said struct {
	what string
	at   time.Time
}

// stuck is since when a pod has its place on the same ready machine and is not bound.
type stuck struct {
	node  string
	since time.Time
}

func newReporter(o Options) *reporter {
	return &reporter{
		o: o, said: map[model.PodKey]said{}, stuck: map[model.PodKey]stuck{}, promised: map[model.PodKey]string{},
		nominated: bucket{perSecond: 5, most: 10}, failed: bucket{perSecond: 20, most: 100},
	}
}

// report writes the events of a plan about pods; claims are the NodeClaims by launch ID.
func (r *reporter) report(s *model.Snapshot, p *model.Plan, claims map[string]string) {
	r.forget(s)
	p = audible(s, p)
	nodes, there := map[string]*model.Node{}, map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		nodes[n.Name] = n
		there[cmp.Or(n.Claim, n.Name)] = !n.Deleting
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		if name, ok := claims[l.ID]; ok {
			for _, pod := range l.Pods {
				r.nominate(pod, name, "nodeclaim/"+name, there, s.Now)
			}
		}
	}
	placed := map[model.PodKey]bool{}
	for _, at := range p.Placements {
		n := nodes[at.Node]
		if n == nil {
			continue
		}
		if n.State == model.Initialized {
			placed[at.Pod] = true
			r.disagree(at, s.Now)
			continue
		}
		kind := "node/"
		if n.State == model.InFlight {
			kind = "nodeclaim/"
		}
		r.nominate(at.Pod, cmp.Or(n.Claim, n.Name), kind+n.Name, there, s.Now)
	}
	for pod := range r.stuck {
		if !placed[pod] {
			delete(r.stuck, pod)
		}
	}
	r.unplaced(s, p.Unplaced)
}

// audible is the plan without the answers of pods that wait for nothing: those that have their place until their
// machine goes, and those that stand for room only.
func audible(s *model.Snapshot, p *model.Plan) *model.Plan {
	deaf := map[model.PodKey]bool{}
	for i := range s.Pending {
		if pod := &s.Pending[i]; pod.From != "" || pod.Virtual {
			deaf[pod.PodKey] = true
		}
	}
	if len(deaf) == 0 {
		return p
	}
	out := *p
	out.Placements = slices.DeleteFunc(slices.Clone(p.Placements), func(at model.Placement) bool { return deaf[at.Pod] })
	out.Unplaced = slices.DeleteFunc(slices.Clone(p.Unplaced), func(u model.Unplaced) bool { return deaf[u.Pod] })
	out.Launches = slices.Clone(p.Launches)
	for i := range out.Launches {
		l := &out.Launches[i]
		l.Pods = slices.DeleteFunc(slices.Clone(l.Pods), func(k model.PodKey) bool { return deaf[k] })
	}
	return &out
}

// unplaced says why pods got nothing. That pools are not ready yet is normal for a moment.
func (r *reporter) unplaced(s *model.Snapshot, unplaced []model.Unplaced) {
	if len(unplaced) == 0 {
		return
	}
	created := make(map[model.PodKey]time.Time, len(s.Pending))
	for i := range s.Pending {
		created[s.Pending[i].PodKey] = s.Pending[i].Created
	}
	for _, u := range unplaced {
		if u.Reason.Rule.Transient() || onlyNotReady(u.Reason) && s.Now.Sub(created[u.Pod]) < settle {
			continue
		}
		r.say(u.Pod, corev1.EventTypeWarning, "FailedScheduling", "Failed to schedule pod, "+r.o.Explain(u.Reason), s.Now,
			&r.failed)
	}
}

func onlyNotReady(reason model.Reason) bool {
	if reason.Rule == model.RulePoolNotReady {
		return true
	}
	for _, p := range reason.Pools {
		if p.Rule != model.RulePoolNotReady {
			return false
		}
	}
	return len(reason.Pools) > 0
}

// nominate tells a pod which machine is for it, and again only when that one is not there any more: of equal pods and
// equal machines each plan may choose other pairs, and kube-scheduler chooses in the end.
func (r *reporter) nominate(pod model.PodKey, machine, name string, there map[string]bool, now time.Time) {
	if there[r.promised[pod]] {
		return
	}
	if r.say(pod, corev1.EventTypeNormal, "Nominated", "Pod should schedule on: "+name, now, &r.nominated) {
		r.promised[pod] = machine
	}
}

// disagree says when kube-scheduler does not bind a pod to a ready machine that it should fit.
func (r *reporter) disagree(at model.Placement, now time.Time) {
	was, known := r.stuck[at.Pod]
	if !known || was.node != at.Node {
		r.stuck[at.Pod] = stuck{node: at.Node, since: now}
		return
	}
	if now.Sub(was.since) < disagreeAfter {
		return
	}
	pod := r.o.State.Pod(types.NamespacedName{Namespace: at.Pod.Namespace, Name: at.Pod.Name})
	if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return // it was bound, or is gone, since the plan was made
	}
	verdict := "it has not said why"
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Message != "" {
			verdict = c.Message
		}
	}
	what := fmt.Sprintf("Pod should fit node/%s, but kube-scheduler does not bind it: %s", at.Node, verdict)
	r.say(at.Pod, corev1.EventTypeWarning, "SchedulerDisagrees", what, now, &r.failed)
}

// removed says on a machine why it goes.
func (r *reporter) removed(claim *karpv1.NodeClaim, node *corev1.Node, m *model.Removal) {
	r.o.Recorder.Event(claim, corev1.EventTypeNormal, "DisruptionTerminating", "Disrupting NodeClaim: "+string(m.Method))
	if node != nil {
		r.o.Recorder.Event(node, corev1.EventTypeNormal, "DisruptionTerminating", "Disrupting Node: "+string(m.Method))
	}
}
