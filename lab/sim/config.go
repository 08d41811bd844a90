package sim

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/trace"
)

// Config describes a simulation. Where a field names a default, 0 means the default and a negative value means 0.
type Config struct {
	Trace   *trace.Trace
	Types   []model.InstanceType // the types that may be launched, sorted by Name; see Catalogue
	Decider Decider
	Daemons []model.Resources // requests of the pods that run on every node; nil = Agents

	// Interval is how often the simulation searches for nodes that are not worth their price, if anything changed;
	// default 30 s.
	Interval time.Duration
	// Pieces is how many pieces of such a search fit into one interval; the next interval continues where the search
	// stopped. Default 1000: a controller pauses for 20 ms between pieces.
	Pieces int
	// ConsolidateAfter is the pool's consolidateAfter.
	ConsolidateAfter time.Duration
	// Budget is the share of the pool's nodes that may be disrupted at a time, rounded up; default 0.1, as in
	// Karpenter.
	Budget float64
	// Boot is the median time from a node's launch until pods run on it, Spread the standard deviation of its
	// logarithm; defaults 40 s and 0.15.
	Boot   time.Duration
	Spread float64
	// Grace is the time from the eviction of a node's pods until the node is gone; default 10 s.
	Grace time.Duration
	// Successor is the time from a pod's eviction until its ReplicaSet has created the next one.
	Successor time.Duration
	// StartOver makes an evicted pod run its whole life again, like a job without checkpoints; otherwise it continues.
	StartOver bool
	// MostAllocated makes kube-scheduler prefer full nodes (scoringStrategy MostAllocated); by default it prefers empty
	// ones.
	MostAllocated bool

	Faults Faults
	Seed   uint64
	// CheckEvery n checks every n-th plan with engine/check; 0 = none.
	CheckEvery int
	// Progress is called from time to time with the simulated time.
	Progress func(at, end time.Duration)
	// OnDecision is called with every decision. Provisioning plans and searches for nodes to remove are separate
	// decisions.
	OnDecision func(cycle.Decision)

	audit func(*run) // after every event, in tests
}

// Faults are the faults to inject; Config.Seed determines when.
type Faults struct {
	// NoCapacity is the share of hours in which an offering has no capacity.
	NoCapacity float64
	// NotReady is the share of nodes that never become ready; they are terminated after 15 minutes.
	NotReady float64
	// Interruptions is the mean number of interruptions per hour of a spot instance.
	Interruptions float64
}

// Agents are the requests of a typical cluster's DaemonSet pods, 280m and 320 MiB in all: a CNI plugin, a proxy and a
// log shipper.
var Agents = []model.Resources{
	{model.CPU: 50, model.Memory: 64 << 20, model.Pods: 1},
	{model.CPU: 100, model.Memory: 128 << 20, model.Pods: 1},
	{model.CPU: 130, model.Memory: 128 << 20, model.Pods: 1},
}

func orDefault[T int | float64 | time.Duration](v *T, otherwise T) {
	switch {
	case *v == 0:
		*v = otherwise
	case *v < 0:
		*v = 0
	}
}

// defaults fills in the defaults, and returns an error if the configuration is invalid.
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
		return c, fmt.Errorf("simulate: the decider lacks Provision or Disrupt")
	case c.Interval < time.Second:
		return c, fmt.Errorf("simulate: an interval of %s: give at least 1s", c.Interval)
	case !share(c.Faults.NoCapacity) || !share(c.Faults.NotReady) || c.Budget > 1:
		return c, fmt.Errorf("simulate: budget and shares of faults: give numbers from 0 to 1")
	case c.Faults.Interruptions < 0:
		return c, fmt.Errorf("simulate: %v interruptions an hour: give 0 or more", c.Faults.Interruptions)
	}
	return c, nil
}
