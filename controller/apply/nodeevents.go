package apply

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/internal/kit/events"
)

// How long an event is not repeated on the same object (sigs.k8s.io/karpenter v1.14.1,
// pkg/controllers/disruption/events).
const (
	launchingPause        = time.Hour
	waitingPause          = time.Hour
	blockedPause          = 15 * time.Minute
	unconsolidatablePause = 15 * time.Minute
	poolPause             = time.Minute
	maxPause              = time.Hour
)

// nodeReporter records, at a limited rate, events that say why nodes are removed or stay. It is safe for concurrent
// use.
type nodeReporter struct {
	o       Options
	limiter *rate.Limiter

	mu       sync.Mutex
	recorded map[event]time.Time
	swept    time.Time
}

type event struct {
	object       types.UID
	reason, text string
}

func newNodeReporter(o Options) *nodeReporter {
	return &nodeReporter{o: o, recorded: map[event]time.Time{}, limiter: rate.NewLimiter(10, 100)}
}

// once records an event unless the same was recorded within the pause.
func (r *nodeReporter) once(o client.Object, pause time.Duration, reason, message string) {
	if r.due(event{o.GetUID(), reason, message}, pause) {
		r.o.Recorder.Event(o, corev1.EventTypeNormal, reason, events.Message(message))
	}
}

// stays records why a node stays, unless an event with that reason was recorded on the object within the pause. It
// ignores the message, which names other nodes, pods and prices and changes all the time.
func (r *nodeReporter) stays(o client.Object, pause time.Duration, reason, message string) {
	if r.due(event{object: o.GetUID(), reason: reason}, pause) {
		r.o.Recorder.Event(o, corev1.EventTypeNormal, reason, events.Message(message))
	}
}

func (r *nodeReporter) due(e event, pause time.Duration) bool {
	now := r.o.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swept) > maxPause {
		maps.DeleteFunc(r.recorded, func(_ event, at time.Time) bool { return now.Sub(at) > maxPause })
		r.swept = now
	}
	if at, known := r.recorded[e]; known && now.Sub(at) < pause || !r.limiter.AllowN(now, 1) {
		return false
	}
	r.recorded[e] = now
	return true
}

// record records an event on a claim and its Node.
func (r *nodeReporter) record(claim *karpv1.NodeClaim, kind, reason, message string) {
	r.o.Recorder.Event(claim, kind, reason, events.Message(message))
	if node := r.o.State.Node(claim.Status.NodeName); node != nil {
		r.o.Recorder.Event(node, kind, reason, events.Message(message))
	}
}

// removed records why a node is removed.
func (r *nodeReporter) removed(claim *karpv1.NodeClaim, node *corev1.Node, m *model.Removal) {
	const reason = "DisruptionTerminating"
	r.o.Recorder.Event(claim, corev1.EventTypeNormal, reason, "Disrupting NodeClaim: "+string(m.Method))
	if node != nil {
		r.o.Recorder.Event(node, corev1.EventTypeNormal, reason, "Disrupting Node: "+string(m.Method))
	}
}

// kept records why nodes stay, unless the reason passes soon, and on NodePools that their budgets or windows keep
// nodes.
func (r *nodeReporter) kept(s *model.Snapshot, kept []model.Kept) {
	if len(kept) == 0 {
		return
	}
	nodes := map[string]*model.Node{}
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	byBudget, byWindow := map[string]bool{}, map[string]bool{}
	for i := range kept {
		why, n := &kept[i].Reason, nodes[kept[i].Node]
		if n == nil {
			continue
		}
		if why.Rule == model.RuleBudget {
			byBudget[n.Pool] = true
			continue
		}
		if np := r.o.State.NodePool(n.Pool); why.Rule == model.RuleWindow && np != nil && !byWindow[n.Pool] {
			byWindow[n.Pool] = true
			r.once(np, maxPause, "DisruptionBlocked", reason.Undone(*why))
		}
		event, pause := keptEvent(why)
		claim := r.o.State.Claim(n.Claim)
		if event == "" || claim == nil {
			continue
		}
		text := reason.Undone(*why)
		r.stays(claim, pause, event, text)
		if node := r.o.State.Node(n.Name); node != nil {
			r.stays(node, pause, event, text)
		}
	}
	for i := range s.Pools {
		if p := &s.Pools[i]; byBudget[p.Name] {
			r.budget(p)
		}
	}
}

// keptEvent returns the event that says why a node stays; "" for a reason that passes soon.
func keptEvent(why *model.Reason) (event string, pause time.Duration) {
	if wasCutShort(why) || len(why.Group) > 0 {
		return "", 0
	}
	switch why.Rule {
	case model.RuleDoNotDisrupt, model.RuleEvictionBlocked, model.RuleNoHelp, model.RuleUnclear,
		model.RulePreflight:
		return "DisruptionBlocked", blockedPause
	case model.RuleNever, model.RuleWhenEmpty, model.RuleNoPlace, model.RuleNotCheaper, model.RuleMoreNodes,
		model.RuleSpotToSpot, model.RuleBalanced, model.RulePayback, model.RuleFragile, model.RuleNoPrice,
		model.RuleSmallSaving:
		return "Unconsolidatable", unconsolidatablePause
	}
	return "", 0
}

// wasCutShort reports whether a search ran out of steps: the next one may succeed.
func wasCutShort(why *model.Reason) bool {
	return why.Rule == model.RuleSteps || why.Rule == model.RuleNoPlace && why.Detail == string(model.RuleSteps) ||
		slices.ContainsFunc(why.Pools, func(v model.PoolVerdict) bool { return v.Rule == model.RuleSteps })
}

// budget records the disruption reasons for which a pool's budgets allow no disruption now.
func (r *nodeReporter) budget(p *model.Pool) {
	np := r.o.State.NodePool(p.Name)
	if np == nil || r.o.State.Resting(p.Name) {
		return
	}
	block := func(what string) {
		r.once(np, poolPause, "DisruptionBlocked",
			"No allowed disruptions "+what+"due to blocking budget")
	}
	d := &p.Disruption
	if d.AllowedEmpty <= 0 && d.AllowedDrifted <= 0 && d.AllowedUnderused <= 0 {
		block("")
		return
	}
	for _, by := range []struct {
		method  model.Method
		allowed int
	}{{model.Empty, d.AllowedEmpty}, {model.Drifted, d.AllowedDrifted}, {model.Underutilized, d.AllowedUnderused}} {
		if by.allowed <= 0 {
			block("for disruption reason " + string(by.method) + " ")
		}
	}
}
