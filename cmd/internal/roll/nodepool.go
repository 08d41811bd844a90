//go:build !noplane

package roll

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cmd/internal/explain"
	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/policyflags"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/roll"
)

type poolOptions struct {
	cluster    target.Flags
	policy     policyflags.Flags
	yes, force bool
	timeout    time.Duration
	output     string
}

const poolLong = `Replaces the nodes of NodePools by new ones: of those that are named, else of
all. A node needs an update if it has drifted from its NodePool or node class,
which the controller replaces by itself; with --force every node does, as
"kubectl rollout restart" does with pods: the annotation nodeless.sh/rolled-at
of the NodePool's template is set to now, so that all its nodes drift.

The controller replaces them: new nodes are ready before old ones are drained,
within the NodePool's disruption budgets, PodDisruptionBudgets and
karpenter.sh/do-not-disrupt, and with --preflight=enforce as far as new nodes
have addresses for their pods. With --yes the command follows until no node
needs an update and says what holds them. It may be interrupted: the controller goes
on, and the same command follows again. With --force, too: a roll that has not
ended is not begun again.

Without --yes nothing is changed: it shows what would happen and cost, as
"nodeless plan" does. If the controller runs with other policy flags than the
defaults, pass them here, too.`

const poolExamples = `  # Which nodes need an update, and why?
  nodeless roll nodepool -o wide

  # What would the replacement of all nodes do and cost? Do it.
  nodeless roll nodepool general-purpose --force
  nodeless roll nodepool general-purpose --force --yes

  # Wait at most an hour
  nodeless roll nodepool general-purpose --yes --timeout 1h`

func newNodePool() *cobra.Command {
	var o poolOptions
	c := &cobra.Command{
		Use: "nodepool [NAME...]", Aliases: []string{"nodepools"}, Short: "Replace the nodes of NodePools by new ones",
		Long: poolLong, Example: poolExamples,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := c.Flags()
	o.cluster.Add(f)
	o.policy.Add(f)
	f.BoolVarP(&o.yes, "yes", "y", false, "roll the NodePools and follow; else only what would happen is shown")
	f.BoolVar(&o.force, "force", false, "replace nodes that need no update, too")
	f.DurationVar(&o.timeout, "timeout", 0, "give up following after this time; 0 follows until the end")
	f.StringVarP(&o.output, "output", "o", "", "wide, json, yaml, "+output.Forms)
	return c
}

func (o *poolOptions) run(cmd *cobra.Command, names []string) error {
	if err := output.Check(o.output, "", "wide"); err != nil {
		return err
	}
	if o.timeout < 0 {
		return errors.New("--timeout is 0 or more")
	}
	if _, _, err := o.policy.Resolve(); err != nil {
		return err
	}
	if err := o.policy.Scheduler(&o.cluster.Scheduler); err != nil {
		return err
	}
	t, err := o.cluster.Find()
	if err != nil {
		return err
	}
	cfg := rest.CopyConfig(t.REST)
	cfg.QPS, cfg.Burst = 50, 100
	c, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return capture.ExplainUnreachable(cfg.Host, err)
	}
	pools, err := roll.Pools(cmd.Context(), c, names)
	if err != nil {
		return explained(cfg.Host, err)
	}
	data := output.IsData(o.output)
	if !o.yes {
		return o.preview(cmd, t, pools)
	}
	if !data {
		if err := newTable(rowsOf(pools), nil).write(cmd.OutOrStdout(), o.output); err != nil {
			return err
		}
	}
	if err := o.begin(cmd.Context(), c, pools, t.Clock); err != nil {
		return allowRoll(cfg.Host, err)
	}
	f := follower{poolOptions: o, target: t, client: c, names: names, w: cmd.ErrOrStderr()}
	if pools, err = f.follow(cmd.Context()); err != nil || !data {
		return interrupted(cmd.Context(), err, followAgain)
	}
	return newTable(rowsOf(pools), nil).write(cmd.OutOrStdout(), o.output)
}

func rowsOf(pools []roll.Pool) []roll.Row {
	var rows []roll.Row
	for i := range pools {
		rows = append(rows, pools[i].Row())
	}
	return rows
}

// begin makes all nodes of the pools need an update, except where such a roll is still in progress. If one of the pools
// cannot be rolled, none is.
func (o *poolOptions) begin(ctx context.Context, c client.Client, pools []roll.Pool, clock clock.Clock) error {
	var todo []*roll.Pool
	for i := range pools {
		p := &pools[i]
		if !o.force || p.Rolling() {
			continue
		}
		if problem := p.Row().Problem; problem != "" {
			return fmt.Errorf("NodePool %s launches nothing (%s), so that its nodes would stay; nodeless why nodepool %s "+
				"says more", p.Name, problem, p.Name)
		}
		todo = append(todo, p)
	}
	for _, p := range todo {
		if err := c.Patch(ctx, p.Roll(clock.Now()), client.MergeFrom(p.NodePool)); err != nil {
			return fmt.Errorf("roll NodePool %s: %w", p.Name, err)
		}
	}
	return nil
}

// preview shows what a roll would do.
func (o *poolOptions) preview(cmd *cobra.Command, t *target.Cluster, pools []roll.Pool) error {
	rows, w := rowsOf(pools), cmd.OutOrStdout()
	plan, err := o.plan(cmd.Context(), t, pools)
	if err != nil {
		return err
	}
	if err := newTable(rows, plan).write(w, o.output); err != nil || output.IsData(o.output) {
		return err
	}
	text := "No node needs an update; --force --yes replaces them anyway."
	switch {
	case plan != nil:
		text = "Nothing was changed; --yes replaces them."
		fmt.Fprintln(w)
		err = explain.WritePlan(w, plan, o.output == "wide")
	case needUpdate(rows) > 0:
		text = "The controller replaces them by itself; --yes follows it."
	}
	_, line := fmt.Fprintln(w, "\n"+text)
	return errors.Join(err, line)
}

// plan forecasts a roll; nil if none would begin.
func (o *poolOptions) plan(ctx context.Context, t *target.Cluster, pools []roll.Pool) (*whatif.Outcome, error) {
	var changes []whatif.Change
	for i := range pools {
		if !o.force || pools[i].Rolling() {
			continue
		}
		change, err := changeOf(pools[i].Roll(t.Clock.Now()))
		if err != nil {
			return nil, err
		}
		changes = append(changes, change...)
	}
	if len(changes) == 0 {
		return nil, nil
	}
	policy, on, err := o.policy.Resolve()
	if err != nil {
		return nil, err
	}
	options := t.Options
	options.Keep = true
	c, err := capture.Read(ctx, t.REST, options)
	if err != nil {
		return nil, err
	}
	return whatif.Run(ctx, whatif.Input{Cluster: c, Changes: changes, Policy: policy, Gates: on})
}

// changeOf returns the change that applies a NodePool, without what the API server has added.
func changeOf(p *karpv1.NodePool) ([]whatif.Change, error) {
	p.ManagedFields, p.Status = nil, karpv1.NodePoolStatus{}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("NodePool %s: %w", p.Name, err)
	}
	return whatif.Manifests(bytes.NewReader(text), "NodePool "+p.Name)
}
