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

// World is where snapshots come from; *world.World is one.
type World interface {
	Snapshot() *model.Snapshot
	Changed() <-chan struct{}
	// Nominate tells the machines on which the newest plan places pods, and the claims of those that are yet to be ready by the pods
	// that have their places there.
	Nominate(nodes map[string]bool, promised map[model.PodKey]string)
}

// Actor carries plans out; *act.Actor is one.
type Actor interface {
	// Recall makes the world know every NodeClaim there is, whatever its watch has shown.
	Recall(ctx context.Context) error
	Apply(ctx context.Context, s *model.Snapshot, p model.Plan) apply.Result
	// Report says on pods what a plan decided for them; claims are the NodeClaims by launch.
	Report(s *model.Snapshot, p model.Plan, claims map[string]string)
	// Advance brings the commands that are under way a step further, and says when it wants to be called again at the latest,
	// zero if that depends on changes only.
	Advance(ctx context.Context, s *model.Snapshot, stillTrue apply.StillTrue) (apply.Result, time.Time)
	// RemoveFillTaints takes away the taints filled-later-* of earlier versions, and reports whether none is left.
	RemoveFillTaints(ctx context.Context, s *model.Snapshot) bool
}

// Options are what Run needs.
type Options struct {
	World  World       // required
	Actor  Actor       // required
	Clock  clock.Clock // default the real one
	Policy model.Policy
	// BatchIdle and BatchMax are the quiet that is waited for after a change, and the longest wait; 0 = 10 to 60 ms, and 300 ms.
	BatchIdle, BatchMax time.Duration
	// Promise: pods keep the places that a plan gave them on machines that are yet to be ready (feature gate Nominations).
	Promise bool
	// Leading is closed when this process may act; nil if it always may.
	Leading <-chan struct{}
	// Provision and Disrupt are the engine's; replaced in tests.
	Provision, Disrupt func(*model.Snapshot, model.Policy) model.Plan
	// Explain gives the pods without a place in the plan that Provision made last their Reasons, as long as goOn lets it: see
	// engine.Provisioner. nil = Provision gave them.
	Explain   func(plan *model.Plan, goOn func(verdicts int) bool)
	StillTrue func(*model.Snapshot, model.Policy, model.Command) model.Reason
	// Check judges a plan and says what is wrong with it; default engine/check. A plan of which nothing worse is said than
	// Unproven is carried out: else pods with many neighbours could stop everybody for ever.
	Check func(*model.Snapshot, model.Policy, model.Plan) []check.Violation
	// BadPlans is the folder for plans that failed the check; "" = they are not saved.
	BadPlans string
	// OnDecision is called after each plan was carried out, on the loop's goroutine.
	OnDecision func(Decision)
	// Progress is called when a cycle begins and when it has ended: every resync at least, unless one hangs. nil = nobody asks.
	Progress func()
	Log      *slog.Logger // default slog.Default

	// answered says which pods a plan of engine.Provision leaves without exactly one answer. A plan of engine.Disrupt answers
	// none, and check.Plan cannot tell the two apart when both are empty.
	answered func(*model.Snapshot, model.Plan) []check.Violation
}

// Decision is one turn of the loop, for those who watch. Its Snapshot and Plan are shared: do not change them.
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
	if o.Progress == nil {
		o.Progress = func() {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
