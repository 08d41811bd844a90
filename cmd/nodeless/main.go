// Command nodeless gives a Kubernetes cluster its compute, so that nobody has to manage nodes.
//
// `nodeless up` runs a whole cluster on this machine: the real control plane, a simulated AWS region and the
// controller. `nodeless run` runs the controller alone, against any cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/cmd/internal/completion"
	"github.com/nodeless/nodeless/cmd/internal/doctor"
	"github.com/nodeless/nodeless/cmd/internal/explain"
	"github.com/nodeless/nodeless/cmd/internal/host"
	"github.com/nodeless/nodeless/cmd/internal/iam"
	"github.com/nodeless/nodeless/cmd/internal/migrate"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/reference"
	"github.com/nodeless/nodeless/cmd/internal/roll"
	"github.com/nodeless/nodeless/cmd/internal/run"
	"github.com/nodeless/nodeless/cmd/internal/simulate"
	"github.com/nodeless/nodeless/cmd/internal/up"
	"github.com/nodeless/nodeless/cmd/internal/views"
)

func main() { os.Exit(execute(program.CalledAs(os.Args[0], os.Args[1:]))) }

func execute(name string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	root := newRoot()
	program.CallItself(name, root)
	root.SetArgs(views.TwoDashes(args))
	c, err := root.ExecuteContextC(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return program.ExitInterrupted
	}
	code, say := program.ExitCode(err)
	if _, coded := errors.AsType[*program.ExitError](err); err != nil && !coded && tellsChanges(c, args) {
		code = exitPlanFails
	}
	if say != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, program.Printable(name, root, say))
		if strings.HasPrefix(say.Error(), "unknown ") {
			fmt.Fprintf(os.Stderr, "See: %s --help\n", name)
		}
	}
	return code
}

const exitPlanFails = 1 // with --detailed-exitcode

// tellsChanges reports whether the exit code 2 of a command means that something would change, so that wrong usage
// needs another one. Behind a wrong flag, neither other flags nor the environment have been read.
func tellsChanges(c *cobra.Command, args []string) bool {
	const detailed = "detailed-exitcode"
	_ = program.ReadEnvironment(c)       // the error of what was called is reported already
	on, _ := c.Flags().GetBool(detailed) // an error of commands without this flag
	return on || c.Name() == "plan" && slices.Contains(args, "--"+detailed)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "nodeless",
		Short: "Compute for Kubernetes that nobody has to manage",
		Long: `Nodeless launches the nodes that pending pods need, and removes nodes that are
no longer worth their price.

Run it:
  nodeless up --demo      a whole cluster on this machine, with a simulated AWS
                          region: watch nodes being launched and removed
  nodeless run            the controller, against the cluster of your kubeconfig
  nodeless host           make this machine a host of microVMs

Ask any cluster, reading only:
  nodeless why pod/NAME   why a pod is pending or where it is; node/NAME: why a
                          node is kept or removed
  nodeless plan -f FILE   what a change of manifests would do to nodes and costs
  nodeless decisions      recent decisions, why, and what came of them
  nodeless savings        what removing nodes has saved
  nodeless top            nodes with prices and usage, pending pods, live
  nodeless web            the same as a page for your browser, with its history
  nodeless doctor         whether the cluster is ready for the controller
  nodeless capture        write the cluster to a file for why, plan and simulate

Without a cluster:
  nodeless simulate FILE  decide for a cluster that is described in a file
  nodeless migrate -f …   turn node groups and Karpenter's old APIs into NodePools
  nodeless iam            print the controller's IAM policy, roles and queue

Change nodes:
  nodeless roll           replace the nodes of NodePools or groups by new ones

With the cluster of "nodeless up":
  nodeless kubectl …      kubectl, pointed at it
  nodeless env            variables with which other tools reach it`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Version:           program.Version,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	for _, group := range [][]*cobra.Command{
		up.Commands(), run.Commands(), explain.Commands(), views.Commands(), host.Commands(),
		{simulate.New(), migrate.New(), roll.New(), iam.New(), doctor.New(), newVersion(), exitCodes(), reference.New()},
	} {
		root.AddCommand(group...)
	}
	for _, c := range program.Commands(root) {
		program.BindEnvironment(c)
	}
	completion.Add(root)
	root.Flags().Bool("version", false, "print the version") // before cobra adopts that of Kubernetes, which is no bool
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		hideInherited()
		help(c, args)
	})
	return root
}

// hideInherited hides from help the flags that Kubernetes' packages declare for all commands of a program, such as
// their own --version.
func hideInherited() {
	pflag.CommandLine.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
}

func exitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `  0    success
  1    "nodeless simulate --check": the plan differs from the expected one;
       "nodeless plan --detailed-exitcode": failure
  2    wrong usage or failure; the last line on stderr says what, why and what to
       do. "nodeless plan --detailed-exitcode": something would change
  3    "nodeless plan": a NodePool or node class could launch nothing after the
       change, so there is no forecast
  130  interrupted (Ctrl-C) before the work was done

"nodeless kubectl" exits as kubectl does. "nodeless status" exits with 2 if
nothing runs.`,
	}
}
