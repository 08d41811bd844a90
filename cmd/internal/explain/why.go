// Package explain implements the commands that explain and preview decisions: why, plan, decisions, savings and
// capture.
package explain

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/policyflags"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/explain/capture"
	answers "github.com/nodeless/nodeless/explain/why"
	"github.com/nodeless/nodeless/view/language"
)

type whyOptions struct {
	cluster target.Flags
	policy  policyflags.Flags
	output  string
	partial bool
}

func newWhy() *cobra.Command {
	var o whyOptions
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Explain a pending pod, a pod's node, a kept or removed node, or a NodePool",
		Long: `Explains one object: why a pod is pending, or how it came to its node; why a
node is kept or removed; what a NodePool may launch. It reads the cluster, asks
the engine what it would decide now, and changes nothing. It works on any
cluster that you may read ("nodeless rbac --view"), with or without a
controller.

  pod/NAME         the NodePools that were tried, and how many instance types
                   each rule left; the smallest change that would give the pod
                   a node, with up to two others and what each costs; or the
                   node that is launched for it, and what others would cost
  deployment/NAME  one answer for all its pods; also replicaset, statefulset,
                   daemonset, job, cronjob and replicationcontroller
  node/NAME        what keeps the node, when that clears, and what would happen
  nodeclaim/NAME   then; or why it is being removed, and what it waits for
  nodepool/NAME    whether it is ready, what it may launch, its limits and
                   budgets, and the pods that wait for it

For objects that no longer exist the answer comes from the decisions that the
controller recorded (see "nodeless decisions") and from events.

Prices are those of the simulated region for the cluster of "nodeless up", else
those of the built-in catalogue; --prices aws asks AWS. If the controller runs
with other policy flags than the defaults, pass them here, too.

On a terminal the answer is in Korean where LC_ALL, LC_MESSAGES or LANG says so
(ko_KR.UTF-8); what is piped or written with -o is English.`,
		Example: `  # Why is this pod pending?
  nodeless why pod/web-7fb4-x2x -n shop

  # Why is this node not removed?
  nodeless why node/ip-10-0-3-7.us-west-2.compute.internal

  # Explain all pods of a Deployment, all nodes, or a NodePool as JSON
  nodeless why deployment/web
  kubectl get nodes -o name | xargs -n1 nodeless why
  nodeless why nodepool general-purpose -o json

  # Print the command that would help the pod
  nodeless why pod/web-0 -o jsonpath='{.change.command}'

  # On another cluster, or from a file
  nodeless why pod/web-0 --context prod
  nodeless why pod/web-0 --from cluster.yaml`,
		Args: oneObject,
		RunE: func(cmd *cobra.Command, args []string) error { return o.answer(cmd, args) },
	}
	o.cluster.Add(c.Flags())
	o.cluster.AddNamespace(c.Flags())
	o.cluster.AddFrom(c.Flags())
	o.policy.Add(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "text", "text, json, yaml, "+output.Forms)
	c.Flags().BoolVar(&o.partial, "partial", false, "continue without what you may not read, and say what that is")
	return c
}

func oneObject(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("ask for one object, such as pod/NAME, deployment/NAME, node/NAME, nodeclaim/NAME or " +
			"nodepool/NAME; what was decided lately: nodeless decisions")
	}
	return nil
}

func (o *whyOptions) answer(cmd *cobra.Command, args []string) error {
	if err := output.Check(o.output, "text"); err != nil {
		return err
	}
	policy, _, err := o.policy.Resolve()
	if err != nil {
		return err
	}
	if _, err := answers.Parse("", args...); err != nil {
		return err // before the cluster is asked anything
	}
	if err := o.policy.Scheduler(&o.cluster.Scheduler); err != nil {
		return err
	}
	c, t, err := o.cluster.Open(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(),
		func(l *capture.Options) { l.Partial = o.partial })
	if err != nil {
		return err
	}
	of, err := answers.Parse(t.Namespace, args...)
	if err != nil {
		return err
	}
	a, err := answers.Ask(cmd.Context(), c, policy, of)
	if err != nil {
		return fmt.Errorf("%w (asked: %s)", err, t.Of)
	}
	return printAnswer(cmd.OutOrStdout(), o.output, a)
}

func printAnswer(w io.Writer, format string, a *answers.Answer) error {
	if format == "text" {
		f := answers.Format{Colour: coloured(w), Width: columns(w)}
		if f.Width > 0 { // scripts read English
			f.Say = language.ForLocale(os.Getenv).Say
		}
		return a.Text(w, f)
	}
	return output.Rows(w, format, a, "facts", true)
}

// columns returns the width of a terminal, 0 for anything else.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// coloured reports whether to use colour: on a terminal that supports it, unless NO_COLOR is set; CLICOLOR_FORCE
// enables it anywhere.
func coloured(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Commands returns the commands that explain and preview decisions.
func Commands() []*cobra.Command {
	return []*cobra.Command{newWhy(), newPlan(), newDecisions(), newSavings(), newCapture()}
}
