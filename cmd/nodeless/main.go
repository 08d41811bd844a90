// Command nodeless gives a Kubernetes cluster its compute without anybody managing nodes.
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
	"strings"
	"syscall"

	"github.com/nodeless/nodeless/cmd/internal/completion"
	"github.com/nodeless/nodeless/cmd/internal/explain"
	"github.com/nodeless/nodeless/cmd/internal/host"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/reference"
	"github.com/nodeless/nodeless/cmd/internal/run"
	"github.com/nodeless/nodeless/cmd/internal/simulate"
	"github.com/nodeless/nodeless/cmd/internal/up"
	"github.com/nodeless/nodeless/cmd/internal/views"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() { os.Exit(execute(program.CalledAs(os.Args[0], os.Args[1:]))) }

func execute(name string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	root := newRoot()
	program.CallItself(name, root)
	root.SetArgs(views.TwoDashes(args))
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return program.ExitInterrupted
	}
	code, say := program.ExitCode(err)
	if say != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, program.Printable(name, root, say))
		if strings.HasPrefix(say.Error(), "unknown ") {
			fmt.Fprintf(os.Stderr, "See: %s --help\n", name)
		}
	}
	return code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "nodeless",
		Short: "Compute for Kubernetes that nobody has to manage",
		Long: `Nodeless launches the machine a pending pod needs and takes it away when it is no longer worth its price.

  nodeless up --demo     a whole cluster on this machine, with a simulated AWS region: watch machines come and go
  nodeless run           the controller alone, against the cluster of your kubeconfig
  nodeless host          this machine as a host of microVMs for a cluster's pods
  nodeless why pod/NAME  why a pod waits or is where it is; node/NAME: why a machine is kept or goes; on any cluster, reading only
  nodeless decisions     what was decided lately, why, and what became of it; nodeless savings: what that has saved
  nodeless top           what your cluster's nodes hold and cost right now, why pods wait; on any cluster, read-only
  nodeless web           the same as a page for your browser, with what was before
  nodeless simulate FILE what would be launched for a cluster that is written in a file, and why
  nodeless plan -f FILE  what a change of pools, classes, DaemonSets or Deployments would do to nodes, pods and costs
  nodeless capture       that file, of your cluster and without its secrets; why answers from it too
  nodeless env           the variables with which kubectl, aws and terraform find the cluster of "nodeless up"
  nodeless kubectl …     kubectl, already pointed at the cluster of "nodeless up"`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Version:           program.Version,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	for _, group := range [][]*cobra.Command{
		up.Commands(), run.Commands(), explain.Commands(), views.Commands(), host.Commands(),
		{simulate.New(), newVersion(), exitCodes(), reference.New()},
	} {
		root.AddCommand(group...)
	}
	for _, c := range program.Commands(root) {
		program.BindEnvironment(c)
	}
	completion.Add(root)
	root.Flags().Bool("version", false, "print the version") // before cobra takes that of Kubernetes, which is no bool
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		hideInherited()
		help(c, args)
	})
	return root
}

// hideInherited leaves out of help what Kubernetes' packages declare for all commands of a program, such as their own
// --version.
func hideInherited() {
	pflag.CommandLine.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
}

func exitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `  0    done
  1    "nodeless simulate --check": the plan is another than the file expects; "nodeless plan --detailed-exitcode": failure
  2    wrong usage or failure; the last line on stderr says what, why and what to do.
       "nodeless plan --detailed-exitcode": something would change
  3    "nodeless plan": a NodePool or node class could launch nothing as the change leaves it; there is no forecast of that
  130  interrupted (Ctrl-C) before the work was done

"nodeless kubectl" exits as kubectl does. "nodeless status" exits with 2 if nothing runs.`,
	}
}
