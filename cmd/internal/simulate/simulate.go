// Package simulate implements the commands that decide without a cluster: simulate and simulate trace.
package simulate

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/printable"
)

type simulateOptions struct {
	output, solver, preferences string
	compare, check              bool
	region                      string
}

// New returns the command simulate.
func New() *cobra.Command {
	var o simulateOptions
	c := &cobra.Command{
		Use:   "simulate FILE",
		Short: "Decide for a cluster that is described in a file, and say why",
		Long: `Reads a cluster from a file, decides as the controller would, and prints the
plan with its reasons and its price. It needs no cluster and no cloud. "-" reads
from stdin. The file may be a description in the language below, what
"nodeless capture" or "kubectl get … -o yaml" wrote, or a plan that the
controller saved.

Each line of a description begins with what it declares:

  type NAME cpu=4 memory=16Gi pods=58 offers(a spot 0.07)
  pool NAME weight=10 require(capacity-type=spot|on-demand) limit(cpu=100)
  daemon NAME cpu=100m
  pods COUNT NAME cpu=1 memory=2Gi require(zone=us-east-1a) tolerate(gpu)
  node NAME pool=NAME type=NAME zone=us-east-1a runs(web)
  policy max-types=20

The expected plan may follow a line of dashes: --check compares with it, and
"-o wide" prints a plan in that form.`,
		Example: `  # Decide, and compare with Karpenter's way
  nodeless simulate examples/shop.txt
  nodeless simulate examples/shop.txt --compare

  # For a real cluster, from a file
  nodeless capture > cluster.yaml && nodeless simulate cluster.yaml --compare

  # From stdin
  printf 'type m4 cpu=4 memory=16Gi pods=58 offers(a spot 0.07)
  pool general
  pods 10 web cpu=1' | nodeless simulate -`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.valid(); err != nil {
				return err
			}
			return o.run(cmd, args[0])
		},
	}
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "", "wide, json or yaml; nothing for sentences")
	f.StringVar(&o.solver, "solver", "", "staged or first-fit (as Karpenter does); default: what the file's policy says")
	f.StringVar(&o.preferences, "preferences", "", "priced, respect or ignore; default: what the file's policy says")
	f.BoolVar(&o.compare, "compare", false, "decide with both solvers and say what Karpenter's way would cost")
	f.BoolVar(&o.check, "check", false, "compare with the plan below the line of dashes; exit with 1 if they differ")
	f.StringVar(&o.region, "region", "", "AWS region of the built-in prices for a dump (default: that of its zones)")
	c.AddCommand(newSimulateTrace())
	return c
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("simulate wants one file, or - for stdin, and got %d; see: nodeless simulate --help", len(args))
	}
	return nil
}

var (
	solvers         = map[string]model.Solver{"staged": model.Staged, "first-fit": model.FirstFit}
	preferenceWords = map[string]model.Preferences{
		"priced": model.Priced, "respect": model.Respect,
		"ignore": model.Ignore,
	}
)

func (o *simulateOptions) valid() error {
	if _, ok := solvers[o.solver]; !ok && o.solver != "" {
		return fmt.Errorf("--solver %q: use staged or first-fit", o.solver)
	}
	if _, ok := preferenceWords[o.preferences]; !ok && o.preferences != "" {
		return fmt.Errorf("--preferences %q: use priced, respect or ignore", o.preferences)
	}
	switch o.output {
	case "", "wide", "json", "yaml":
	default:
		return fmt.Errorf("unknown output %q: use -o wide, json or yaml, or nothing for sentences", o.output)
	}
	if o.check && (o.compare || o.output != "") {
		return fmt.Errorf("--check prints differences only: leave out --compare and -o")
	}
	if o.compare && o.output == "wide" {
		return fmt.Errorf("--compare prints no plan: leave out -o wide, or print both plans with -o json or yaml")
	}
	if o.compare && o.solver != "" {
		return fmt.Errorf("--compare decides with both solvers: leave out --solver")
	}
	return nil
}

func (o *simulateOptions) run(cmd *cobra.Command, file string) error {
	s, policy, want, err := o.readCluster(cmd, file)
	if err != nil {
		return fmt.Errorf("simulate %s: %w", file, err)
	}
	if o.solver != "" {
		policy.Solver = solvers[o.solver]
	}
	if o.preferences != "" {
		policy.Preferences = preferenceWords[o.preferences]
	}
	if o.check && want == nil {
		return fmt.Errorf("simulate %s: there is no plan to compare with; write it below a line of dashes (see: nodeless "+
			"simulate %s -o wide)", file, file)
	}
	policies := []model.Policy{policy}
	if o.compare {
		ours, theirs := policy, policy
		ours.Solver, theirs.Solver = model.Staged, model.FirstFit
		policies = []model.Policy{ours, theirs}
	}
	results, err := decideAll(cmd.Context(), s, policies)
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), s, results, want); err != nil {
		return err
	}
	for _, r := range results {
		if len(r.Violations) > 0 {
			return fmt.Errorf("simulate %s: the plan of solver %s fails %d checks, which is a bug; the first: %s", file,
				r.Solver, len(r.Violations), r.Violations[0])
		}
	}
	return nil
}

func (o *simulateOptions) print(w io.Writer, s *model.Snapshot, results []simulated, want *string) error {
	switch {
	case o.check:
		got := results[0].text(s)
		if got == *want {
			fmt.Fprintln(w, "The plan is as expected.")
			return nil
		}
		fmt.Fprint(w, "The plan is another than expected (- expected, + decided):\n",
			printable.Lines(differences(*want, got)))
		return &program.ExitError{Code: program.ExitDifferent}
	case o.output == "json", o.output == "yaml":
		return writeSimulated(w, o.output, results)
	case o.compare:
		return writeComparison(w, results)
	case o.output == "wide":
		_, err := fmt.Fprint(w, printable.Lines(results[0].text(s)))
		return err
	}
	return results[0].writeSentences(w, s)
}

// decideAll decides once for each policy, and stops waiting when ctx ends: a decision itself cannot be interrupted.
func decideAll(ctx context.Context, s *model.Snapshot, policies []model.Policy) ([]simulated, error) {
	done := make(chan []simulated, 1)
	go func() {
		var out []simulated
		for _, p := range policies {
			out = append(out, decide(s, p))
		}
		done <- out
	}()
	select {
	case out := <-done:
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func decide(s *model.Snapshot, p model.Policy) simulated {
	r := simulated{Solver: "staged", Provision: engine.Provision(s, p), ResourceNames: s.ResourceNames}
	if p.Solver == model.FirstFit {
		r.Solver = "first-fit"
	}
	violations := append(check.Plan(s, p, r.Provision), check.Answered(s, r.Provision)...)
	if len(s.Nodes) > 0 {
		disrupt := engine.Disrupt(s, p)
		r.Disrupt = &disrupt
		violations = append(violations, check.Plan(s, p, disrupt)...)
	}
	for _, v := range violations {
		r.Violations = append(r.Violations, v.Error())
	}
	r.sum()
	return r
}
