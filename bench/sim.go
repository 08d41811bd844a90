package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/sim"
	replay "github.com/nodeless/nodeless/sim/trace"
)

// simulated is one line of bench sim: a trace, or a part of it.
type simulated struct {
	name string // what it is called in the table
	file string // a path, or one of replay.Named
	gpus bool
}

var simulatedTraces = []simulated{{"openb", "openb", false}, {"openb with GPUs", "openb", true}, {"alibaba2017", "alibaba2017", false}}

type simFlags struct {
	from, length, interval time.Duration
	copies, samples        int
	seed                   uint64
	policy                 model.Policy
}

func benchSim(args []string) error {
	f := flag.NewFlagSet("sim", flag.ExitOnError)
	var o simFlags
	only := f.String("trace", "", "only traces whose name contains this; a path of a CSV file is a trace too")
	folder := f.String("folder", folderOfTraces(), "where the traces are; also "+tracesVariable)
	sizes := f.String("max-vcpu", "32,192,0", "largest types of the catalogues; 0 = any")
	f.DurationVar(&o.from, "from", 0, "leave out what was before this time of a trace")
	f.DurationVar(&o.length, "for", 0, "simulate so long; 0 = to the end")
	f.DurationVar(&o.interval, "interval", 30*time.Second, "how often machines are looked at")
	f.IntVar(&o.copies, "copies", 1, "copies of a trace on top of each other")
	f.IntVar(&o.samples, "samples", 100, "moments at which the proven minimum is computed")
	f.Uint64Var(&o.seed, "seed", 1, "of boot times and copies")
	churnFee := f.Float64("churn-fee", 0, "dollars an hour, see model.Policy.ChurnFee; 0 = the default, below that none")
	profile := f.String("cpuprofile", "", "write a CPU profile to this file")
	_ = f.Parse(args)
	o.policy.ChurnFee = model.Price(*churnFee * 1e6)

	all := simulatedTraces
	if strings.Contains(*only, ".csv") {
		all, *only = []simulated{{name: *only, file: *only}}, ""
	}
	return profiled(*profile, func() error {
		fmt.Printf("%s. Simulated on virtual time; the compatible baseline provisions and consolidates as Karpenter does.\n", runtime.Version())
		t := newTable("trace", "types", "pods", "hours", "bound $", "compatible", "nodeless", "cost against it", "moves", "moves, nodeless",
			"waits s, mean/p99", "nodeless", "launched", "nodeless", "CPU s", "nodeless")
		for _, x := range all {
			if !strings.Contains(x.name, *only) {
				continue
			}
			tr, err := replay.Open(x.file, *folder)
			if errors.Is(err, fs.ErrNotExist) && len(all) > 1 {
				fmt.Printf("%s is skipped: %v; say where the traces are with -folder or %s\n", x.name, err, tracesVariable)
				continue
			}
			if err != nil {
				return err
			}
			if !x.gpus {
				tr = tr.WithoutGPUs()
			}
			if o.from > 0 || o.length > 0 {
				tr = tr.Window(o.from, o.length)
			}
			tr = tr.Copies(o.copies, o.seed)
			for size := range strings.SplitSeq(*sizes, ",") {
				if err := o.row(t, x, tr, size); err != nil {
					return err
				}
			}
		}
		if len(t.rows) == 1 {
			return nil
		}
		return t.print(os.Stdout)
	})
}

// row simulates one trace with one catalogue.
func (o *simFlags) row(t *table, x simulated, tr *replay.Trace, size string) error {
	var vcpu int
	if _, err := fmt.Sscan(size, &vcpu); err != nil || vcpu < 0 {
		return fmt.Errorf("-max-vcpu %q: want numbers from 0 on", size)
	}
	types := "≤ " + size
	if vcpu == 0 {
		types = "all"
	}
	c := sim.Config{Trace: tr, Types: sim.Catalogue{MaxVCPU: vcpu, GPUs: x.gpus}.Types(), Interval: o.interval, Seed: o.seed}
	progress("%s, types %s: proven minimum …", x.name, types)
	bound, err := sim.Bound(context.Background(), c, o.samples)
	if err != nil {
		return err
	}
	var results [2]sim.Result
	var used [2]usage
	for i, d := range []sim.Decider{sim.Compatible(), sim.Nodeless(o.policy)} {
		progress("%s, types %s: %s …", x.name, types, d.Name)
		c.Decider = d
		used[i] = measure(func() { results[i], err = sim.Run(context.Background(), c) })
		if err != nil {
			return err
		}
	}
	base, ours := &results[0], &results[1]
	dollars := func(r *sim.Result) string { return fmt.Sprintf("%.2f (+%.1f %%)", r.Cost, 100*(r.Cost/bound-1)) }
	waits := func(r *sim.Result) string { return fmt.Sprintf("%.1f/%.0f", r.Pending.Mean, r.Pending.P99) }
	t.add(x.name, types, fmt.Sprint(base.Pods), fmt.Sprintf("%.1f", base.Hours), fmt.Sprintf("%.2f", bound), dollars(base), dollars(ours),
		fmt.Sprintf("%+.1f %%", 100*(ours.Cost/base.Cost-1)), fmt.Sprint(base.Moves), fmt.Sprint(ours.Moves), waits(base), waits(ours),
		fmt.Sprint(base.Launched), fmt.Sprint(ours.Launched), seconds(used[0].cpu), seconds(used[1].cpu))
	return nil
}
