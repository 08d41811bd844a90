//go:build !noplane

package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/migrate/transition"
)

// steps are the flags of the commands that move pods.
type steps struct {
	cluster             target.Flags
	clusterName, region string
	keep                []string
	lease               string
	force, remove       bool
	output              string
}

const statusLong = `Shows how far the migration from node groups to NodePools has come: the groups
with their nodes and pods, the pools that take over, and what both cost. It
changes nothing. The steps are

  observed   the groups are written down
  closed     new pods go to NodePools: the groups' nodes are tainted, Cluster
             Autoscaler is scaled to 0, the groups launch nothing
  drained    once there are nodes for them, the pods on the groups' nodes are
             evicted, as fast as their PodDisruptionBudgets allow
  emptied    the groups have a size of 0
  removed    the groups are deleted

"nodeless migrate next" takes one of them, "nodeless migrate back" takes all of
them back. The state is the ConfigMap kube-system/nodeless-migration: what is
interrupted goes on where it was.`

const nextLong = `Takes the next step of the migration from node groups to NodePools, or goes on
with one that was interrupted; "nodeless migrate status" says which. A step ends
when what it says is true. NodePools must be there first, as "nodeless migrate
--from-aws --apply" makes them.

The drain stops before it begins if pods have no controller, if annotations forbid
their eviction (karpenter.sh/do-not-disrupt, safe-to-evict "false"), if they would
get no node (by a forecast, as of "nodeless plan"), or if the controller does not
run; with --force it goes on. Groups named with --keep stay as they are, but grow
no more, since Cluster Autoscaler ends; a NodeGroup would size them. One of them
must have room for the controller, unless it runs on Fargate.

The deletion of the groups must be asked for with --remove. It stops if groups have
what "nodeless migrate back" would not create again, such as scaling policies; with
--force it goes on. Their roles keep their access to the cluster, since the nodes of
NodePools may have them.`

const backLong = `Takes the migration back, from whichever step: the groups get their sizes again
(deleted ones are created again), and their nodes take pods. NodePools that had
no nodes before launch nothing any more (a limit of 0 CPUs, static ones no
replicas). Cluster Autoscaler gets its replicas, and the nodes that came since
are drained and removed, one by one. Before the step "closed" the groups have
not changed: then only the NodePools are kept from launching.

Interrupted, it goes on where it was. "nodeless migrate next" afterwards begins
anew and opens the pools.`

func statusCommand() *cobra.Command {
	var o steps
	c := &cobra.Command{
		Use: "status", Short: "Show how far the migration from node groups has come", Long: statusLong, Args: cobra.NoArgs,
		Example: "  nodeless migrate status\n  nodeless migrate status -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.status(cmd) },
	}
	o.add(c)
	c.Flags().StringVarP(&o.output, "output", "o", "", "json, yaml, "+output.Forms)
	return c
}

func nextCommand() *cobra.Command {
	var o steps
	c := &cobra.Command{
		Use: "next", Short: "Take the next step from node groups to NodePools", Long: nextLong, Args: cobra.NoArgs,
		Example: "  nodeless migrate next\n  nodeless migrate next --keep system\n  nodeless migrate next --remove",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.next(cmd) },
	}
	o.add(c)
	c.Flags().StringSliceVar(&o.keep, "keep", nil, "node groups or Auto Scaling groups that stay as they are, by name")
	c.Flags().StringVar(&o.lease, "leader-election-name", controller.DefaultLease,
		`name of the controller's lease, as for "nodeless run"`)
	c.Flags().BoolVar(&o.force, "force", false,
		"go on although pods or settings of groups would be lost, or pods must not be evicted or would get no node")
	c.Flags().BoolVar(&o.remove, "remove", false, "delete the groups, once they are empty")
	return c
}

func backCommand() *cobra.Command {
	var o steps
	c := &cobra.Command{
		Use: "back", Short: "Move the pods back to the node groups", Long: backLong, Args: cobra.NoArgs,
		Example: "  nodeless migrate back",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.back(cmd) },
	}
	o.add(c)
	return c
}

func (o *steps) add(c *cobra.Command) {
	f := c.Flags()
	o.cluster.AddCluster(f)
	f.StringVar(&o.clusterName, "cluster-name", "",
		"what AWS calls the cluster (default: as the kubeconfig says, if the AWS CLI or eksctl wrote it)")
	f.StringVar(&o.region, "region", "", "AWS region of the cluster (default: that of the AWS configuration)")
}

// open returns the transition of the cluster that the flags name, and the address of its API server.
func (o *steps) open(cmd *cobra.Command) (*transition.Transition, string, error) {
	t, err := o.cluster.Find()
	if err != nil {
		return nil, "", err
	}
	name, cfg, err := t.AtAWS(cmd.Context(), o.clusterName, o.region)
	if err != nil {
		return nil, "", err
	}
	var mu sync.Mutex
	out, err := transition.New(transition.Config{
		REST: t.REST, AWS: cfg, Cluster: name, Clock: t.Clock, Keep: o.keep, Force: o.force,
		Forecast: forecaster(t, cfg.Region), Lease: o.lease,
		Say: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
		},
	})
	return out, t.REST.Host, err
}

// Rights that the commands need: what they do, and with which objects.
const (
	allowStatus = "get,list"
	allowSteps  = allowStatus + ",create,update,patch,delete"

	stepResources = "configmaps,nodes,pods,pods/eviction,deployments.apps,daemonsets.apps,nodepools.karpenter.sh," +
		"nodeclaims.karpenter.sh,ec2nodeclasses.karpenter.k8s.aws,leases.coordination.k8s.io,nodegroups.nodeless.sh"
)

