package sim

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/trace"
)

// Config is what is simulated. Zero values are the defaults that are said; for those a negative time is none.
type Config struct {
	Trace   *trace.Trace
	Types   []model.InstanceType // what may be launched, by Name: see Catalogue
	Decider Decider
	Daemons []model.Resources // what runs on every machine; nil = Agents

	// Interval is how often machines are looked at that may not be worth their price, if anything changed; 0 = 30 s.
	Interval time.Duration
	// Pieces is how many pieces of a search for such machines fall into one interval; the next one goes on where it
	// stopped. 0 = 1000: a controller pauses for 20 ms between them.
	Pieces int
	// ConsolidateAfter is the pool's.
	ConsolidateAfter time.Duration
	// Budget is the share of its machines that the pool lets go at a time, rounded up; 0 = 0.1, Karpenter's default.
	Budget float64
	// Boot is the median time from a machine's launch until pods run on it, Spread the standard deviation of its
	// logarithm; 0 = 40 s, 0.15.
	Boot   time.Duration
	Spread float64
	// Grace is the time from a pod's eviction until its machine is gone; 0 = 10 s.
	Grace time.Duration
	// Successor is the time from a pod's eviction until the next one of its ReplicaSet is there; 0 = none.
	Successor time.Duration
	// StartOver has a pod that was moved run its whole life again, as a job without checkpoints; else it runs on.
	StartOver bool
	// MostAllocated has kube-scheduler prefer full machines (scoringStrategy MostAllocated); else empty ones, its default.
	MostAllocated bool

	Faults Faults
	Seed   uint64
	// CheckEvery has engine/check judge each so many-th plan; 0 = none.
	CheckEvery int
	// Progress is called now and then with the time that was simulated.
	Progress func(at, end time.Duration)

	audit func(*run) // after every event, in tests
}

// Faults are what goes wrong, by Config.Seed.
type Faults struct {
	// NoCapacity is the share of the hours in which a type has no capacity.
	NoCapacity float64
	// NotReady is the share of machines that never get ready; they are given up after 15 minutes.
	NotReady float64
	// Interruptions is how often an hour a spot machine is interrupted on average.
	Interruptions float64
}

// Agents are the requests of a usual cluster's daemons, 280m and 320 MiB in all: an address plugin, a proxy and a log
// shipper.
var Agents = []model.Resources{
	{model.CPU: 50, model.Memory: 64 << 20, model.Pods: 1},
	{model.CPU: 100, model.Memory: 128 << 20, model.Pods: 1},
	{model.CPU: 130, model.Memory: 128 << 20, model.Pods: 1},
}

// Decider is who says which machines are launched and which go.
type Decider struct {
	Name      string
	Provision func(*model.Snapshot) model.Plan
	// Disrupt goes on where the last call stopped, if it did: see model.Plan.After.
	Disrupt func(*model.Snapshot, model.Cursor) model.Plan
	// StillTrue is asked once a command's replacements are ready; nil = nobody is.
	StillTrue func(*model.Snapshot, model.Command) model.Reason
	// BatchIdle is how long no further pod must have come before pods that wait get a plan, BatchMax how long that takes
	// at most.
	BatchIdle, BatchMax time.Duration
	// Nominated is how long a machine stays after a plan that counted on it.
	Nominated time.Duration
	// Nominates: kube-scheduler is told the places that a plan gives (status.nominatedNodeName), and keeps room for them.
	Nominates bool
	// Judge says what is wrong with a plan; nil = nobody does.
	Judge func(s *model.Snapshot, plan model.Plan, answered bool) []string
}

func orDefault[T int | float64 | time.Duration](v *T, otherwise T) {
	switch {
	case *v == 0:
		*v = otherwise
	case *v < 0:
		*v = 0
	}
}

// defaults fills in what was left out.
func (c Config) defaults() (Config, error) {
	orDefault(&c.Interval, 30*time.Second)
	orDefault(&c.Pieces, 1000)
	orDefault(&c.Budget, 0.1)
	orDefault(&c.Boot, 40*time.Second)
	orDefault(&c.Spread, 0.15)
	orDefault(&c.Grace, 10*time.Second)
	if c.Daemons == nil {
		c.Daemons = Agents
	}
	share := func(v float64) bool { return v >= 0 && v <= 1 }
	switch {
	case c.Trace == nil || len(c.Trace.Pods) == 0:
		return c, fmt.Errorf("simulate: the trace has no pods")
	case len(c.Types) == 0:
		return c, fmt.Errorf("simulate: the catalogue has no instance types")
	case c.Decider.Provision == nil || c.Decider.Disrupt == nil:
		return c, fmt.Errorf("simulate: nobody decides")
	case c.Interval < time.Second:
		return c, fmt.Errorf("simulate: an interval of %s: machines are looked at once a second at most", c.Interval)
	case !share(c.Faults.NoCapacity) || !share(c.Faults.NotReady) || c.Budget > 1:
		return c, fmt.Errorf("simulate: shares are from 0 to 1")
	case c.Faults.Interruptions < 0:
		return c, fmt.Errorf("simulate: %v interruptions an hour", c.Faults.Interruptions)
	}
	return c, nil
}
