package ahead

import (
	"fmt"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// Planner decides how far ahead of a CronJob's run its nodes are launched.
//
// Nodes that are ready too early idle at their price P. A run is late until the last of its nodes is ready, and its
// pods wait at the price W. The boots themselves are paid either way. The expected cost is minimal if all k nodes are
// ready in time with probability W/(W+P) (the newsvendor's critical ratio: Arrow, Harris, Marschak, Optimal inventory
// policy, Econometrica 1951), that is, if the lead is the quantile (W/(W+P))^(1/k) of past boot times.
type Planner struct {
	State     *cluster.State                                 // required
	Provision func(*model.Snapshot, model.Policy) model.Plan // required: engine.Provision
	Policy    model.Policy                                   // its WaitPrice decides whether anything is launched ahead
	Boots     *Boots                                         // required
	Apart     func(*corev1.Pod) bool                         // pods that need no node; nil = none
}

// Plan describes what is prepared for a run of a CronJob.
type Plan struct {
	Run   time.Time            // when it begins
	Job   types.NamespacedName // the Job that it creates
	Pods  int                  // number of its pods for which capacity is prepared; 0 if Why says why not
	Lead  time.Duration        // how long before Run nodes are launched
	Boot  time.Duration        // median boot time in the pool that needs the longest lead
	Price model.Price          // effective, per hour, of the nodes that hold the pods
	// Idle is the expected cost, in millionths of a dollar, of nodes that idle until the run begins and of pods that
	// wait for late nodes. Waiting is the cost of the pods' waiting if nodes were launched only once the pods exist.
	Idle, Waiting model.Price
	Why           string

	template *corev1.Pod
}

// From returns when nodes are launched.
func (p *Plan) From() time.Time { return p.Run.Add(-p.Lead) }

// Next returns when a CronJob runs next after a time, zero if never. The error says what is wrong with its
// schedule.
func Next(cj *batchv1.CronJob, after time.Time) (time.Time, error) {
	if cj.DeletionTimestamp != nil || ptr.Deref(cj.Spec.Suspend, false) {
		return time.Time{}, nil
	}
	return next(cj, after)
}

// Plan returns what is prepared for a CronJob's run, which is expected to create no more than most pods.
func (p *Planner) Plan(cj *batchv1.CronJob, run time.Time, most int) Plan {
	out := Plan{Run: run, Job: jobOf(cj, run)}
	var off []string
	for _, np := range p.State.NodePools() {
		if !translate.Ahead(np) {
			off = append(off, np.Name)
		}
	}
	ranges := p.State.LimitRanges(cj.Namespace)
	pod := placeholder(cj, out.Job, run, ranges, nil)
	out.template = placeholder(cj, out.Job, run, ranges, off)
	n := podsOf(&cj.Spec.JobTemplate.Spec)
	switch name := pod.Spec.SchedulerName; {
	case n == 0:
		out.Why = "its Jobs create no pods by themselves"
	case most == 0:
		out.Why = "its last run created no pods"
	case name != "" && name != corev1.DefaultSchedulerName:
		out.Why = fmt.Sprintf("its pods are scheduled by %s", name)
	case p.Apart != nil && p.Apart(pod):
		out.Why = "its pods run in microVMs of their own"
	case len(pod.Spec.SchedulingGates) > 0:
		out.Why = "its pods have scheduling gates"
	case waits(cj, out.Job):
		out.Why = "its last run has not ended, and concurrencyPolicy Forbid lets none begin before; its pods have the room"
	case p.Policy.WaitPrice <= 0:
		out.Why = "waiting costs nothing (--wait-price 0)"
	default:
		s := p.State.Instead(pod, min(n, most))
		plan := p.Provision(s, p.Policy)
		p.decide(&out, s, &plan, off)
	}
	return out
}

// holder is a node that holds pods of the run.
type holder struct {
	pool  string
	price model.Price // effective, per hour
	pods  int
}

// decide reads from the plan which nodes the run's pods need, and decides how far ahead to launch them.
func (p *Planner) decide(out *Plan, s *model.Snapshot, plan *model.Plan, off []string) {
	all := p.holders(s, plan)
	holders := slices.DeleteFunc(slices.Clone(all), func(h holder) bool { return slices.Contains(off, h.pool) })
	switch {
	case len(holders) > 0:
	case len(all) > 0:
		out.Why = fmt.Sprintf("NodePool %s has annotation %s, which is not \"true\"", all[0].pool, translate.AnnotationAhead)
		return
	case len(plan.Unplaced) > 0:
		out.Why = "no node can take its pods: " + reason.Pod(plan.Unplaced[0].Reason)
		return
	default:
		out.Why = "no node can take its pods"
		return
	}
	for _, h := range holders {
		out.Pods, out.Price = out.Pods+h.pods, out.Price+h.price
	}
	waiting := float64(out.Pods) * float64(p.Policy.WaitPrice)
	p.Boots.Observe(p.State.Claims())
	for _, h := range holders {
		boots := p.Boots.of(h.pool)
		if lead := leadOf(waiting, float64(out.Price), len(holders), boots); lead > out.Lead {
			out.Lead, out.Boot = lead, quantile(boots, 0.5)
			out.Idle, out.Waiting = costs(waiting, float64(out.Price), lead, boots)
		}
	}
	if out.Idle >= out.Waiting {
		out.Pods, out.Why = 0, fmt.Sprintf("idle nodes would cost %s, and pods that wait %s", Cents(out.Idle),
			Cents(out.Waiting))
	}
}

// holders returns the nodes, existing or launched, on which the plan places pods.
func (p *Planner) holders(s *model.Snapshot, plan *model.Plan) []holder {
	var out []holder
	for i := range plan.Launches {
		l := &plan.Launches[i]
		price := p.Policy.Effective(l.Chosen.Price)
		out = append(out, holder{l.Pool, price, len(l.Pods)})
	}
	on := map[string]int{} // index in out by node
	for _, at := range plan.Placements {
		i, known := on[at.Node]
		if !known {
			n := &s.Nodes[s.NodeIndex(at.Node)]
			price := p.Policy.Effective(n.Price)
			i, on[at.Node] = len(out), len(out)
			out = append(out, holder{pool: n.Pool, price: price})
		}
		out[i].pods++
	}
	return out
}

// resolution is that of times in the conditions of NodeClaims.
const resolution = time.Second

// leadOf returns how far ahead to launch the given number of nodes, given the costs per hour of the run's waiting
// pods and of the nodes.
func leadOf(waiting, price float64, nodes int, boots []time.Duration) time.Duration {
	return quantile(boots, math.Pow(waiting/(waiting+price), 1/float64(nodes))) + resolution
}

// costs returns the expected cost of launching nodes with the given lead, for idle nodes and for pods that wait for
// late ones, and the cost of the pods' waiting if nodes were launched once the pods exist.
func costs(waiting, price float64, lead time.Duration, boots []time.Duration) (ahead, after model.Price) {
	var early, late, all time.Duration
	for _, b := range boots {
		early, late, all = early+max(lead-b, 0), late+max(b-lead, 0), all+b
	}
	n := float64(len(boots))
	return model.Price((price*early.Hours() + waiting*late.Hours()) / n), model.Price(waiting * all.Hours() / n)
}

// Cents formats an amount of money, not a price per hour.
func Cents(p model.Price) string { return reason.Money(p.Dollars(), 4) }
