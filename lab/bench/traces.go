package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/table"
)

const tracesVariable = "NODELESS_TRACES"

type traceFlags struct{ firstFitMax, karpenterMax, checkMax int }

func benchTraces(args []string) error {
	f := flag.NewFlagSet("traces", flag.ExitOnError)
	counts := numbersFlag(f, "pods", "numbers of pods: the first of each trace, repeated as needed", 10, 100, 1000,
		10000, 100000)
	mixMax := f.Int("mix-max", 100000, "most pods of the constrained mix; 0 = none")
	var o traceFlags
	f.IntVar(&o.firstFitMax, "firstfit-max", 100000, "most pods given to the compatible mode; 0 = do not run it")
	f.IntVar(&o.karpenterMax, "karpenter-max", 1000, "most pods given to Karpenter; 0 = do not run it")
	f.IntVar(&o.checkMax, "check-max", 1000, "most pods of a plan that engine/check judges")
	only := f.String("trace", "", "only traces whose name contains this")
	folder := f.String("folder", folderOfTraces(), "where the traces are; also "+tracesVariable)
	profile := f.String("cpuprofile", "", "write a CPU profile to this file")
	_ = f.Parse(args)

	return profiled(*profile, func() error {
		fmt.Printf("%s, %d CPUs. Cost above Plan.LowerBound, machines priced by one function.\n", runtime.Version(),
			runtime.NumCPU())
		t := table.New(2, "trace", "pods", "shapes", "machines", "$/h", "bound $/h", "above", "FirstFit", "Karpenter",
			"CPU s", "wall s", "FirstFit CPU s", "unplaced", "faults")
		for _, tr := range traces {
			if !strings.Contains(tr.name, *only) {
				continue
			}
			rows, err := tr.read(*folder)
			if os.IsNotExist(err) {
				fmt.Printf("%s is skipped: %v; say where the traces are with -folder or %s\n", tr.name, err, tracesVariable)
				continue
			}
			if err != nil {
				return err
			}
			c, err := catalogueOf(tr.catalogue)
			if err != nil {
				return err
			}
			for _, mix := range []bool{false, true} {
				name := tr.name
				if mix {
					name += ", mix"
				}
				for _, n := range *counts {
					if mix && n > *mixMax {
						continue
					}
					if err := c.traceRow(t, name, podsOf(rows, n, mix), o); err != nil {
						return err
					}
				}
			}
		}
		if t.Len() == 0 {
			return nil
		}
		return t.Print(os.Stdout)
	})
}

// folderOfTraces returns the folder of the traces. The default is the folder on the project's machines, relative to
// the repository.
func folderOfTraces() string {
	if folder := os.Getenv(tracesVariable); folder != "" {
		return folder
	}
	return "../shared/data/traces"
}

func (c *catalogue) traceRow(t *table.Table, name string, pods []*corev1.Pod, o traceFlags) error {
	progress("%s: %d pods …", name, len(pods))
	s, named := c.snapshot(pods), byName(pods)
	out := provision(s, model.Policy{}, len(pods) <= o.checkMax)
	c.settle(&out, named)
	firstFit, firstFitCPU, karp := "", "", ""
	if len(pods) <= o.firstFitMax {
		base := provision(s, model.Policy{Solver: model.FirstFit}, false)
		c.settle(&base, named)
		firstFit, firstFitCPU = against(&base, &out), seconds(base.usage.cpu)
	}
	if len(pods) <= o.karpenterMax {
		base, err := karpenter(c, pods)
		if err != nil {
			return err
		}
		c.settle(&base, named)
		karp = against(&base, &out)
	}
	if len(out.faults) > 0 {
		progress("%s: %d pods: %d faults, first: %s", name, len(pods), len(out.faults), out.faults[0])
	}
	cut := ""
	if out.partial {
		cut = " (cut)"
	}
	t.Add(name, fmt.Sprint(len(pods)), fmt.Sprint(len(s.Shapes)), fmt.Sprint(len(out.machines)),
		fmt.Sprintf("%.2f", out.cost.Dollars()),
		fmt.Sprintf("%.2f", out.bound.Dollars()), above(&out)+cut, firstFit, karp, seconds(out.usage.cpu),
		seconds(out.usage.wall), firstFitCPU,
		fmt.Sprint(out.unplaced), fmt.Sprint(len(out.faults)))
	return nil
}

// against formats how far another side's cost is above the engine's bound. It is no comparison if the sides do not
// place the same pods.
func against(other, out *outcome) string {
	text := aboveBound(other.cost, out.bound)
	if other.unplaced != out.unplaced {
		text += fmt.Sprintf(" (%d unplaced)", other.unplaced)
	}
	return text
}
