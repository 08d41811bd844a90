package explain

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/explain/capture"
)

func newCapture() *cobra.Command {
	var flags target.Flags
	var partial bool
	c := &cobra.Command{
		Use:   "capture",
		Short: "Write a cluster to a file for why, plan and simulate",
		Long: `Reads a cluster and writes to stdout, as YAML, everything that decisions depend
on: Nodes, NodeClaims, NodePools, node classes, Pods, DaemonSets, Deployments,
PodDisruptionBudgets, volumes with their claims and classes, namespaces, limits,
and prices where they differ from the built-in ones. It changes nothing and
needs only the right to read ("nodeless rbac --view").

What may be secret and decides nothing is left out: images, commands,
environment, other annotations, names of secrets and configurations, user data,
addresses, messages. Names and labels of objects are kept, since rules refer to
them: read the file before you share it.`,
		Example: `  # Capture the current cluster, or another one
  nodeless capture > cluster.yaml
  nodeless capture --context prod | gzip > prod.yaml.gz

  # Ask about it later, without the cluster
  nodeless why pod/web-0 -n shop --from cluster.yaml
  nodeless simulate cluster.yaml --compare`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := flags.Find()
			if err != nil {
				return err
			}
			t.Options.Partial = partial
			n, err := capture.Capture(cmd.Context(), t.REST, t.Options, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d objects of %s\n", n, t.Of)
			return nil
		},
	}
	flags.Add(c.Flags())
	c.Flags().BoolVar(&partial, "partial", false, "continue without what you may not read, and say so in the file")
	return c
}
