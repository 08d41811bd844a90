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
	"github.com/nodeless/nodeless/lab/sim"
	replay "github.com/nodeless/nodeless/lab/sim/trace"
	"github.com/nodeless/nodeless/lab/table"
)

// simulated is a trace of bench sim, with or without its GPU requests.
type simulated struct {
	name string // in the table
	file string // a path, or one of replay.Named
	gpus bool
}

var simulatedTraces = []simulated{
	{"openb", "openb", false},
	{"openb with GPUs", "openb", true},
	{"alibaba2017", "alibaba2017", false},
}

type simFlags struct {
	from, length, interval time.Duration
	copies, samples        int
	seed                   uint64
	seeds                  int
	policy                 model.Policy
	nominates              bool
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
	f.IntVar(&o.seeds, "seeds", 1,
		"simulate with so many seeds, from -seed on, and print means: runs that differ in nothing but chance differ by "+
			"1 to 2 %")
	nodeFee := f.Float64("node-fee", 0, "dollars an hour, see model.Policy.NodeFee")
	waitPrice := f.Float64("wait-price", model.DefaultWaitPrice.Dollars(), "dollars, see model.Policy.WaitPrice")
	movePrice := f.Float64("move-price", model.DefaultMovePrice.Dollars(), "dollars, see model.Policy.MovePrice")
	f.BoolVar(&o.nominates, "nominations", true, "nominate pods, as with the controller's feature gate Nominations")
	profile := f.String("cpuprofile", "", "write a CPU profile to this file")
	_ = f.Parse(args)
	o.policy.NodeFee, o.policy.MovePrice = model.Price(*nodeFee*1e6), model.Price(*movePrice*1e6)
	o.policy.WaitPrice = model.Price(*waitPrice * 1e6)
	if o.seeds < 1 || o.samples < 1 {
		return fmt.Errorf("-seeds and -samples are from 1 on")
	}

	all := simulatedTraces
	if strings.Contains(*only, ".csv") {
		all, *only = []simulated{{name: *only, file: *only}}, ""
	}
	return profiled(*profile, func() error {
		fmt.Printf("%s. Simulated on virtual time; the compatible baseline provisions and consolidates as Karpenter does.\n",
			runtime.Version())
		t := table.New(2, "trace", "types", "pods", "hours", "bound $", "compatible", "nodeless", "cost against it", "moves",
			"moves, nodeless",
			"waits s, mean/p99", "nodeless", "launched", "nodeless", "CPU s", "nodeless")
		for _, x := range all {
			if !strings.Contains(x.name, *only) {
				continue
			}
			if err := o.rows(t, x, *folder, *sizes, len(all) > 1); err != nil {
				return err
			}
		}
		if t.Len() == 0 {
			return nil
		}
		return t.Print(os.Stdout)
	})
}

// rows simulates one trace with each of the catalogues. A missing trace is skipped if it is one of several.
func (o *simFlags) rows(t *table.Table, x simulated, folder, sizes string, several bool) error {
	tr, err := replay.Open(x.file, folder)
	if errors.Is(err, fs.ErrNotExist) && several {
		fmt.Printf("%s is skipped: %v; say where the traces are with -folder or %s\n", x.name, err, tracesVariable)
		return nil
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
	for size := range strings.SplitSeq(sizes, ",") {
		if err := o.row(t, x, tr, size); err != nil {
			return err
		}
	}
	return nil
}

// row simulates one trace with one catalogue.
func (o *simFlags) row(t *table.Table, x simulated, tr *replay.Trace, size string) error {
	var vcpu int
	if _, err := fmt.Sscan(size, &vcpu); err != nil || vcpu < 0 {
		return fmt.Errorf("-max-vcpu %q: want numbers from 0 on", size)
	}
	types := "≤ " + size
	if vcpu == 0 {
		types = "all"
	}
	c := sim.Config{
		Trace: tr, Types: sim.Catalogue{MaxVCPU: vcpu, GPUs: x.gpus}.Types(), Interval: o.interval,
		Seed: o.seed,
	}
	progress("%s, types %s: proven minimum …", x.name, types)
	bound, err := sim.Bound(context.Background(), c, o.samples)
	if err != nil {
		return err
	}
	sides := [2]*side{{decider: sim.Compatible()}, {decider: sim.Nodeless(o.policy)}}
	sides[1].decider.Promise = o.nominates
	for k := range o.seeds {
		c.Seed = o.seed + uint64(k)
		for _, d := range sides {
			progress("%s, types %s, seed %d: %s …", x.name, types, c.Seed, d.decider.Name)
			if err := d.run(c); err != nil {
				return err
			}
		}
	}
	base, ours := sides[0], sides[1]
	t.Add(x.name, types, fmt.Sprint(base.results[0].Pods), fmt.Sprintf("%.1f", base.mean(hours)),
		fmt.Sprintf("%.2f", bound),
		base.dollars(bound), ours.dollars(bound), ours.against(base),
		fmt.Sprintf("%.0f", base.mean(moves)), fmt.Sprintf("%.0f", ours.mean(moves)), base.waits(), ours.waits(),
		fmt.Sprintf("%.0f", base.mean(launched)), fmt.Sprintf("%.0f", ours.mean(launched)),
		seconds(base.cpu/time.Duration(o.seeds)), seconds(ours.cpu/time.Duration(o.seeds)))
	return nil
}
