package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the options of the command line.
type options struct {
	workloads []workload
	sides     []side
	runs      int
	boot      time.Duration
	bin       string // folder of the programs; results go to its subfolder race
	json      bool
	saved     bool // run nothing, use the results of earlier runs
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := race(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "race:", err)
		os.Exit(1)
	}
}

func race(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil || o == nil {
		return err
	}
	var results []result
	if o.saved {
		results, err = o.savedResults()
	} else {
		results, err = o.runAll(ctx)
	}
	if len(results) == 0 {
		return err
	}
	if o.json {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return errors.Join(err, out.Encode(results))
	}
	return errors.Join(err, report(os.Stdout, results))
}

// parse parses the flags. If they request the list of workloads, it prints the list and returns nil.
func parse(args []string) (*options, error) {
	f := flag.NewFlagSet("race", flag.ContinueOnError)
	o := &options{}
	names := f.String("workload", "default",
		"workloads by name, several with commas between them; default; all; list = say which there are")
	who := f.String("side", "", "nodeless or karpenter (default: both)")
	output := f.String("o", "table", "table or json, with each run's figures")
	f.BoolVar(&o.saved, "saved", false,
		"run nothing: take what earlier runs of these workloads left in the folder race of -bin")
	f.IntVar(&o.runs, "runs", 1, "runs of each workload and side, of which the table shows medians")
	f.DurationVar(&o.boot, "boot-time", 40*time.Second, "median time from an instance's launch to its registered node")
	f.StringVar(&o.bin, "bin", "bin", "folder of nodeless, nodeless-controller and karpenter")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if *names == "list" {
		for _, w := range workloads {
			fmt.Printf("%-16s %s\n", w.name, w.about)
		}
		return nil, nil //nolint:nilnil // the list was all that was asked for
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q: there are flags alone; see -h", f.Arg(0))
	case o.runs < 1:
		return nil, fmt.Errorf("-runs %d: give 1 or more", o.runs)
	case o.boot < 0:
		return nil, fmt.Errorf("-boot-time %s: it must not be negative", o.boot)
	case *output != "table" && *output != "json":
		return nil, fmt.Errorf("-o %q: say table or json", *output)
	}
	o.json = *output == "json"
	var err error
	if o.workloads, err = choose(*names); err != nil {
		return nil, err
	}
	if o.sides, err = chooseSides(*who); err != nil {
		return nil, err
	}
	o.bin, err = filepath.Abs(o.bin)
	return o, err
}

func choose(names string) ([]workload, error) {
	var out []workload
	for name := range strings.SplitSeq(names, ",") {
		found := slices.DeleteFunc(slices.Clone(workloads), func(w workload) bool {
			return name != w.name && name != "all" && (name != "default" || w.long)
		})
		if len(found) == 0 {
			return nil, fmt.Errorf("-workload %q: there is none of this name; -workload list says which there are", name)
		}
		out = append(out, found...)
	}
	return out, nil
}

// runAll runs every workload on every side. After an error or Ctrl-C it returns the results so far.
func (o *options) runAll(ctx context.Context) ([]result, error) {
	var all []result
	failures := 0
	for run := range o.runs {
		for _, w := range o.workloads {
			sides := slices.Clone(o.sides)
			if run%2 == 1 {
				slices.Reverse(sides) // so that neither side always runs in the quieter hour
			}
			for _, s := range sides {
				r, err := o.run(ctx, w, s, run+1)
				switch {
				case ctx.Err() != nil:
					return all, context.Cause(ctx)
				case err != nil: // the other results are still useful
					fmt.Fprintf(os.Stderr, "%s, %s, run %d failed: %v\n", w.name, s.name, run+1, err)
					failures++
				default:
					all = append(all, r)
					if late := r.late(); late != "" {
						fmt.Fprintf(os.Stderr, "%s, %s, run %d: not all pods ran after %q\n", w.name, s.name, run+1, late)
						failures++
					}
				}
			}
		}
	}
	if failures > 0 {
		return all, fmt.Errorf("%d runs failed", failures)
	}
	return all, nil
}
