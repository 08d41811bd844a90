// Package whatif says what would become of a cluster if something about it were changed. It carries a copy of the
// cluster forward on virtual time: the engine decides as it does in the controller, controller/cluster makes its
// snapshots, and this package does what a cloud, kube-scheduler and the controllers of Kubernetes would do, as simply
// as will do. Nothing is written to any cluster.
//
// What it cannot know is said in Outcome.Assumed or in docs/what-would-change-if.md: how pods behave while they start
// and end, which of several equal nodes kube-scheduler takes, and what the cloud has in stock.
package whatif

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
)

// Input is what a forecast is made of.
type Input struct {
	Cluster *capture.Cluster // read with Options.Keep
	Changes []Change
	Policy  model.Policy
	// Gates are the optional parts of the contract that the controller has; those that the cluster shows it to have
	// count as well.
	Gates gates.Gates
	// Boot is how long machines take from their launch until pods run on them; 0 = as long as those of the cluster took.
	Boot time.Duration
	// Horizon is how far to look; 0 = a day.
	Horizon time.Duration
	// MaxPods and MaxNodes bound what the changes may add: pods of Deployments, and machines of static NodePools. 0 = as
	// many as Kubernetes is made for: https://kubernetes.io/docs/setup/best-practices/cluster-large/.
	MaxPods, MaxNodes int
}

// What Kubernetes is made for.
const (
	largestPods  = 150_000
	largestNodes = 5_000
)

