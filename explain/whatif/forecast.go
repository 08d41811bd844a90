// Package whatif forecasts the effects of a change to a cluster. It carries a copy of the cluster forward on virtual
// time: the engine decides as in the controller, controller/cluster makes the snapshots, and this package stands in for
// the cloud, kube-scheduler and the controllers of Kubernetes. It writes nothing to any cluster.
//
// Outcome.Assumed and docs/what-would-change-if.md say what it cannot know: how pods behave while they start and end,
// which of several equal nodes kube-scheduler chooses, and what capacity the cloud has.
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

// Input is what a forecast starts from.
type Input struct {
	Cluster *capture.Cluster // read with Options.Keep
	Changes []Change
	// Namespace is the default for changed objects that name none.
	Namespace string
	Policy    model.Policy
	// Gates are the controller's feature gates. Run adds those that are evidently on in the cluster.
	Gates gates.Gates
	// Boot is the time from a node's launch until pods run on it; 0 = as measured on the cluster's nodes.
	Boot time.Duration
	// Horizon is how far to look ahead; 0 = a day.
	Horizon time.Duration
	// MaxPods and MaxNodes bound what the changes may add: pods of Deployments, and nodes of static NodePools. 0 = the
	// limits of Kubernetes: https://kubernetes.io/docs/setup/best-practices/cluster-large/.
	MaxPods, MaxNodes int
}

// Limits of Kubernetes.
const (
	maxPods  = 150_000
	maxNodes = 5_000
)

// Node is a node of a forecast.
type Node struct {
	Name           string  `json:"name"`
	Pool           string  `json:"nodePool,omitempty"`
	Type           string  `json:"type,omitempty"`
	Zone           string  `json:"zone,omitempty"`
	CapacityType   string  `json:"capacityType,omitempty"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// Actions of a Step.
const (
	Launch  = "Launch"
	Replace = "Replace" // nodes are removed once others are ready, or once their pods have room elsewhere
	Remove  = "Remove"
	Keep    = "Undo"
)

// Step is one action of a forecast.
type Step struct {
	AfterSeconds float64      `json:"afterSeconds"`
	Action       string       `json:"what"`
	Method       model.Method `json:"method,omitempty"`
	Removed      []Node       `json:"goes,omitempty"`
	Launched     []Node       `json:"comes,omitempty"`
	Pods         int          `json:"pods"` // evicted, or given a launched node
	Budget       string       `json:"budget,omitempty"`
	Why          string       `json:"why,omitempty"`
	// Anyway means that the step happens without the change, too.
	Anyway bool `json:"anyway,omitempty"`
}

// Eviction is a pod that is evicted from a node.
type Eviction struct {
	Pod          string  `json:"pod"`
	Node         string  `json:"node"`
	AfterSeconds float64 `json:"afterSeconds"`
	Anyway       bool    `json:"anyway,omitempty"`
}

// Finding is a pod that stays pending, or a node that stays, and why.
type Finding struct {
	Name   string `json:"name"`
	Why    string `json:"why"`
	Before bool   `json:"before,omitempty"` // also true without the change
}

// State is the size and price of a cluster.
type State struct {
	Nodes           int     `json:"nodes"`
	DollarsPerHour  float64 `json:"dollarsPerHour"`
	DollarsPerMonth float64 `json:"dollarsPerMonth"` // for HoursPerMonth
}

// HoursPerMonth is the length of a month in hours, as in AWS's price calculator.
const HoursPerMonth = 730

// Outcome is the result of a forecast. Lists are sorted by time, then by name.
type Outcome struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Changes    []string   `json:"changes"`
	Before     State      `json:"before"`
	Unchanged  State      `json:"unchanged"` // what it would become without the change
	After      State      `json:"after"`
	Seconds    float64    `json:"seconds"` // until nothing changes any more
	Settled    bool       `json:"settled"` // false: more happens after the horizon
	Steps      []Step     `json:"steps"`
	Evictions  []Eviction `json:"evictions"`
	Removed    []Node     `json:"removed"` // nodes that exist now but not at the end
	Added      []Node     `json:"added"`   // nodes that exist at the end but not now
	Unplaced   []Finding  `json:"unplaced"`
	Kept       []Finding  `json:"kept"` // drifted nodes that stay, and why
	// DaemonsPending are DaemonSet pods without room on their nodes.
	DaemonsPending []DaemonPending `json:"daemonsPending"`
	// Hazards are problems before the change is complete, by kind.
	Hazards  []Hazard `json:"hazards,omitempty"`
	Assumed  []string `json:"assumed"`
	BootTime float64  `json:"bootSeconds"`
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
	return o.After != o.Unchanged || len(o.Hazards) > 0
}

// Run forecasts the cluster with the changes and, to isolate their effects, without them. It fails with a
// *CannotWorkError if a NodePool or node class could launch nothing after the changes.
func Run(ctx context.Context, in Input) (*Outcome, error) {
	if in.Horizon <= 0 {
		in.Horizon = 24 * time.Hour
	}
	in.MaxPods, in.MaxNodes = cmp.Or(in.MaxPods, maxPods), cmp.Or(in.MaxNodes, maxNodes)
	in.Gates = gatesInUse(in.Gates, in.Cluster.Objects())
	for i := range in.Changes {
		in.Changes[i].Namespace = cmp.Or(in.Changes[i].Namespace, in.Namespace)
	}
	a, err := applyAll(ctx, in)
	if err != nil {
		return nil, err
	}
	before, err := newRun(ctx, in, in.Cluster.Objects(), nil)
	if err != nil {
		return nil, err
	}
	was := before.facts()
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
	then := after.facts()
	if err := after.play(ctx); err != nil {
		return nil, err
	}
	out := after.outcome()
	out.Changes, out.Unchanged, out.Before = a.descriptions, before.state(), before.initialState
	out.compare(before.outcome())
	out.Hazards = hazards(&was, &then)
	out.Assumed = append(out.Assumed, a.assumed...)
	for _, gap := range in.Cluster.Gaps() {
		out.Assumed = append(out.Assumed, "not known: "+gap.Error())
	}
	out.Assumed = append(out.Assumed, "prices: "+in.Cluster.Prices())
	return out, nil
}

// compare marks what also happens without the change.
func (o *Outcome) compare(other *Outcome) {
	steps, evicted, without := map[string]int{}, map[string]bool{}, map[string]bool{}
	key := func(s *Step) string {
		text := s.Action + string(s.Method)
		for _, m := range s.Removed {
			text += " " + m.Name
		}
		if len(s.Removed) == 0 {
			for _, m := range s.Launched {
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
	for _, list := range [][]Finding{o.Unplaced, o.Kept} {
		for i := range list {
			list[i].Before = without[list[i].Name]
		}
	}
}
