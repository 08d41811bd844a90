package apply

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/events"
)

const (
	// podPause is how long an event is not repeated on the same pod (as in Karpenter).
	podPause = 5 * time.Minute
	// disagreeAfter is how long a pod that fits a ready node may stay unbound before an event says so. kube-scheduler
	// tries a pod again after 10 s at most (KubeSchedulerConfiguration v1, podMaxBackoffSeconds).
	disagreeAfter = 15 * time.Second
	// notReadyAfter is the age from which a pod gets an event that NodePools are not ready yet, which is normal for a
	// moment.
	notReadyAfter = 5 * time.Second
)

// podReporter records events on pods that say what was decided for them, at a limited rate.
type podReporter struct {
	o         Options
	pods      map[model.PodKey]*reported // pending pods
	nominated *rate.Limiter
	failed    *rate.Limiter
}

// reported is what the events of a pod have said.
type reported struct {
	event string // the last one
	at    time.Time
	place string // where the pod should be scheduled, as last reported: a NodeClaim, or a Node without one
	// ready is the ready node on which the pod has had a place since the time since without being bound; "" for none.
	ready string
	since time.Time
}

func newPodReporter(o Options) *podReporter {
	return &podReporter{
		o: o, pods: map[model.PodKey]*reported{}, nominated: rate.NewLimiter(5, 10), failed: rate.NewLimiter(20, 100),
	}
}

func (r *podReporter) of(pod model.PodKey) *reported {
	if r.pods[pod] == nil {
		r.pods[pod] = &reported{}
	}
	return r.pods[pod]
}

// report records the events of a plan on its pods; claims maps launch IDs to NodeClaims.
func (r *podReporter) report(s *model.Snapshot, p *model.Plan, claims map[string]string) {
	r.forget(s)
	p = withoutSilent(s, p)
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
		switch n := nodes[at.Node]; {
		case n == nil:
		case n.State == model.Initialized:
			placed[at.Pod] = true
			r.disagree(at, s.Now)
		case n.State == model.InFlight:
			r.nominate(at.Pod, cmp.Or(n.Claim, n.Name), "nodeclaim/"+n.Name, there, s.Now)
		default:
			r.nominate(at.Pod, cmp.Or(n.Claim, n.Name), "node/"+n.Name, there, s.Now)
		}
	}
	for pod, told := range r.pods {
		if !placed[pod] {
			told.ready = ""
		}
	}
	r.unplaced(s, p.Unplaced)
}

// forget drops the records of pods that are no longer pending.
func (r *podReporter) forget(s *model.Snapshot) {
	if len(r.pods) == 0 {
		return
	}
	pending := make(map[model.PodKey]bool, len(s.Pending))
	for i := range s.Pending {
		pending[s.Pending[i].PodKey] = true
	}
	maps.DeleteFunc(r.pods, func(pod model.PodKey, _ *reported) bool { return !pending[pod] })
}

// withoutSilent returns the plan without its decisions on pods that get no events: placeholders, and pods that keep
// their place until their node is removed.
func withoutSilent(s *model.Snapshot, p *model.Plan) *model.Plan {
	silent := map[model.PodKey]bool{}
	for i := range s.Pending {
		if pod := &s.Pending[i]; pod.From != "" || pod.Virtual {
			silent[pod.PodKey] = true
		}
	}
	if len(silent) == 0 {
		return p
	}
	out := *p
	out.Placements = slices.DeleteFunc(slices.Clone(p.Placements),
		func(at model.Placement) bool { return silent[at.Pod] })
	out.Unplaced = slices.DeleteFunc(slices.Clone(p.Unplaced), func(u model.Unplaced) bool { return silent[u.Pod] })
	out.Launches = slices.Clone(p.Launches)
	for i := range out.Launches {
		l := &out.Launches[i]
		l.Pods = slices.DeleteFunc(slices.Clone(l.Pods), func(k model.PodKey) bool { return silent[k] })
	}
	return &out
}

// unplaced records on pods why they were not placed.
func (r *podReporter) unplaced(s *model.Snapshot, unplaced []model.Unplaced) {
	if len(unplaced) == 0 {
		return
	}
	created := make(map[model.PodKey]time.Time, len(s.Pending))
	for i := range s.Pending {
		created[s.Pending[i].PodKey] = s.Pending[i].Created
	}
	for _, u := range unplaced {
		if u.Reason.Rule.Transient() || onlyNotReady(u.Reason) && s.Now.Sub(created[u.Pod]) < notReadyAfter {
			continue
		}
		r.record(u.Pod, corev1.EventTypeWarning, "FailedScheduling", "Failed to schedule pod, "+reason.Pod(u.Reason), s.Now,
			r.failed)
	}
}

func onlyNotReady(why model.Reason) bool {
	ready := func(p model.PoolVerdict) bool { return p.Rule != model.RulePoolNotReady }
	return why.Rule == model.RulePoolNotReady || len(why.Pools) > 0 && !slices.ContainsFunc(why.Pools, ready)
}

// nominate records where a pod should be scheduled, and again only when that place is gone: among equal pods and
// equal nodes each plan may choose other pairs, and kube-scheduler has the last word. Of a large batch only the first
// pods get the event, as in Karpenter, which spares the API server a write for each of a thousand.
func (r *podReporter) nominate(pod model.PodKey, place, name string, there map[string]bool, now time.Time) {
	told := r.of(pod)
	if there[told.place] {
		return
	}
	told.place = place
	r.record(pod, corev1.EventTypeNormal, "Nominated", "Pod should schedule on: "+name, now, r.nominated)
}

// disagree reports that kube-scheduler does not bind a pod to a ready node that the pod should fit.
func (r *podReporter) disagree(at model.Placement, now time.Time) {
	told := r.of(at.Pod)
	if told.ready != at.Node {
		told.ready, told.since = at.Node, now
		return
	}
	if now.Sub(told.since) < disagreeAfter {
		return
	}
	pod := r.o.State.Pod(types.NamespacedName{Namespace: at.Pod.Namespace, Name: at.Pod.Name})
	if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return // it was bound or deleted after the plan was made
	}
	verdict := "it has not said why"
	if c := conditions.OfPod(pod, corev1.PodScheduled); c != nil && c.Message != "" {
		verdict = c.Message
	}
	what := fmt.Sprintf("Pod should fit node/%s, but kube-scheduler does not bind it: %s", at.Node, verdict)
	r.record(at.Pod, corev1.EventTypeWarning, "SchedulerDisagrees", what, now, r.failed)
}

// record records an event on a pod, unless the pod got the same event lately or there are too many events at once.
func (r *podReporter) record(key model.PodKey, kind, reason, message string, now time.Time,
	limiter *rate.Limiter,
) {
	message = events.Message(message)
	event, told := reason+" "+message, r.of(key)
	if told.event == event && now.Sub(told.at) < podPause {
		return
	}
	pod := r.o.State.Pod(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
	if pod == nil || string(pod.UID) != key.UID || !limiter.AllowN(now, 1) {
		return
	}
	told.event, told.at = event, now
	r.o.Recorder.Event(pod, kind, reason, message)
}
