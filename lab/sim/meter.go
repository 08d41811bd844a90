package sim

import (
	"math"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// minBilled is the minimum time for which an instance is billed (EC2: 60 s).
const minBilled = time.Minute

// meter accumulates the figures of a Result.
type meter struct {
	tooLarge        int
	emptied         int
	commands        int
	undone          int
	moves           int
	podsInterrupted int
	interruptions   int
	plans, passes   int
	judged          int

	billed    float64 // dollars
	booting   float64 // of which before nodes were ready
	empty     float64 // of which of ready nodes without pods
	hours     float64 // of nodes
	peak      int
	askedCPU  float64 // core-hours that pods request while they run
	boughtCPU float64 // core-hours of allocatable CPU less daemons

	waits  []float32 // seconds until new pods ran
	rewait []float32 // seconds until evicted pods ran again
}

// elapse moves the clock forward.
func (r *run) elapse(to time.Duration) {
	r.peak = max(r.peak, len(r.nodes))
	if to > r.now {
		r.clock.Advance(to - r.now)
		r.now = to
	}
}

// bill adds the cost of a node.
func (r *meter) bill(n *node, now time.Duration) {
	ran := max(now-n.launched, minBilled)
	r.billed += n.Price.Dollars() * ran.Hours()
	r.hours += ran.Hours()
	if n.State == model.InFlight {
		r.booting += n.Price.Dollars() * ran.Hours()
	}
	r.wasEmpty(n, now)
	r.boughtCPU += float64(n.Allocatable[model.CPU]-n.daemons[model.CPU]) / 1000 * ran.Hours()
}

// wasEmpty adds the cost of a ready node without pods since its last pod left.
func (r *meter) wasEmpty(n *node, now time.Duration) {
	if n.State == model.Initialized && len(n.pods) == 0 {
		r.empty += n.Price.Dollars() * (now - n.idleSince).Hours()
	}
	n.idleSince = now
}

// waited records how long a pod that is being bound has waited.
func (r *meter) waited(p *pod, now time.Duration) {
	wait := float32((now - p.since).Seconds())
	if p.placed {
		r.rewait = append(r.rewait, wait)
	} else {
		r.waits = append(r.waits, wait)
	}
}

// Result is the outcome of a simulation.
type Result struct {
	Decider  string  `json:"decider"`
	Pods     int     `json:"pods"`
	TooLarge int     `json:"tooLarge,omitempty"` // pods that fit on no type; they were left out
	Hours    float64 `json:"hours"`              // simulated

	Cost      float64 `json:"costDollars"`    // of all nodes, by the second
	Booting   float64 `json:"bootingDollars"` // of which before nodes were ready
	Empty     float64 `json:"emptyDollars"`   // of which for ready nodes without pods
	Moves     int     `json:"podMoves"`       // evictions, without those by interruptions
	NodeHours float64 `json:"machineHours"`
	MeanNodes float64 `json:"meanMachines"`
	PeakNodes int     `json:"peakMachines"`
	Launched  int     `json:"machinesLaunched"`
	Asked     float64 `json:"requestedCPUShare"` // of the CPU that was paid for, less daemons

	Pending Waits `json:"pending"`      // of new pods, until they ran
	Moving  Waits `json:"pendingMoved"` // of evicted pods, until they ran again

	Commands       int `json:"commands"`       // consolidation commands begun
	Undone         int `json:"commandsUndone"` // of which were undone
	Emptied        int `json:"emptyMachinesRemoved"`
	Interruptions  int `json:"interruptions,omitempty"`
	Interrupted    int `json:"podsInterrupted,omitempty"`
	CapacityErrors int `json:"capacityErrors,omitempty"`
	Plans          int `json:"plans"`
	Passes         int `json:"passes"`
	Judged         int `json:"plansJudged,omitempty"`
}

// Waits are seconds.
type Waits struct {
	Mean float64 `json:"meanSeconds"`
	P99  float64 `json:"p99Seconds"`
	Most float64 `json:"mostSeconds"`
}

func waitsOf(all []float32) (w Waits) {
	if len(all) == 0 {
		return w
	}
	slices.Sort(all)
	for _, s := range all {
		w.Mean += float64(s) / float64(len(all))
	}
	at := int(math.Ceil(0.99*float64(len(all)))) - 1
	w.P99, w.Most = float64(all[at]), float64(all[len(all)-1])
	return w
}

func (r *run) result() Result {
	for i := range r.trace {
		r.askedCPU += float64(r.trace[i].CPU) / 1000 * r.trace[i].Life.Hours()
	}
	out := Result{
		Decider: r.Decider.Name, Pods: len(r.trace), TooLarge: r.tooLarge, Hours: r.now.Hours(),
		Cost: r.billed, Booting: r.booting, Empty: r.empty, Moves: r.moves, NodeHours: r.hours, PeakNodes: r.peak,
		Launched: r.launches,
		Pending:  waitsOf(r.waits), Moving: waitsOf(r.rewait),
		Commands: r.commands, Undone: r.undone, Emptied: r.emptied,
		Interruptions: r.interruptions, Interrupted: r.podsInterrupted,
		CapacityErrors: r.market.errors, Plans: r.plans, Passes: r.passes, Judged: r.judged,
	}
	if r.now > 0 {
		out.MeanNodes = r.hours / r.now.Hours()
	}
	if r.boughtCPU > 0 {
		out.Asked = r.askedCPU / r.boughtCPU
	}
	return out
}
