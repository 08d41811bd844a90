package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim"
	replay "github.com/nodeless/nodeless/lab/sim/trace"
	"github.com/nodeless/nodeless/lab/table"
)

// curve is one trace with one catalogue in bench pareto, with its results by policy and seed.
type curve struct {
	name     string
	types    string
	config   sim.Config
	policies []pricedMoves
	results  [][]sim.Result // by policy (the baseline first) and seed
	cpu      []float64      // seconds by policy
}

// pricedMoves is a policy with a name.
type pricedMoves struct {
	name   string
	policy *model.Policy // nil = the baseline
}

// windowOf sets which part of a public trace a seed replays: where the first window begins, and how long each is.
var windowOf = map[string]struct{ from, length time.Duration }{
	"alibaba2017": {0, time.Hour},
	"openb":       {3000 * time.Hour, 16 * time.Hour},
}

type paretoFlags struct {
	folder   string
	length   time.Duration
	seeds    int
	first    int
	cores    int
	traces   string
	policies []pricedMoves
}

func benchPareto(args []string) error {
	f := flag.NewFlagSet("pareto", flag.ExitOnError)
	var o paretoFlags
	prices := f.String("move-prices", "0,0.0005,0.001,0.002,0.005,0.01,0.02,0.05,0.1",
		"dollars per moved pod, beside the default")
	f.StringVar(&o.traces, "traces", strings.Join(append(replay.Generated(), "alibaba2017", "openb"), ","),
		"generated workloads, public traces and paths of CSV files")
	f.StringVar(&o.folder, "folder", folderOfTraces(), "where the public traces are; also "+tracesVariable)
	f.DurationVar(&o.length, "for", 0, "how much a seed replays; 0 = 4h of a generated workload, 1h of alibaba2017, "+
		"16h of openb, all of a file")
	f.IntVar(&o.seeds, "seeds", 8, "how many: each is a workload of its own, or the next window of a public trace")
	f.IntVar(&o.first, "first-seed", 1, "the first seed")
	f.IntVar(&o.cores, "cores", 1, "simulations at a time")
	sizes := f.String("max-vcpu", "32,192,0", "largest types of the catalogues; 0 = any")
	profile := f.String("cpuprofile", "", "write a CPU profile to this file")
	_ = f.Parse(args)
	defaults := model.Defaults()
	o.policies = []pricedMoves{{name: "baseline"}, {"default", &defaults}}
	for text := range strings.SplitSeq(*prices, ",") {
		dollars, err := strconv.ParseFloat(text, 64)
		if text == "" {
			continue
		}
		if err != nil || dollars < 0 || dollars > 1000 {
			return fmt.Errorf("-move-prices %q: want dollars from 0 to 1000", text)
		}
		policy := model.Defaults()
		policy.MovePrice = model.Price(dollars * 1e6)
		o.policies = append(o.policies, pricedMoves{"$" + text, &policy})
	}
	if o.seeds < 1 || o.cores < 1 || o.first < 1 {
		return fmt.Errorf("-seeds, -first-seed and -cores are from 1 on")
	}
	return profiled(*profile, func() error { return o.print(*sizes) })
}

// print simulates every curve and prints the table, then a summary of the default policy over the rows.
func (o *paretoFlags) print(sizes string) error {
	t := table.New(2, "trace", "types", "move price", "$", "cost against the baseline", "moves", "moves against it",
		"wait s", "launched", "CPU s")
	var rows, cheaper, halved int
	for name := range strings.SplitSeq(o.traces, ",") {
		for size := range strings.SplitSeq(sizes, ",") {
			c, err := o.curve(name, size)
			if err != nil {
				return err
			}
			c.rows(t)
			rows++
			dearer, moves := c.against(1, cost), c.against(1, moves)
			if dearer.mean <= 0 && moves.mean <= 0 {
				cheaper++
			}
			if dearer.mean <= 0 && moves.mean <= -50 {
				halved++
			}
		}
	}
	if err := t.Print(os.Stdout); err != nil {
		return err
	}
	fmt.Printf("\n%d seeds, 95 %% confidence. Of %d rows the default dominates the baseline in %d, and halves its "+
		"moves at no more cost in %d.\n", o.seeds, rows, cheaper, halved)
	return nil
}

