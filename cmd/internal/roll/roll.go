//go:build !noplane

// Package roll implements the command that replaces the nodes of NodePools and of Auto Scaling groups.
package roll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
	"github.com/nodeless/nodeless/roll"
)

// New returns the command roll.
func New() *cobra.Command {
	c := &cobra.Command{
		Use:   "roll",
		Short: "Replace the nodes of NodePools or groups by new ones",
		Long: `Replaces nodes by new ones, as "kops rolling-update cluster" does: those that
need an update, or with --force all. Without --yes it shows what would happen
and changes nothing.

  nodepool  nodes of NodePools: the controller replaces them, within the
            NodePool's budgets
  group     nodes of Auto Scaling groups, which EKS, kops or Terraform made

PodDisruptionBudgets are kept, and new nodes are ready before old ones are
drained. A roll that was interrupted goes on when it is begun again.`,
		Example: `  nodeless roll nodepool
  nodeless roll nodepool general-purpose --force --yes
  nodeless roll group web --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newNodePool(), newGroup())
	return c
}

// table is what -o json prints.
type table struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Rows       []roll.Row      `json:"rows"`
	Plan       *whatif.Outcome `json:"plan,omitempty"` // what a roll of NodePools would do
}

func newTable(rows []roll.Row, plan *whatif.Outcome) table {
	if rows == nil {
		rows = []roll.Row{}
	}
	return table{"nodeless.sh/v1alpha1", "Roll", rows, plan}
}

// write prints the table with kops' columns and, with -o wide, the nodes that need an update, or as data.
func (t table) write(w io.Writer, format string) error {
	if output.IsData(format) {
		return output.Rows(w, format, t, "rows", true)
	}
	rows := [][]string{{"NAME", "STATUS", "NEEDUPDATE", "READY", "MIN", "TARGET", "MAX", "NODES"}}
	nodes := [][]string{{"NODE", "INSTANCE", "OF", "NEEDS AN UPDATE"}}
	var problems []string
	for _, r := range t.Rows {
		rows = append(rows, []string{
			r.Name, r.Status, strconv.Itoa(r.NeedUpdate), strconv.Itoa(r.Ready), bound(r.Min), strconv.Itoa(r.Target),
			bound(r.Max), strconv.Itoa(r.Nodes),
		})
		for _, o := range r.Outdated {
			nodes = append(nodes, []string{o.Node, o.Instance, r.Name, o.Why})
		}
		if r.Problem != "" {
			problems = append(problems, r.Name+": "+r.Problem)
		}
		for _, pod := range r.InTheWay {
			problems = append(problems, r.Name+": in the way: pod "+pod)
		}
	}
	err := output.Table(w, rows...)
	if format == "wide" && len(nodes) > 1 {
		_, line := fmt.Fprintln(w)
		err = errors.Join(err, line, output.Table(w, nodes...))
	}
	for _, p := range problems {
		_, line := fmt.Fprintln(w, p)
		err = errors.Join(err, line)
	}
	return err
}

func bound(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

// needUpdate counts the nodes that need an update.
func needUpdate(rows []roll.Row) int {
	n := 0
	for _, r := range rows {
		n += r.NeedUpdate
	}
	return n
}

// explained adds a remedy if a cluster does not answer or may not be read. Errors of AWS have one already.
func explained(host string, err error) error {
	_, unknown := errors.AsType[*roll.UnknownError](err)
	_, fromAWS := errors.AsType[*smithy.OperationError](err)
	switch {
	case err == nil || unknown || fromAWS:
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; an administrator allows it: nodeless rbac --view --user NAME | kubectl apply -f -",
			capture.ExplainUnreachable(host, err))
	}
	return capture.ExplainUnreachable(host, err)
}

// allowRoll adds a remedy if NodePools cannot be changed.
func allowRoll(host string, err error) error {
	return target.ExplainRefused(host, target.Allow("nodeless-roll", "patch", "nodepools.karpenter.sh"), err)
}

// interrupted turns an error caused by Ctrl-C into one that says how to go on.
func interrupted(ctx context.Context, err error, then string) error {
	if ctx.Err() == nil {
		return err
	}
	return &program.ExitError{Code: program.ExitInterrupted, Err: errors.New("interrupted; nothing is lost: " + then)}
}
