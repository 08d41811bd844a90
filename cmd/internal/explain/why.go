// Package explain has the commands that explain and preview decisions: why, plan, decisions, savings and capture.
package explain

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nodeless/nodeless/cmd/internal/policyflags"
	"github.com/nodeless/nodeless/cmd/internal/target"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/explain/capture"
	answers "github.com/nodeless/nodeless/explain/why"
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
		Short: "Say why a pod waits or is where it is, why a machine is kept or goes, and what a NodePool may do",
		Long: `Reads a cluster, asks the engine what it would decide now, and says why, in words and figures. It changes nothing and works
on any cluster with a kubeconfig and the right to read ("nodeless rbac --view"), also where no controller runs.

  deployment/NAME one answer for all its pods; so of a replicaset, statefulset, daemonset, job, cronjob or replicationcontroller
  pod/NAME        which pools were tried and how many instance types each rule left; which rule stands in the way, and the smallest
                  single change after which the pod would have its place, with up to two others, and what each would cost an hour; or which machine is bought for it, why that type and what
                  others cost; or how it came to where it is
  node/NAME       what keeps the machine, one reason after another, and when each clears; what would become of it then; or why it
  nodeclaim/NAME  goes, by which command, and what it waits for
  nodepool/NAME   whether it is ready, what it may launch, its limits, budgets, and the pods that wait for it

Something that is gone is answered by what the controller kept of its decisions ("nodeless decisions" lists them): when and for whom it
was launched, at what price, why it went and what that saved; and by events, as long as the cluster keeps them.

Prices are those of the simulated region for the cluster of "nodeless up", else those of the catalogue in this program
(--prices aws asks AWS). Which types were lately out of capacity only the controller knows: what it decided
about a pod for want of them is part of the answer, for 12 minutes after it last said so.
Give the flags for choices the values that the controller has, if they are others than the defaults.`,
		Example: `  nodeless why pod/web-7fb4-x2x -n shop
  nodeless why node/ip-10-0-3-7.us-west-2.compute.internal
  nodeless why nodepool general-purpose -o json
  nodeless why deployment/web
  nodeless why pod/web-0 -o jsonpath='{.change.command}'
  kubectl get nodes -o name | xargs -n1 nodeless why
  nodeless why pod/web-0 --context prod
  nodeless why pod/web-0 --from cluster.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return errors.New("ask for one object, such as pod/NAME, deployment/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME; what was decided lately: nodeless decisions")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.answer(cmd, args) },
	}
	o.cluster.Add(c.Flags())
	o.cluster.AddFrom(c.Flags())
	o.policy.Add(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "text", "text, json, yaml, "+output.Forms)
	c.Flags().BoolVar(&o.partial, "partial", false, "answer without what you may not read, and say what that is")
	return c
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
		return err // before anything is asked of the cluster
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
		return a.Text(w, coloured(w), columns(w))
	}
	return output.Rows(w, format, a, "facts", true)
}

// columns is the width of a terminal, 0 for anything else.
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

// coloured reports whether to use colour: on a terminal that can, unless NO_COLOR is set; CLICOLOR_FORCE wants it
// anywhere.
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

// Commands are the commands that explain and preview decisions.
func Commands() []*cobra.Command {
	return []*cobra.Command{newWhy(), newPlan(), newDecisions(), newSavings(), newCapture()}
}