// curve simulates one trace with one catalogue.
func (o *paretoFlags) curve(name, size string) (*curve, error) {
	vcpu, err := strconv.Atoi(size)
	if err != nil || vcpu < 0 {
		return nil, fmt.Errorf("-max-vcpu %q: want numbers from 0 on", size)
	}
	c := &curve{name: name, types: "≤ " + size, policies: o.policies}
	if vcpu == 0 {
		c.types = "all"
	}
	c.config.Types = sim.Catalogue{MaxVCPU: vcpu}.Types()
	c.results, c.cpu = make([][]sim.Result, len(o.policies)), make([]float64, len(o.policies))
	var jobs sync.WaitGroup
	var mu sync.Mutex
	free := make(chan bool, o.cores)
	for i := range o.policies {
		c.results[i] = make([]sim.Result, o.seeds)
	}
	for k := range o.seeds {
		tr, openErr := o.open(name, k)
		if openErr != nil {
			return nil, openErr
		}
		for i := range o.policies {
			free <- true
			jobs.Go(func() {
				defer func() { <-free }()
				r, took, runErr := c.run(i, tr, uint64(o.first+k))
				mu.Lock()
				defer mu.Unlock()
				if runErr != nil {
					err = runErr
				}
				c.results[i][k] = r
				c.cpu[i] += took
			})
		}
	}
	jobs.Wait()
	progress("%s, types %s: done", name, c.types)
	return c, err
}

// open returns the workload of a seed.
func (o *paretoFlags) open(name string, seed int) (*replay.Trace, error) {
	const generated = 4 * time.Hour
	for _, g := range replay.Generated() {
		if g == name {
			length := o.length
			if length == 0 {
				length = generated
			}
			return replay.Generate(name, uint64(o.first+seed), length)
		}
	}
	tr, err := replay.Open(name, o.folder)
	if err != nil {
		return nil, err
	}
	w := windowOf[name]
	if o.length > 0 {
		w.length = o.length
	}
	return tr.WithoutGPUs().Window(w.from+time.Duration(o.first+seed-1)*w.length, w.length), nil
}

// run runs one simulation. It also returns the CPU seconds used, which are correct only if no other simulation runs.
func (c *curve) run(policy int, tr *replay.Trace, seed uint64) (sim.Result, float64, error) {
	config := c.config
	config.Trace, config.Seed, config.Decider = tr, seed, sim.Compatible()
	if p := c.policies[policy].policy; p != nil {
		config.Decider = sim.Nodeless(*p)
		config.Decider.Promise = true
	}
	before := processCPU()
	r, err := sim.Run(context.Background(), config)
	return r, (processCPU() - before).Seconds(), err
}

func (c *curve) rows(t *table.Table) {
	for i := range c.policies {
		against, moved := "", ""
		if i > 0 {
			against, moved = c.against(i, cost).String(), c.against(i, moves).String()
		}
		s := side{results: c.results[i]}
		t.Add(c.name, c.types, c.policies[i].name, fmt.Sprintf("%.2f", s.mean(cost)), against,
			fmt.Sprintf("%.0f", s.mean(moves)), moved, s.waits(), fmt.Sprintf("%.0f", s.mean(launched)),
			fmt.Sprintf("%.1f", c.cpu[i]))
	}
}

// estimate is a mean and its margin of error at 95 % confidence; the margin is 0 if there is only one value.
type estimate struct{ mean, off float64 }

func (e estimate) String() string {
	if e.off == 0 {
		return fmt.Sprintf("%+.1f %%", e.mean)
	}
	return fmt.Sprintf("%+.1f %% ± %.1f", e.mean, e.off)
}

// student holds the 97.5 % quantiles of Student's t for 1 to 10 degrees of freedom; beyond that, 2.2 is used.
var student = []float64{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23}

// against returns by how many percent a policy's costs or moves exceed the baseline's: the ratio of the totals, with
// the spread over the seeds.
func (c *curve) against(policy int, of func(*sim.Result) float64) estimate {
	ours, base, n := side{results: c.results[policy]}, side{results: c.results[0]}, float64(len(c.results[0]))
	ratio := ours.mean(of) / max(base.mean(of), 1e-9)
	square := 0.0
	for k := range c.results[0] {
		d := (of(&c.results[policy][k]) - ratio*of(&c.results[0][k])) / max(base.mean(of), 1e-9)
		square += d * d
	}
	out := estimate{mean: 100 * (ratio - 1)}
	if n > 1 {
		quantile := 2.2
		if int(n)-2 < len(student) {
			quantile = student[int(n)-2]
		}
		out.off = 100 * quantile * math.Sqrt(square/(n-1)/n)
	}
	return out
}
