// Package up implements the commands for a cluster on this machine: up, down, status, env, kubectl and image.
package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// statusReport is what `nodeless status -o json` prints.
type statusReport struct {
	Running bool                  `json:"running"`
	DataDir string                `json:"dataDir"`
	Session *localcluster.Session `json:"session,omitempty"`
	Cluster *counts               `json:"cluster,omitempty"`
	Problem string                `json:"problem,omitempty"`
}

// counts are the numbers of a cluster's objects.
type counts struct {
	PodsPending    int     `json:"podsPending"`
	PodsRunning    int     `json:"podsRunning"`
	ClaimsOpen     int     `json:"nodeClaimsNotReady"`
	ClaimsReady    int     `json:"nodeClaimsReady"`
	Nodes          int     `json:"nodes"`
	NodesReady     int     `json:"nodesReady"`
	Instances      int     `json:"instances"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

func newStatus() *cobra.Command {
	var at localcluster.Selector
	var format string
	c := &cobra.Command{
		Use:   "status",
		Short: `Say whether the cluster of "nodeless up" runs, and what is in it`,
		Example: `  nodeless status
  nodeless status --name b -o jsonpath={.session.kubeconfig}`,
		Long: `Prints where the cluster of "nodeless up" listens, and how many pods,
NodeClaims, nodes and instances it has. It exits with 2 if nothing runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(format, ""); err != nil {
				return err
			}
			dir, err := at.ResolveExisting()
			if err != nil {
				return err
			}
			r := report(cmd.Context(), dir)
			if format == "" {
				r.print(cmd)
			} else if err := output.Rows(cmd.OutOrStdout(), format, r, "", true); err != nil {
				return err
			}
			if !r.Running || r.Problem != "" {
				return &program.ExitError{Code: program.ExitFailure}
			}
			return nil
		},
	}
	at.Add(c.Flags())
	c.Flags().StringVarP(&format, "output", "o", "", "json, yaml, "+output.Forms+"; nothing for text")
	return c
}

func report(ctx context.Context, dir string) statusReport {
	r := statusReport{DataDir: dir}
	s, err := localcluster.LoadSession(dir)
	switch {
	case errors.Is(err, localcluster.ErrNotRunning):
		if pid, used := datadir.User(dir); used {
			r.Problem = fmt.Sprintf("process %d uses %s and does not say where its cluster is: it is starting, or its "+
				"session file was deleted; stop it with: %s",
				pid, dir, localcluster.CommandFor("down", dir, localcluster.NameIn(dir)))
		}
		return r
	case err != nil:
		r.Problem = err.Error()
		return r
	}
	r.Running, r.Session = true, &s
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		r.Problem = fmt.Sprintf("kubeconfig: %v", err)
		return r
	}
	cl, err := newClient(cfg)
	if err != nil {
		r.Problem = fmt.Sprintf("API server %s: %v", s.APIServer, err)
		return r
	}
	n, err := count(ctx, cl, nil)
	if err != nil {
		r.Problem = fmt.Sprintf("API server %s: %v", s.APIServer, err)
		return r
	}
	if err := n.countRegion(ctx, s.RegionURL, s.RegionToken); err != nil {
		r.Problem = fmt.Sprintf("region %s: %v", s.RegionURL, err)
	}
	r.Cluster = &n
	return r
}

func (r statusReport) print(cmd *cobra.Command) {
	w := cmd.OutOrStdout()
	if !r.Running && r.Problem == "" {
		fmt.Fprintln(w, strings.Replace(localcluster.NothingRuns(r.DataDir), "nothing", "Nothing", 1))
	}
	if s := r.Session; s != nil {
		fmt.Fprintf(w, "Cluster    %s\nRunning    process %d for %s, version %s\nData       %s\nAPI server %s\n",
			s.Name, s.PID, time.Since(s.Started).Round(time.Second), s.Version, r.DataDir, s.APIServer)
		if s.Context != "" {
			fmt.Fprintf(w, "Context    %s\n", s.Context)
		}
		fmt.Fprintf(w, "Region     %s at %s, simulated, nodes boot in about %s\n", s.Region, s.RegionURL, s.BootTime)
		if s.Page != "" {
			fmt.Fprintf(w, "Page       %s\n", s.Page)
		}
	}
	if c := r.Cluster; c != nil {
		fmt.Fprintf(w, "Pods       %d running, %d pending\nNodeClaims %d ready, %d launching\nNodes      %d, %d "+
			"ready\nInstances  %d for %s\n",
			c.PodsRunning, c.PodsPending, c.ClaimsReady, c.ClaimsOpen, c.Nodes, c.NodesReady, c.Instances,
			reason.PerHour(c.DollarsPerHour))
	}
	if r.Problem != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "nodeless: status:", r.Problem)
	}
}

// count counts pods (only those with a label, if given), NodeClaims and nodes.
func count(ctx context.Context, cl client.Client, pods client.MatchingLabels) (counts, error) {
	var n counts
	var podList corev1.PodList
	var opts []client.ListOption
	if pods != nil {
		opts = append(opts, pods)
	}
	if err := cl.List(ctx, &podList, opts...); err != nil {
		return n, fmt.Errorf("list pods: %w", err)
	}
	for i := range podList.Items {
		switch podList.Items[i].Status.Phase {
		case corev1.PodPending:
			n.PodsPending++
		case corev1.PodRunning:
			n.PodsRunning++
		}
	}
	var claims karpv1.NodeClaimList
	if err := cl.List(ctx, &claims); err != nil {
		return n, fmt.Errorf("list node claims: %w", err)
	}
	for i := range claims.Items {
		if claims.Items[i].StatusConditions().Root().IsTrue() {
			n.ClaimsReady++
		} else {
			n.ClaimsOpen++
		}
	}
	var nodes corev1.NodeList
	if err := cl.List(ctx, &nodes); err != nil {
		return n, fmt.Errorf("list nodes: %w", err)
	}
	n.Nodes = len(nodes.Items)
	for i := range nodes.Items {
		for _, c := range nodes.Items[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				n.NodesReady++
			}
		}
	}
	return n, nil
}

// Commands returns the commands for a cluster on this machine.
func Commands() []*cobra.Command {
	return []*cobra.Command{newUp(), newDown(), newStatus(), newEnv(), newKubectl(), newImage()}
}