// explained adds a remedy if the cluster does not answer or refuses. Errors of AWS have one already.
func explained(host, verbs string, err error) error {
	if _, fromAWS := errors.AsType[*smithy.OperationError](err); fromAWS {
		return err
	}
	return target.ExplainRefused(host, target.Allow("nodeless-migrate-steps", verbs, stepResources), err)
}

func (o *steps) next(cmd *cobra.Command) error {
	t, host, err := o.open(cmd)
	if err != nil {
		return err
	}
	s, err := t.Next(cmd.Context(), o.remove)
	if err != nil {
		return interrupted(cmd.Context(), explained(host, allowSteps, err))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Step %q is done: %s.\n%s\n", s.Step, s.Step.Explain(), hint(s))
	return err
}

func (o *steps) back(cmd *cobra.Command) error {
	t, host, err := o.open(cmd)
	if err != nil {
		return err
	}
	s, err := t.Back(cmd.Context())
	if err != nil {
		return interrupted(cmd.Context(), explained(host, allowSteps, err))
	}
	var names []string
	for _, p := range s.Pools {
		if p.Closed != nil {
			names = append(names, p.Name)
		}
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "The migration is undone.")
	if err == nil && len(names) > 0 {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "NodePools that launch nothing now: %s\n", strings.Join(names, ", "))
	}
	return err
}

// interrupted turns an error caused by Ctrl-C into one that says how to go on.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &program.ExitError{Code: program.ExitInterrupted, Err: errors.New(
		"interrupted; nothing is lost: the same command goes on, nodeless migrate status shows where it stands")}
}

// hint returns what can be done next.
func hint(s *transition.State) string {
	switch {
	case s.Back:
		return "The migration is being undone: nodeless migrate back continues, nodeless migrate next goes forward again."
	case s.Step == transition.Removed:
		return "Nothing is left to do; nodeless migrate back creates the groups again."
	case s.Step == transition.Emptied:
		return "Left: nodeless migrate next --remove deletes the groups. Back: nodeless migrate back."
	case s.Step == transition.NotBegun:
		return "Next: nodeless migrate next, which changes nothing yet."
	}
	return fmt.Sprintf("Next: nodeless migrate next (%s). Back: nodeless migrate back.", (s.Step + 1).Explain())
}

// standing is what status prints as data.
type standing struct {
	Step      transition.Step `json:"step"`
	Back      bool            `json:"back,omitempty"`
	Groups    []placed        `json:"groups"`
	Pools     []placed        `json:"pools"`
	OnGroups  float64         `json:"groupsDollarsPerMonth"`
	OnPools   float64         `json:"poolsDollarsPerMonth"`
	PriceNote string          `json:"priceNote,omitempty"`
}

// placed is a group or a pool with what runs there.
type placed struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	Pods  int    `json:"pods"`
	Size  string `json:"size,omitempty"` // of a group before the migration
}

func standingOf(r *transition.Report) standing {
	out := standing{Step: r.State.Step, Back: r.State.Back, Groups: []placed{}, Pools: []placed{}}
	var note string
	out.OnGroups, note = dollars(r.Groups)
	out.OnPools, out.PriceNote = dollars(r.Pools)
	out.PriceNote = cmp.Or(note, out.PriceNote)
	for i, p := range r.Groups {
		g := r.State.Groups[i]
		size := fmt.Sprintf("%d (%d to %d)", g.Desired, g.Min, g.Max)
		out.Groups = append(out.Groups, placed{p.Name, len(p.Nodes), p.Pods, size})
	}
	for _, p := range r.Pools {
		out.Pools = append(out.Pools, placed{Name: p.Name, Nodes: len(p.Nodes), Pods: p.Pods})
	}
	return out
}

// dollars returns what nodes cost a month, or why that is unknown.
func dollars(places []transition.Place) (float64, string) {
	var all []*corev1.Node
	for _, p := range places {
		all = append(all, p.Nodes...)
	}
	price, err := today(all)
	if err != nil {
		return 0, err.Error()
	}
	return price.DollarsPerMonth, ""
}

func (o *steps) status(cmd *cobra.Command) error {
	if err := output.Check(o.output, ""); err != nil {
		return err
	}
	t, host, err := o.open(cmd)
	if err != nil {
		return err
	}
	r, err := t.Report(cmd.Context())
	if err != nil {
		return explained(host, allowStatus, err)
	}
	s, w := standingOf(r), cmd.OutOrStdout()
	if o.output != "" {
		return output.Rows(w, o.output, s, "groups", true)
	}
	rows := [][]string{{"", "NODES", "PODS", "SIZE BEFORE"}}
	for _, p := range s.Groups {
		rows = append(rows, []string{p.Name, fmt.Sprint(p.Nodes), fmt.Sprint(p.Pods), p.Size})
	}
	for _, p := range s.Pools {
		rows = append(rows, []string{"NodePool " + p.Name, fmt.Sprint(p.Nodes), fmt.Sprint(p.Pods), ""})
	}
	if _, err := fmt.Fprintf(w, "Step: %s (%s)\n", s.Step, s.Step.Explain()); err != nil {
		return err
	}
	if err := output.Table(w, rows...); err != nil {
		return err
	}
	price := fmt.Sprintf("Price: %s a month for the groups' nodes, %s for the pools'", reason.Money(s.OnGroups, 2),
		reason.Money(s.OnPools, 2))
	if s.PriceNote != "" {
		price = "Price: unknown: " + s.PriceNote
	}
	_, err = fmt.Fprintf(w, "%s\n%s\n", price, hint(r.State))
	return err
}
