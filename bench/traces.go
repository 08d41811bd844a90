package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine/model"
)

const tracesVariable = "NODELESS_TRACES"

func benchTraces(args []string) error {
	f := flag.NewFlagSet("traces", flag.ExitOnError)
	counts := numbersFlag(f, "pods", "numbers of pods: the first of each trace, repeated as needed", 10, 100, 1000, 10000, 100000)
	mixMax := f.Int("mix-max", 100000, "most pods of the constrained mix; 0 = none")
	firstFitMax := f.Int("firstfit-max", 100000, "most pods given to the compatible mode; 0 = do not run it")
	checkMax := f.Int("check-max", 1000, "most pods of a plan that engine/check judges")
	only := f.String("trace", "", "only traces whose name contains this")
	folder := f.String("folder", folderOfTraces(), "where the traces are; also "+tracesVariable)
	profile := f.String("cpuprofile", "", "write a CPU profile to this file")
	_ = f.Parse(args)

	return profiled(*profile, func() error {
		fmt.Printf("%s, %d CPUs. Cost above Plan.LowerBound, machines priced by one function.\n", runtime.Version(), runtime.NumCPU())
		t := newTable("trace", "pods", "shapes", "machines", "$/h", "bound $/h", "above", "FirstFit", "CPU s", "wall s", "FirstFit CPU s", "unplaced", "faults")
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
					c.traceRow(t, name, podsOf(rows, n, mix), n <= *firstFitMax, n <= *checkMax)
				}
			}
		}
		if len(t.rows) == 1 {
			return nil
		}
		return t.print(os.Stdout)
	})
}

// folderOfTraces is where the project's machines have them, seen from the project's folder.
func folderOfTraces() string {
	if folder := os.Getenv(tracesVariable); folder != "" {
		return folder
	}
	return "../shared/data/traces"
}

func (c *catalogue) traceRow(t *table, name string, pods []*corev1.Pod, firstFit, judged bool) {
	progress("%s: %d pods …", name, len(pods))
	s, requests := c.snapshot(pods), requestsByName(pods)
	out := c.priced(s, requests, model.Policy{}, judged)
	byName := map[string]*corev1.Pod{}
	for _, p := range pods {
		byName[p.Name] = p
	}
	out.faults = append(out.faults, faultsOf(&out, byName)...)
	baseAbove, baseCPU := "", ""
	if firstFit {
		base := c.priced(s, requests, model.Policy{Solver: model.FirstFit}, false)
		baseAbove, baseCPU = aboveBound(base.cost, out.bound), seconds(base.usage.cpu)
		if base.unplaced != out.unplaced {
			baseAbove += fmt.Sprintf(" (%d unplaced)", base.unplaced)
		}
	}
	if len(out.faults) > 0 {
		progress("%s: %d pods: %d faults, first: %s", name, len(pods), len(out.faults), out.faults[0])
	}
	cut := ""
	if out.partial {
		cut = " (cut)"
	}
	t.add(name, fmt.Sprint(len(pods)), fmt.Sprint(len(s.Shapes)), fmt.Sprint(len(out.machines)), fmt.Sprintf("%.2f", out.cost.Dollars()),
		fmt.Sprintf("%.2f", out.bound.Dollars()), above(&out)+cut, baseAbove, seconds(out.usage.cpu), seconds(out.usage.wall), baseCPU,
		fmt.Sprint(out.unplaced), fmt.Sprint(len(out.faults)))
}

func (c *catalogue) priced(s *model.Snapshot, requests map[string]model.Resources, p model.Policy, judged bool) outcome {
	out := provision(s, p, judged)
	if err := c.price(&out, requests); err != nil {
		out.faults = append(out.faults, err.Error())
	}
	return out
}
