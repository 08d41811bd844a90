//go:build !noplane

package roll

import (
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/roll"
)

type groupOptions struct {
	cluster                         target.Flags
	clusterName, region             string
	yes, force, failOnDrainError    bool
	maxSurge                        int
	drainTimeout, validationTimeout time.Duration
	output                          string
}

const groupLong = `Replaces the nodes of Auto Scaling groups by new ones: of those that are named,
by their own name or that of EKS's node group or kops' InstanceGroup, else of
all groups of the cluster. A node needs an update if its instance was launched from
another launch template, version of it, or launch configuration than the group
has now; with --force every node does. Without --yes only the table is shown.

Groups are rolled in kops' order, by their tags k8s.io/role/…: bastions, control
plane, API servers, nodes. For each group

  1. the cluster must be valid: the group has its target, its new nodes are
     Ready, and so are pods of the classes system-cluster-critical and
     system-node-critical. Pods that must not be evicted, or whose
     PodDisruptionBudget never allows it, stop it here
  2. nodes to be replaced are tainted (nodeless.sh/roll:PreferNoSchedule)
  3. up to --max-surge instances, the first one alone, are detached, and the
     group launches others
  4. once the cluster is valid again, the detached nodes are cordoned, drained
     within their PodDisruptionBudgets, and terminated

until no node needs an update. Nodes of the control plane, and those of all
groups with --max-surge=0, are drained and terminated first instead.

Detached instances have the tag nodeless.sh/detached-from, and groups that are
rolled with --force nodeless.sh/rolled-at: the same command goes on where an
interrupted one was.`

const groupExamples = `  # Which nodes need an update, and why?
  nodeless roll group -o wide

  # Roll the group that has a new version of its launch template
  nodeless roll group web --yes

  # Replace every node, two at a time
  nodeless roll group web --force --max-surge 2 --yes`

func newGroup() *cobra.Command {
	var o groupOptions
	c := &cobra.Command{
		Use: "group [NAME...]", Aliases: []string{"groups"}, Short: "Replace the nodes of Auto Scaling groups by new ones",
		Long: groupLong, Example: groupExamples, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := c.Flags()
	o.cluster.AddCluster(f)
	f.StringVar(&o.clusterName, "cluster-name", "",
		"what AWS calls the cluster (default: as the kubeconfig says, if the AWS CLI or eksctl wrote it)")
	f.StringVar(&o.region, "region", "", "AWS region of the cluster (default: that of the AWS configuration)")
	f.BoolVarP(&o.yes, "yes", "y", false, "roll the groups; else only the table is shown")
	f.BoolVar(&o.force, "force", false, "replace nodes that need no update, too")
	f.IntVar(&o.maxSurge, "max-surge", 1, "instances that a group may have beside its target")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 15*time.Minute, "how long the pods of a node may take to leave it")
	f.BoolVar(&o.failOnDrainError, "fail-on-drain-error", true,
		"stop if a node cannot be drained; false terminates it with the pods that are left, whatever their budgets say")
	f.DurationVar(&o.validationTimeout, "validation-timeout", 15*time.Minute,
		"how long the cluster may take to become valid")
	f.StringVarP(&o.output, "output", "o", "", "wide, json, yaml, "+output.Forms)
	return c
}

func (o *groupOptions) run(cmd *cobra.Command, names []string) error {
	if err := output.Check(o.output, "", "wide"); err != nil {
		return err
	}
	switch {
	case o.maxSurge < 0:
		return fmt.Errorf("--max-surge %d: use 0 or more", o.maxSurge)
	case o.drainTimeout <= 0 || o.validationTimeout <= 0:
		return fmt.Errorf("--drain-timeout and --validation-timeout are above 0, such as 15m")
	}
	r, host, err := o.roller(cmd)
	if err != nil {
		return err
	}
	groups, err := r.Groups(cmd.Context(), names)
	if err != nil {
		return explained(host, err)
	}
	if !o.yes {
		return o.preview(cmd, r, groups)
	}
	if !output.IsData(o.output) {
		if err := rowsOfGroups(groups).write(cmd.OutOrStdout(), o.output); err != nil {
			return err
		}
	}
	if err := r.Roll(cmd.Context(), names); err != nil {
		return interrupted(cmd.Context(), err, "the same command goes on")
	}
	if !output.IsData(o.output) {
		return nil
	}
	if groups, err = r.Groups(cmd.Context(), names); err != nil {
		return err
	}
	return rowsOfGroups(groups).write(cmd.OutOrStdout(), o.output)
}

func rowsOfGroups(groups []roll.Group) table {
	var rows []roll.Row
	for i := range groups {
		rows = append(rows, groups[i].Row())
	}
	return newTable(rows, nil)
}

// preview shows which nodes need an update, and what would prevent their replacement.
func (o *groupOptions) preview(cmd *cobra.Command, r *roll.Roller, groups []roll.Group) error {
	t, w := rowsOfGroups(groups), cmd.OutOrStdout()
	for i := range groups {
		var err error
		if t.Rows[i].InTheWay, err = r.Objections(cmd.Context(), &groups[i]); err != nil {
			return err
		}
	}
	if err := t.write(w, o.output); err != nil || output.IsData(o.output) {
		return err
	}
	text := "Nothing was changed; --yes replaces them."
	if needUpdate(t.Rows) == 0 && !o.force {
		text = "No node needs an update; --force --yes replaces them anyway."
	}
	_, err := fmt.Fprintln(w, "\n"+text)
	return err
}

// roller returns the Roller of the cluster that the flags name, and the address of its API server.
func (o *groupOptions) roller(cmd *cobra.Command) (*roll.Roller, string, error) {
	t, err := o.cluster.Find()
	if err != nil {
		return nil, "", err
	}
	name, cfg, err := t.AtAWS(cmd.Context(), o.clusterName, o.region)
	if err != nil {
		return nil, "", err
	}
	var mu sync.Mutex
	r, err := roll.NewRoller(roll.Config{
		REST: t.REST, AWS: cfg, Cluster: name, Clock: t.Clock, MaxSurge: o.maxSurge, DrainTimeout: o.drainTimeout,
		ValidationTimeout: o.validationTimeout, FailOnDrainError: o.failOnDrainError, Force: o.force,
		Say: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
		},
	})
	return r, t.REST.Host, err
}
