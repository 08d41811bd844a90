package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/policyflags"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/lab/sim"
	"github.com/nodeless/nodeless/lab/sim/trace"
)

type traceOptions struct {
	folder, output                  string
	from, length                    time.Duration
	copies, maxVCPU, samples, check int
	gpus, spot, alone               bool
	nominates                       bool
	prices                          policyflags.Prices
	seed                            uint64
	config                          sim.Config
	policy                          model.Policy
}

func newSimulateTrace() *cobra.Command {
	var o traceOptions
	c := &cobra.Command{
		Use:   "trace FILE|openb|alibaba2017",
		Short: "Replay days of pods, and compare the cost with Karpenter's way",
		Long: `Replays a trace of pods on virtual time, twice: nodes are launched and removed
once as the controller does it, by the same code, and once as Karpenter does.
Prints what the nodes cost, how far that is above the proven minimum, how many
pods were moved and how long pods waited. It needs no cluster and no cloud; a
day takes seconds.

A trace is a CSV file, optionally compressed by gzip, whose first line names the
columns:

  start,life,cpu,memory,gpus,count
  0,3600,500m,2Gi,0,10
  60,30,2,512Mi,,

start and life are in seconds; "end" may replace "life"; gpus and count may be
left out. The files of alibaba/clusterdata (the pod list of
cluster-trace-gpu-v2023, the batch_task table of 2017) are read as published:
openb and alibaba2017 are looked for in the folder of --folder or ` + trace.FolderVariable + `.`,
		Example: `  nodeless simulate trace pods.csv
  nodeless simulate trace pods.csv --max-vcpu 32 --interval 1m -o json
  nodeless simulate trace openb --folder ~/traces --gpus --from 3000h --for 24h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.addFlags(c.Flags())
	return c
}

func (o *traceOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "json or yaml; nothing for a table")
	f.StringVar(&o.folder, "folder", os.Getenv(trace.FolderVariable),
		"where the public traces are; also "+trace.FolderVariable)
	f.DurationVar(&o.from, "from", 0, "skip the trace before this time")
	f.DurationVar(&o.length, "for", 0, "simulate this much of the trace; 0 = to its end")
	f.IntVar(&o.copies, "copies", 1,
		"replay this many copies on top of each other, each shifted in time: a larger cluster of the same "+
			"pods")
	f.IntVar(&o.maxVCPU, "max-vcpu", 0, "largest instance type that may be launched; 0 = any")
	f.BoolVar(&o.gpus, "gpus", false,
		"pods request the trace's GPUs, and the g and p families may be launched")
	f.BoolVar(&o.spot, "spot", false, "spot instances may be launched, too")
	f.DurationVar(&o.config.Interval, "interval", 30*time.Second,
		"how often nodes are checked for whether they are worth their price")
	f.DurationVar(&o.config.ConsolidateAfter, "consolidate-after", 0, "the pool's consolidateAfter")
	f.Float64Var(&o.config.Budget, "budget", 0.1, "share of the nodes that may be removed at a time")
	f.DurationVar(&o.config.Boot, "boot", 40*time.Second, "median time from a node's launch until pods run on it")
	f.BoolVar(&o.nominates, "nominations", true,
		"nominate pods to the nodes launched for them, as with the feature gate Nominations")
	f.BoolVar(&o.config.StartOver, "start-over", false, "a moved pod runs its whole life again")
	f.BoolVar(&o.config.MostAllocated, "most-allocated", false,
		"kube-scheduler prefers full nodes; by default it prefers empty ones")
	f.Float64Var(&o.config.Faults.NoCapacity, "no-capacity", 0,
		"share of the hours in which an instance type has no capacity")
	f.Float64Var(&o.config.Faults.NotReady, "not-ready", 0, "share of the nodes that never become ready")
	f.Float64Var(&o.config.Faults.Interruptions, "interruptions", 0,
		"interruptions of a spot node per hour, on average")
	f.Uint64Var(&o.seed, "seed", 1, "seed of boot times, faults and copies")
	o.prices.Add(f)
	f.IntVar(&o.samples, "samples", 100, "times at which the proven minimum is computed; 0 = it is not")
	f.IntVar(&o.check, "check-every", 100, "check every n-th plan with the engine's independent checker; 0 = none")
	f.BoolVar(&o.alone, "alone", false, "do not simulate Karpenter's way")
}

// simulatedTrace is what -o json prints.
type simulatedTrace struct {
	Trace   string       `json:"trace"`
	Pods    int          `json:"pods"`
	Hours   float64      `json:"hours"`
	Live    float64      `json:"meanLivePods"`
	Bound   float64      `json:"provenMinimumDollars,omitempty"`
	Results []sim.Result `json:"results"`
}

func (o *traceOptions) run(cmd *cobra.Command, name string) error {
	switch {
	case o.output != "" && o.output != "json" && o.output != "yaml":
		return fmt.Errorf("unknown output %q: use -o json or yaml, or nothing for a table", o.output)
	case o.copies < 1 || o.maxVCPU < 0 || o.samples < 0 || o.from < 0 || o.length < 0:
		return fmt.Errorf("--copies is from 1 on; --max-vcpu, --samples, --from and --for are from 0 on")
	}
	if err := o.prices.Apply(&o.policy); err != nil {
		return err
	}
	t, err := trace.Open(name, o.folder)
	if errors.Is(err, fs.ErrNotExist) && trace.Named[name] != "" {
		return fmt.Errorf("%w: say with --folder or %s where %s is", err, trace.FolderVariable, trace.Named[name])
	}
	if err != nil {
		return err
	}
	if !o.gpus {
		t = t.WithoutGPUs()
	}
	if o.from > 0 || o.length > 0 {
		t = t.Window(o.from, o.length)
	}
	t = t.Copies(o.copies, o.seed)
	o.config.Trace, o.config.Seed, o.config.CheckEvery = t, o.seed, o.check
	o.config.Types = sim.Catalogue{MaxVCPU: o.maxVCPU, GPUs: o.gpus, Spot: o.spot}.Types()
	progress := io.Discard
	if term.IsTerminal(int(os.Stderr.Fd())) {
		progress = cmd.ErrOrStderr()
	}
	out, err := o.simulate(cmd.Context(), progress)
	if err != nil {
		return err
	}
	if o.output != "" {
		return output.Data(cmd.OutOrStdout(), o.output, out)
	}
	return out.write(cmd.OutOrStdout())
}

func (o *traceOptions) simulate(ctx context.Context, progress io.Writer) (*simulatedTrace, error) {
	t := o.config.Trace
	out := &simulatedTrace{Trace: t.Name, Pods: len(t.Pods), Hours: t.Length().Hours(), Live: t.MeanLive()}
	deciders := []sim.Decider{sim.Nodeless(o.policy), sim.Compatible()}
	deciders[0].Promise = o.nominates
	if o.alone {
		deciders = deciders[:1]
	}
	for _, d := range deciders {
		c := o.config
		c.Decider, c.Progress = d, progressOf(progress, d.Name)
		r, err := sim.Run(ctx, c)
		fmt.Fprintln(progress)
		if err != nil {
			return nil, err
		}
		out.Results = append(out.Results, r)
	}
	if o.samples > 0 {
		c := o.config
		c.Progress = progressOf(progress, "proven minimum")
		bound, err := sim.Bound(ctx, c, o.samples)
		fmt.Fprintln(progress)
		if err != nil {
			return nil, err
		}
		out.Bound = bound
	}
	return out, nil
}

// progressOf returns a function that reports the progress of a simulation on one line.
func progressOf(w io.Writer, what string) func(at, end time.Duration) {
	return func(at, end time.Duration) {
		fmt.Fprintf(w, "\r%s: %s of %s", what, at.Round(time.Minute), end.Round(time.Minute))
	}
}

// write prints the results side by side.
func (t *simulatedTrace) write(w io.Writer) error {
	var rows [][]string
	row := func(what string, cell func(r *sim.Result) string) {
		cells := []string{what}
		for i := range t.Results {
			cells = append(cells, cell(&t.Results[i]))
		}
		rows = append(rows, cells)
	}
	fmt.Fprintf(w, "%s: %d pods in %.1f hours, %.0f at a time.\n\n", t.Trace, t.Pods, t.Hours, t.Live)
	row("", func(r *sim.Result) string { return r.Decider })
	row("cost", func(r *sim.Result) string { return reason.Money(r.Cost, 2) })
	if t.Bound > 0 {
		row("above the proven minimum", func(r *sim.Result) string { return fmt.Sprintf("%.1f %%", 100*(r.Cost/t.Bound-1)) })
	}
	row("pods moved", func(r *sim.Result) string { return fmt.Sprint(r.Moves) })
	row("pods waited, mean", func(r *sim.Result) string { return fmt.Sprintf("%.1f s", r.Pending.Mean) })
	row("pods waited, 99 of 100", func(r *sim.Result) string { return fmt.Sprintf("%.1f s", r.Pending.P99) })
	row("moved pods waited, mean", func(r *sim.Result) string { return fmt.Sprintf("%.1f s", r.Moving.Mean) })
	row("nodes, mean", func(r *sim.Result) string { return fmt.Sprintf("%.1f", r.MeanNodes) })
	row("nodes at most", func(r *sim.Result) string { return fmt.Sprint(r.PeakNodes) })
	row("nodes launched", func(r *sim.Result) string { return fmt.Sprint(r.Launched) })
	row("requested share of CPU", func(r *sim.Result) string { return fmt.Sprintf("%.0f %%", 100*r.Asked) })
	row("plans judged", func(r *sim.Result) string { return fmt.Sprintf("%d of %d", r.Judged, r.Plans+r.Passes) })
	if slices.ContainsFunc(t.Results, func(r sim.Result) bool { return r.Interruptions+r.CapacityErrors > 0 }) {
		row("interruptions", func(r *sim.Result) string { return fmt.Sprint(r.Interruptions) })
		row("capacity errors", func(r *sim.Result) string { return fmt.Sprint(r.CapacityErrors) })
	}
	if err := output.Table(w, rows...); err != nil {
		return err
	}
	if n := t.Results[0].TooLarge; n > 0 {
		fmt.Fprintf(w, "\n%d pods were left out: no type of the catalogue holds them.\n", n)
	}
	return nil
}
