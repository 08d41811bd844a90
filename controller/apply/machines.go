package apply

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// How long the same is not said again of the same object (sigs.k8s.io/karpenter v1.14.1,
// pkg/controllers/disruption/events).
const (
	launchingSaid        = time.Hour
	waitingSaid          = time.Hour
	blockedSaid          = 15 * time.Minute
	unconsolidatableSaid = 15 * time.Minute
	poolSaid             = time.Minute
	mostSaid             = time.Hour
)

// machineReporter says on machines and pools why they go or stay, sparingly. It is safe for concurrent use.
type machineReporter struct {
	o     Options
	mu    sync.Mutex
	said  map[remark]time.Time
	rate  bucket
	swept time.Time
}

// remark is what was said of an object.
type remark struct {
	uid          types.UID
	reason, text string
}

func newMachineReporter(o Options) *machineReporter {
	return &machineReporter{o: o, said: map[remark]time.Time{}, rate: bucket{perSecond: 10, most: 100}}
}

// once says something on an object unless it was said within that time.
func (r *machineReporter) once(o client.Object, within time.Duration, kind, reason, message string) {
	now, key := r.o.Clock.Now(), remark{o.GetUID(), reason, message}
	r.mu.Lock()
	at, known := r.said[key]
	quiet := known && now.Sub(at) < within || !r.rate.take(now)
	if !quiet {
		r.said[key] = now
	}
	if now.Sub(r.swept) > mostSaid {
		for k, at := range r.said {
			if now.Sub(at) > mostSaid {
				delete(r.said, k)
			}
		}
		r.swept = now
	}
	r.mu.Unlock()
	if !quiet {
		r.o.Recorder.Event(o, kind, reason, shortened(message))
	}
}

// tell says something on a claim and its Node.
func (r *machineReporter) tell(claim *karpv1.NodeClaim, kind, reason, message string) {
	r.o.Recorder.Event(claim, kind, reason, shortened(message))
	if node := r.o.State.Node(claim.Status.NodeName); node != nil {
		r.o.Recorder.Event(node, kind, reason, shortened(message))
	}
}

// kept says on machines that stay why they do, where that is somebody's will or a matter of price, and on pools that
// their budgets hold machines back.
func (r *machineReporter) kept(s *model.Snapshot, kept []model.Kept) {
	if len(kept) == 0 {
		return
	}
	nodes := map[string]*model.Node{}
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	held, timed := map[string]bool{}, map[string]bool{}
	for i := range kept {
		k := &kept[i]
		n := nodes[k.Node]
		if n == nil {
			continue
		}
		if k.Reason.Rule == model.RuleBudget {
			held[n.Pool] = true
			continue
		}
		if np := r.o.State.NodePool(n.Pool); k.Reason.Rule == model.RuleWindow && np != nil && !timed[n.Pool] {
			timed[n.Pool] = true
			r.once(np, mostSaid, corev1.EventTypeNormal, "DisruptionBlocked", reason.Undone(k.Reason))
		}
		event, within := verdictOn(&k.Reason)
		claim := r.o.State.Claim(n.Claim)
		if event == "" || claim == nil {
			continue
		}
		text := reason.Undone(k.Reason)
		r.once(claim, within, corev1.EventTypeNormal, event, text)
		if node := r.o.State.Node(n.Name); node != nil {
			r.once(node, within, corev1.EventTypeNormal, event, text)
		}
	}
	for i := range s.Pools {
		if p := &s.Pools[i]; held[p.Name] {
			r.budget(p)
		}
	}
}

// verdictOn is the event for why a machine stays; "" for what passes by itself.
func verdictOn(why *model.Reason) (reason string, within time.Duration) {
	if wasCut(why) || len(why.Group) > 0 {
		return "", 0
	}
	switch why.Rule {
	case model.RuleDoNotDisrupt, model.RuleEvictionBlocked, model.RuleNoHelp, model.RuleUnclear:
		return "DisruptionBlocked", blockedSaid
	case model.RuleNever, model.RuleWhenEmpty, model.RuleNoPlace, model.RuleNotCheaper, model.RuleMoreNodes,
		model.RuleSpotToSpot,
		model.RuleBalanced, model.RulePayback, model.RuleFragile, model.RuleNoPrice, model.RuleSmallSaving:
		return "Unconsolidatable", unconsolidatableSaid
	}
	return "", 0
}

// wasCut reports whether a reason is only that the search for places was not carried to its end: the next one may
// find one.
func wasCut(why *model.Reason) bool {
	cut := func(v model.PoolVerdict) bool { return v.Rule == model.RuleSteps }
	return why.Rule == model.RuleSteps || why.Rule == model.RuleNoPlace && why.Detail == string(model.RuleSteps) ||
		slices.ContainsFunc(why.Pools, cut)
}

// budget says on a pool for which reasons its budgets let no machine go now.
func (r *machineReporter) budget(p *model.Pool) {
	np := r.o.State.NodePool(p.Name)
	if np == nil || r.o.State.Resting(p.Name) {
		return
	}
	d := &p.Disruption
	if d.AllowedEmpty <= 0 && d.AllowedDrifted <= 0 && d.AllowedUnderused <= 0 {
		r.once(np, poolSaid, corev1.EventTypeNormal, "DisruptionBlocked", "No allowed disruptions due to blocking budget")
		return
	}
	for _, by := range []struct {
		method  model.Method
		allowed int
	}{{model.Empty, d.AllowedEmpty}, {model.Drifted, d.AllowedDrifted}, {model.Underutilized, d.AllowedUnderused}} {
		if by.allowed <= 0 {
			r.once(np, poolSaid, corev1.EventTypeNormal, "DisruptionBlocked",
				"No allowed disruptions for disruption reason "+string(by.method)+" due to blocking budget")
		}
	}
}
