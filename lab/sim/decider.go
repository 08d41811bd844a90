package sim

import (
	"time"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/compatible"
)

// Decider decides which nodes are launched and removed: the options of a cycle.Driver that concern decisions. The
// simulation adds State, Applier and Clock. Concurrent simulations must not share a Decider.
type Decider struct {
	Name string
	cycle.Options
	// NominatedFor is how long a node stays nominated after a plan that relies on it.
	NominatedFor time.Duration
}

// Nodeless decides as the controller does; with Promise set, as the controller does with the feature gate
// Nominations.
func Nodeless(policy model.Policy) Decider {
	provisioner, disrupter := engine.NewProvisioner(), engine.NewDisrupter()
	var at *model.Snapshot
	var steps int
	var search interface{ From(model.Cursor) model.Plan }
	return Decider{Name: "nodeless", NominatedFor: 10 * time.Second, Options: cycle.Options{
		Policy: policy, Provision: provisioner.Decide, Explain: provisioner.Explain, Answered: check.Answered,
		Disrupt: func(s *model.Snapshot, p model.Policy) model.Plan {
			if s != at || p.MaxWhatIfs != steps { // otherwise this is another piece of the same search
				at, steps, search = s, p.MaxWhatIfs, disrupter.NewSearch(s, p)
			}
			return search.From(p.After)
		},
		StillTrue: engine.StillTrue, Check: check.Plan,
	}}
}

// Compatible decides as Karpenter does. It batches pods until none has arrived for 1 s, for at most 10 s, and a node
// stays nominated for 20 s (sigs.k8s.io/karpenter/pkg/controllers/disruption). What Karpenter loses by waiting 15 s
// for each validation is not modelled: a baseline that is better than the original is harder to beat. Its plans are
// not checked.
func Compatible() Decider {
	return Decider{Name: "compatible", NominatedFor: 20 * time.Second, Options: cycle.Options{
		Provision: func(s *model.Snapshot, _ model.Policy) model.Plan { return compatible.Provision(s) },
		Disrupt:   func(s *model.Snapshot, _ model.Policy) model.Plan { return compatible.Disrupt(s) },
		StillTrue: func(*model.Snapshot, model.Policy, model.Command) (none model.Reason) { return none },
		BatchIdle: time.Second, BatchMax: 10 * time.Second,
	}}
}
