package sim

import (
	"math"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// shortestBill is what is billed at least of a machine (EC2: 60 s).
const shortestBill = time.Minute

// meter counts.
type meter struct {
	tooLarge      int
	launches      int
	removals      int
	commands      int
	undone        int
	moves         int
	bumped        int
	interruptions int
	plans, passes int
	judged        int

	billed   float64 // dollars
	booting  float64 // of which before machines were ready
	empty    float64 // of which while no pod was on a machine that was ready
	hours    float64 // of machines
	peak     int
	askedCPU float64 // core-hours of pods that run
	boughCPU float64 // core-hours of machines' allocatable

	waits  []float32 // seconds, of pods that came
	rewait []float32 // of pods that were moved
}

// elapse moves the clock on.
func (r *run) elapse(to time.Duration) {
	r.peak = max(r.peak, len(r.machines))
	r.now = max(to, r.now)
}

// bill adds what a machine cost.
func (r *meter) bill(m *machine, now time.Duration) {
	ran := max(now-m.launched, shortestBill)
	r.billed += m.node.Price.Dollars() * ran.Hours()
	r.hours += ran.Hours()
	if m.node.State == model.InFlight {
		r.booting += m.node.Price.Dollars() * ran.Hours()
	}
	r.wasEmpty(m, now)
	r.boughCPU += float64(m.node.Allocatable[model.CPU]-m.daemons[model.CPU]) / 1000 * ran.Hours()
}

// wasEmpty adds what a machine cost since its last pod went.
func (r *meter) wasEmpty(m *machine, now time.Duration) {
	if m.node.State == model.Initialized && len(m.pods) == 0 {
		r.empty += m.node.Price.Dollars() * (now - m.idle).Hours()
	}
	m.idle = now
}

// waited notes how long a pod waited that has a place now.
func (r *meter) waited(p *pod, now time.Duration) {
	wait := float32((now - p.since).Seconds())
	if p.placed {
		r.rewait = append(r.rewait, wait)
	} else {
		r.waits = append(r.waits, wait)
	}
}

// Result is what a simulation came to.
type Result struct {
	Decider  string  `json:"decider"`
	Pods     int     `json:"pods"`
	TooLarge int     `json:"tooLarge,omitempty"` // pods that no type holds; they were left out
	Hours    float64 `json:"hours"`              // simulated

	Cost         float64 `json:"costDollars"`    // of all machines, by the second
	Booting      float64 `json:"bootingDollars"` // of which so much before machines were ready
	Empty        float64 `json:"emptyDollars"`   // of which so much for machines that were ready and had no pods
	Moves        int     `json:"podMoves"`       // evictions, but those by interruptions
	MachineHours float64 `json:"machineHours"`
	MeanMachines float64 `json:"meanMachines"`
	PeakMachines int     `json:"peakMachines"`
	Launched     int     `json:"machinesLaunched"`
	Asked        float64 `json:"requestedCPUShare"` // of the CPU that was paid for

	Pending Waits `json:"pending"`      // of pods that came, until they ran
	Moving  Waits `json:"pendingMoved"` // of pods that were evicted, until they ran again

	Commands       int `json:"commands"`       // consolidations begun
	Undone         int `json:"commandsUndone"` // of which so many no longer held
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
		Cost: r.billed, Booting: r.booting, Empty: r.empty, Moves: r.moves, MachineHours: r.hours, PeakMachines: r.peak,
		Launched: r.launches,
		Pending:  waitsOf(r.waits), Moving: waitsOf(r.rewait),
		Commands: r.commands, Undone: r.undone, Emptied: r.removals, Interruptions: r.interruptions, Interrupted: r.bumped,
		CapacityErrors: r.market.errors, Plans: r.plans, Passes: r.passes, Judged: r.judged,
	}
	if r.now > 0 {
		out.MeanMachines = r.hours / r.now.Hours()
	}
	if r.boughCPU > 0 {
		out.Asked = r.askedCPU / r.boughCPU
	}
	return out
}
