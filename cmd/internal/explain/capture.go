package explain

import (
	"fmt"

	"github.com/nodeless/nodeless/cmd/internal/target"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/explain/capture"
)

func newCapture() *cobra.Command {
	var flags target.Flags
	var partial bool
	c := &cobra.Command{
		Use:   "capture",
		Short: "Write the cluster as a file from which why, plan and simulate answer without it",
		Long: `Reads a cluster and writes to stdout, as YAML, all that decisions depend on: Nodes, NodeClaims, NodePools, node classes, Pods,
DaemonSets, Deployments, PodDisruptionBudgets, volumes and their claims and classes, namespaces, limits, and prices where they are
others than those in this program. It changes nothing and needs no more than the right to read ("nodeless rbac --view").

Left out is what may be secret and decides nothing: images, commands, environment, annotations of others, the names of secrets and
configurations, user data, addresses, messages. Names and labels of objects are kept, since rules are about them: read the file before
you give it away.`,
		Example: `  nodeless capture > cluster.yaml
  nodeless capture --context prod | gzip > prod.yaml.gz
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
	c.Flags().BoolVar(&partial, "partial", false, "go on without what you may not read, and say in the file what that is")
	return c
}
