package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/table"
)

// contest is one comparison: both sides get the same pods and the same offerings.
type contest struct {
	name     string
	pods     []*corev1.Pod
	policies []model.Policy // of the engine; the first is compared with Karpenter
	ignore   bool           // Karpenter's preference policy Ignore
}

type contestFlags struct {
	karpenterMax, checkMax, runs int
	firstFit                     bool
}

func benchEngine(args []string) error {
	f := flag.NewFlagSet("engine", flag.ExitOnError)
	counts := numbersFlag(f, "pods", "numbers of diverse pods", 1000, 5000, 10000, 20000)
	preferences := numbersFlag(f, "preferences", "numbers of pods with preferences", 4000)
	names := f.String("catalogues", "fake,cmr,all", "what may be launched: of fake, cmr, cmr192, all")
	var o contestFlags
	f.IntVar(&o.karpenterMax, "karpenter-max", 20000, "most pods given to Karpenter; 0 = do not run it")
	f.IntVar(&o.checkMax, "check-max", 5000, "most pods of a plan that engine/check judges")
	f.IntVar(&o.runs, "runs", 3, "runs of the engine, of which the one with the least CPU counts")
	f.BoolVar(&o.firstFit, "firstfit", true, "run the engine's compatible mode too")
	profile := f.String("cpuprofile", "", "write a CPU profile to this file")
	_ = f.Parse(args)

	return profiled(*profile, func() error {
		fmt.Printf("%s, %d CPUs. Karpenter v1.14.1: Solve alone, 5 workers. The engine: grouping of pods and Provision.\n",
			runtime.Version(), runtime.NumCPU())
		for name := range strings.SplitSeq(*names, ",") {
			c, err := catalogueOf(name)
			if err != nil {
				return err
			}
			if err := c.contests(*counts, *preferences, o); err != nil {
				return fmt.Errorf("catalogue %s: %w", name, err)
			}
		}
		return nil
	})
}

func (c *catalogue) contests(counts, preferences []int, o contestFlags) error {
	fmt.Printf("\n%s: %d types, daemons %s\n", c.about, len(c.types), c.overhead().Amounts(model.WellKnownResources))
	t := table.New(2, "pods", "", "CPU s", "less CPU", "wall s", "MiB", "machines", "$/h", "against it", "above bound",
		"unplaced", "faults")
	for _, n := range counts {
		if err := c.contest(t, contest{
			name: fmt.Sprintf("%d diverse", n), pods: diverse(n),
			policies: []model.Policy{{}},
		}, o); err != nil {
			return err
		}
	}
	for _, n := range preferences {
		pods := preferring(n, c.zones[0])
		for _, k := range []contest{
			{name: fmt.Sprintf("%d Respect", n), pods: pods, policies: []model.Policy{{Preferences: model.Respect}, {}}},
			{name: fmt.Sprintf("%d Ignore", n), pods: pods, policies: []model.Policy{{Preferences: model.Ignore}}, ignore: true},
		} {
			if err := c.contest(t, k, o); err != nil {
				return err
			}
		}
	}
	return t.Print(os.Stdout)
}

func (c *catalogue) contest(t *table.Table, k contest, o contestFlags) error {
	named := byName(k.pods)
	var base *outcome
	add := func(out *outcome, what string) {
		c.settle(out, named)
		if out.who == "karpenter" {
			base = out
		}
		row(t, k.name, what, out, base)
	}
	if len(k.pods) <= o.karpenterMax {
		progress("%s: %s: karpenter …", c.name, k.name)
		var opts []scheduling.Options
		if k.ignore {
			opts = append(opts, scheduling.IgnorePreferences)
		}
		out, err := karpenter(c, k.pods, opts...)
		if err != nil {
			return err
		}
		progress("%s: %s: karpenter took %.1f s", c.name, k.name, out.usage.wall.Seconds())
		add(&out, out.who)
	}
	policies := k.policies
	if o.firstFit {
		compatible := policies[0]
		compatible.Solver = model.FirstFit
		policies = append([]model.Policy{compatible}, policies...)
	}
	for i, p := range policies {
		progress("%s: %s: engine, policy %d of %d …", c.name, k.name, i+1, len(policies))
		out := c.bestOf(o.runs, k.pods, p, len(k.pods) <= o.checkMax)
		what := out.who
		if k.policies[0].Preferences != "" && p.Preferences == model.Priced {
			what += " priced"
		}
		add(&out, what)
	}
	return nil
}

// bestOf returns the engine's outcome with the least CPU of several runs: noise only ever adds.
func (c *catalogue) bestOf(runs int, pods []*corev1.Pod, p model.Policy, judged bool) outcome {
	out := nodeless(c, pods, p, judged)
	for range runs - 1 {
		if again := nodeless(c, pods, p, false); again.usage.cpu < out.usage.cpu {
			out.usage = again.usage
		}
	}
	return out
}

func row(t *table.Table, name, what string, o, base *outcome) {
	less, against := "", ""
	if base != nil && base != o {
		less = fmt.Sprintf("%.0f ×", base.usage.cpu.Seconds()/max(o.usage.cpu.Seconds(), 1e-6))
		against = fmt.Sprintf("%+.1f %%", 100*(float64(o.cost)/float64(base.cost)-1))
	}
	faults := fmt.Sprint(len(o.faults))
	if len(o.faults) > 0 {
		progress("%s: %s: %d faults, first: %s", name, what, len(o.faults), o.faults[0])
	}
	t.Add(name, what, seconds(o.usage.cpu), less, seconds(o.usage.wall), mib(o.usage.bytes), fmt.Sprint(len(o.machines)),
		fmt.Sprintf("%.2f", o.cost.Dollars()), against, above(o), fmt.Sprint(o.unplaced), faults)
}
