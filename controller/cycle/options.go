package cycle

import (
	"context"
	"log/slog"
	"time"

	"github.com/nodeless/nodeless/controller/apply"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// State is where snapshots come from; *cluster.World is one.
type State interface {
	Snapshot() *model.Snapshot
	Changed() <-chan struct{}
	// Nominate names the nodes on which the newest plan places pods, and the NodeClaims, not ready yet, on which it
	// places pods.
	Nominate(nodes map[string]bool, promised map[model.PodKey]string)
}

// Applier carries plans out: the controller's writes them to the API, a forecast's changes its copy of the cluster.
type Applier interface {
	Apply(ctx context.Context, s *model.Snapshot, p model.Plan) apply.Result
	// Report says on pods what a plan decided for them; claims are the NodeClaims by launch.
	Report(s *model.Snapshot, p model.Plan, claims map[string]string)
	// Advance carries on the commands that are under way, and says when it wants to be called again at the latest, zero if
	// that depends on changes only.
	Advance(ctx context.Context, s *model.Snapshot, stillTrue apply.StillTrue) (apply.Result, time.Time)
}

// Options are what a Driver and Run need.
type Options struct {
	State   State       // required
	Applier Applier     // required
	Clock   clock.Clock // default the real one
	Policy  model.Policy
	// Recall makes State know every NodeClaim there is, whatever its watch has shown; Run calls it first. nil = State
	// knows.
	Recall func(context.Context) error
	// RemoveFillTaints takes away the taints filled-later-* of earlier versions, and reports whether none is left; Run
	// calls it until then. nil = there are none.
	RemoveFillTaints func(context.Context, *model.Snapshot) bool
	// BatchIdle and BatchMax are the quiet that is waited for after a change, and the longest wait; 0 = 10 to 60 ms, and
	// 300 ms.
	BatchIdle, BatchMax time.Duration
	// Promise: pods keep the places that a plan gave them on machines that are yet to be ready (feature gate Nominations).
	Promise bool
	// Leading is closed when this process may act; nil if it always may.
	Leading <-chan struct{}
	// Provision and Disrupt are the engine's; replaced in tests.
	Provision, Disrupt func(*model.Snapshot, model.Policy) model.Plan
	// Explain gives the pods without a place in the plan that Provision made last their Reasons, as long as goOn lets
	// it: see engine.Provisioner. nil = Provision gave them.
	Explain   func(plan *model.Plan, goOn func(verdicts int) bool)
	StillTrue func(*model.Snapshot, model.Policy, model.Command) model.Reason
	// Check judges a plan and says what is wrong with it; default engine/check. A plan of which nothing worse is said than
	// Unproven is carried out: else pods with many neighbours could stop everybody for ever.
	Check func(*model.Snapshot, model.Policy, model.Plan) []check.Violation
	// BadPlans is the folder for plans that failed the check; "" = they are not saved.
	BadPlans string
	// OnDecision is called at the end of each cycle, on Run's goroutine.
	OnDecision func(Decision)
	// Progress is called when a cycle begins and when it has ended: every resync at least, unless one hangs. nil =
	// nobody asks.
	Progress func()
	Log      *slog.Logger // default slog.Default

	// answered says which pods a plan of engine.Provision leaves without exactly one answer. A plan of engine.Disrupt
	// answers none, and check.Plan cannot tell the two apart when both are empty.
	answered func(*model.Snapshot, model.Plan) []check.Violation
}

// Decision is what one cycle came to. Its Snapshot and Plan are shared: do not change them.
type Decision struct {
	At       time.Time
	Pending  int // pods that waited unbound
	Nodes    int // machines in the snapshot
	Snapshot *model.Snapshot
	Plan     model.Plan    // what was carried out: launches and removals together
	Bad      []string      // why a plan was not carried out
	Unproven []string      // promises that a plan which was carried out may break
	Took     time.Duration // from the snapshot to the plan
	Weighed  time.Duration // how long it took to decide which machines go
	Result   apply.Result
}

// defaults fills in what was left out.
func (o Options) defaults() Options {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Check == nil {
		o.Check = check.Plan
	}
	if o.Provision == nil {
		x := engine.NewProvisioner()
		o.Provision, o.Explain, o.answered = x.Decide, x.Explain, check.Answered
	}
	if o.Disrupt == nil {
		o.Disrupt = engine.Disrupt
	}
	if o.StillTrue == nil {
		o.StillTrue = engine.StillTrue
	}
	if o.Recall == nil {
		o.Recall = func(context.Context) error { return nil }
	}
	if o.RemoveFillTaints == nil {
		o.RemoveFillTaints = func(context.Context, *model.Snapshot) bool { return true }
	}
	if o.Progress == nil {
		o.Progress = func() {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
