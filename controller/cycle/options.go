package cycle

import (
	"context"
	"log/slog"
	"time"

	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// State provides snapshots, as *cluster.State does.
type State interface {
	Snapshot() *model.Snapshot
	Changed() <-chan struct{}
	// Workloads returns how many controllers were seen to begin to want pods, and pods of controllers that cannot be read.
	Workloads() uint64
	// Nominate records the nodes on which the newest plan places pods and, for each pod that has a place on a node that
	// is not ready yet, that node's NodeClaim.
	Nominate(nodes map[string]bool, promised map[model.PodKey]string)
}

// Applier carries out plans: the controller's writes to the Kubernetes API, a forecast's changes a copy of the cluster.
type Applier interface {
	Apply(ctx context.Context, s *model.Snapshot, p model.Plan) Result
	// Report tells pods what a plan decided for them; claims maps launch IDs to NodeClaims.
	Report(s *model.Snapshot, p model.Plan, claims map[string]string)
	// Advance moves the commands in progress one step further, and returns the latest time at which it must be called
	// again; the zero time means after a change.
	Advance(ctx context.Context, s *model.Snapshot, stillTrue StillTrue) (Result, time.Time)
}

// StillTrue returns why a command must not be completed, the zero Reason if it may.
type StillTrue func(*model.Snapshot, model.Command) model.Reason

// Options configure a Driver and Run.
type Options struct {
	State   State       // required
	Applier Applier     // required
	Clock   clock.Clock // default the real one
	Policy  model.Policy
	// Recall makes every NodeClaim known to State, even those that the watch has not shown. Run calls it first. nil =
	// State knows them.
	Recall func(context.Context) error
	// BatchIdle is how long Run waits for further changes after a change, BatchMax the longest wait in total. If both
	// are 0, Run waits 10 to 60 ms and at most 300 ms, and 0.2 to 1 s once a controller wants pods.
	BatchIdle, BatchMax time.Duration
	// Promise makes pods keep the places that a plan gives them on nodes that are not ready yet (feature gate
	// Nominations).
	Promise bool
	// Leading is closed when this process leads; nil if it always does.
	Leading <-chan struct{}
	// Provision, Disrupt and StillTrue are the functions of package engine. Required.
	Provision, Disrupt func(*model.Snapshot, model.Policy) model.Plan
	StillTrue          func(*model.Snapshot, model.Policy, model.Command) model.Reason
	// Explain adds Reasons to the pods that the last plan of Provision leaves without a place, for as long as goOn
	// returns true: see engine.Provisioner. nil = Provision adds them.
	Explain func(plan *model.Plan, goOn func(verdicts int) bool)
	// Check returns the promises that a plan breaks; default check.Plan. A plan whose violations are all Unproven is
	// carried out: otherwise pods with many neighbours could block every other pod forever.
	Check func(*model.Snapshot, model.Policy, model.Plan) []check.Violation
	// Answered returns the pods that a plan of Provision leaves without exactly one answer, such as check.Answered. nil
	// = not checked. Check cannot do this, since plans of Disrupt answer no pods.
	Answered func(*model.Snapshot, model.Plan) []check.Violation
	// BadPlans is the folder in which plans that failed the check are saved; "" = they are not saved.
	BadPlans string
	// OnDecision is called at the end of each cycle, on Run's goroutine.
	OnDecision func(Decision)
	// Progress is called when a cycle begins and ends: at least every resync, unless a cycle hangs. May be nil.
	Progress func()
	Log      *slog.Logger // default slog.Default
}

// Decision is the outcome of one cycle. Its Snapshot and Plan are shared: do not change them.
type Decision struct {
	At       time.Time
	Pending  int // pending pods
	Nodes    int // nodes in the snapshot
	Snapshot *model.Snapshot
	Plan     model.Plan    // what was carried out: launches and removals together
	Bad      []string      // the violations of plans of which nothing, or only a part, was carried out
	Unproven []string      // promises that plans which were carried out may break
	Took     time.Duration // from the snapshot to the plan
	Weighed  time.Duration // how long the search for nodes to remove took
	Result   Result
}

// defaults sets the options that were left out.
func (o Options) defaults() Options {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Check == nil {
		o.Check = check.Plan
	}
	if o.Recall == nil {
		o.Recall = func(context.Context) error { return nil }
	}
	if o.Progress == nil {
		o.Progress = func() {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