// Machine is a machine as it is told of.
type Machine struct {
	Name           string  `json:"name"`
	Pool           string  `json:"nodePool,omitempty"`
	Type           string  `json:"type,omitempty"`
	Zone           string  `json:"zone,omitempty"`
	CapacityType   string  `json:"capacityType,omitempty"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// What a Step does.
const (
	Launch  = "Launch"
	Replace = "Replace" // machines go once others are ready, or once their pods have room elsewhere
	Remove  = "Remove"
	Undo    = "Undo"
)

// Step is one thing that would happen.
type Step struct {
	AfterSeconds float64      `json:"afterSeconds"`
	What         string       `json:"what"`
	Method       model.Method `json:"method,omitempty"`
	Goes         []Machine    `json:"goes,omitempty"`
	Comes        []Machine    `json:"comes,omitempty"`
	Pods         int          `json:"pods"` // that have to move, or for which something is launched
	Budget       string       `json:"budget,omitempty"`
	Why          string       `json:"why,omitempty"`
	// Anyway: it would happen without the change, too.
	Anyway bool `json:"anyway,omitempty"`
}

// Eviction is a pod that has to leave a machine.
type Eviction struct {
	Pod          string  `json:"pod"`
	Node         string  `json:"node"`
	AfterSeconds float64 `json:"afterSeconds"`
	Anyway       bool    `json:"anyway,omitempty"`
}

// Without is a pod that has no place, or a machine that stays, and why.
type Without struct {
	Name   string `json:"name"`
	Why    string `json:"why"`
	Before bool   `json:"before,omitempty"` // it is so without the change, too
}

// State is what a cluster holds.
type State struct {
	Nodes           int     `json:"nodes"`
	DollarsPerHour  float64 `json:"dollarsPerHour"`
	DollarsPerMonth float64 `json:"dollarsPerMonth"` // of HoursPerMonth
}

// HoursPerMonth is how long a month is, as in AWS's own price calculator.
const HoursPerMonth = 730

// Outcome is what would become of the cluster. Lists are in the order of time, then of names.
type Outcome struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Changes    []string   `json:"changes"`
	Before     State      `json:"before"`
	Unchanged  State      `json:"unchanged"` // what it would come to without the change
	After      State      `json:"after"`
	Seconds    float64    `json:"seconds"` // until nothing changes any more
	Settled    bool       `json:"settled"` // false: more is to come after the horizon
	Steps      []Step     `json:"steps"`
	Evictions  []Eviction `json:"evictions"`
	Removed    []Machine  `json:"removed"` // machines that are there now and would not be in the end
	Added      []Machine  `json:"added"`   // machines that would be there in the end and are not now
	Unplaced   []Without  `json:"unplaced"`
	Kept       []Without  `json:"kept"` // drifted machines that would stay, and why
	// DaemonsPending are pods of DaemonSets for which there is no room on their nodes.
	DaemonsPending []DaemonPending `json:"daemonsPending"`
	Assumed        []string        `json:"assumed"`
	BootTime       float64         `json:"bootSeconds"`
}

// Differs reports whether the change makes any difference.
func (o *Outcome) Differs() bool {
	for _, s := range o.Steps {
		if !s.Anyway {
			return true
		}
	}
	for _, w := range append(o.Unplaced, o.Kept...) {
		if !w.Before {
			return true
		}
	}
	if slices.ContainsFunc(o.DaemonsPending, func(d DaemonPending) bool { return !d.Before }) {
		return true
	}
	return o.After != o.Unchanged
}

// Run finds out what would happen with the changes and, to tell what is due to them, what would happen without. It
// fails with a *CannotWorkError if a NodePool or node class could launch nothing as the changes leave it.
func Run(ctx context.Context, in Input) (*Outcome, error) {
	if in.Horizon <= 0 {
		in.Horizon = 24 * time.Hour
	}
	in.MaxPods, in.MaxNodes = cmp.Or(in.MaxPods, largestPods), cmp.Or(in.MaxNodes, largestNodes)
	in.Gates = evident(in.Gates, in.Cluster.Objects())
	a, err := applyAll(ctx, in)
	if err != nil {
		return nil, err
	}
	before, err := newRun(ctx, in, in.Cluster.Objects(), nil)
	if err != nil {
		return nil, err
	}
	if err := before.play(ctx); err != nil {
		return nil, err
	}
	after, err := newRun(ctx, in, a.objects, in.Cluster.Objects())
	if err != nil {
		return nil, err
	}
	if err := after.cannotWork(ctx, a, before); err != nil {
		return nil, err
	}
	if err := after.play(ctx); err != nil {
		return nil, err
	}
	out := after.outcome()
	out.Changes, out.Unchanged, out.Before = a.said, before.state(), before.first
	out.compare(before.outcome())
	return out, nil
}

// compare marks what would happen without the change as well.
func (o *Outcome) compare(other *Outcome) {
	steps, evicted, without := map[string]int{}, map[string]bool{}, map[string]bool{}
	key := func(s *Step) string {
		text := s.What + string(s.Method)
		for _, m := range s.Goes {
			text += " " + m.Name
		}
		if len(s.Goes) == 0 {
			for _, m := range s.Comes {
				text += " " + m.Pool + m.Type + m.Zone + m.CapacityType
			}
		}
		return text
	}
	for i := range other.Steps {
		steps[key(&other.Steps[i])]++
	}
	for _, e := range other.Evictions {
		evicted[e.Pod] = true
	}
	for _, w := range append(other.Unplaced, other.Kept...) {
		without[w.Name] = true
	}
	for i := range o.Steps {
		if k := key(&o.Steps[i]); steps[k] > 0 {
			steps[k]--
			o.Steps[i].Anyway = true
		}
	}
	for i := range o.DaemonsPending {
		d := &o.DaemonsPending[i]
		d.Before = slices.ContainsFunc(other.DaemonsPending,
			func(x DaemonPending) bool { return x.DaemonSet == d.DaemonSet && x.Node == d.Node })
	}
	for i := range o.Evictions {
		o.Evictions[i].Anyway = evicted[o.Evictions[i].Pod]
	}
	for _, list := range [][]Without{o.Unplaced, o.Kept} {
		for i := range list {
			list[i].Before = without[list[i].Name]
		}
	}
}
