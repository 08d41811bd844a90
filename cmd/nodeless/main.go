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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

// version is set by the linker (see Makefile).
var version = "dev"

// Exit codes, as `nodeless help exit-codes` says.
const (
	exitOK          = 0
	exitDifferent   = 1
	exitFailure     = 2
	exitCannotWork  = 3
	exitInterrupted = 130
)

// exitError carries an exit code through cobra.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() { os.Exit(run(calledAs(os.Args[0], os.Args[1:]))) }

func run(name string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	root := newRoot()
	speakAs(name, root)
	root.SetArgs(twoDashes(args))
	err := root.ExecuteContext(ctx)
	var code exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, complaint(name, root, err))
	if strings.HasPrefix(err.Error(), "unknown ") {
		fmt.Fprintf(os.Stderr, "See: %s --help\n", name)
	}
	return exitFailure
}

// complaint is an error as people read it: what it quotes of a cluster or a file may be anything.
func complaint(name string, root *cobra.Command, err error) string {
	text := strings.ReplaceAll(err.Error(), "\t", "  ") // cobra indents its suggestions by tabs
	return printable.Lines(inWords(name, root)(strings.TrimSpace(text)))
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
		Version:           version,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.AddCommand(newUp(), newDown(), newStatus(), newEnv(), newRun(), newWhy(), newDecisions(), newSavings(),
		newTop(), newWeb(), newCapture(), newPlan(), newSimulate(), newKubectl(), newImage(), newHost(), newDNS(),
		newCRDs(), newRBAC(), newVersion(), exitCodes(), newReference())
	for _, c := range root.Commands() {
		bindEnvironment(c)
	}
	addCompletions(root)
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

// bindEnvironment lets NODELESS_DATA_DIR and the like stand for flags that are not given.
func bindEnvironment(c *cobra.Command) {
	if c.DisableFlagParsing || c.RunE == nil {
		return
	}
	next := c.PreRunE
	c.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := flagsFromEnvironment(cmd); err != nil {
			return err
		}
		if next != nil {
			return next(cmd, args)
		}
		return nil
	}
}
