package up

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/output"
)

func newEnv() *cobra.Command {
	var at localcluster.Selector
	var format string
	c := &cobra.Command{
		Use:   "env",
		Short: `Print variables for kubectl, aws and terraform`,
		Long: `Prints shell commands that export KUBECONFIG, AWS_ENDPOINT_URL, AWS_REGION and
AWS credentials for the cluster of "nodeless up", and NODELESS_REGION_TOKEN for
calls to its simulated region that AWS does not have.

The kubeconfig is yours to change: "aws eks update-kubeconfig" writes to it. The
credentials are valid for this cluster alone; whoever has them is its
administrator.`,
		Example: `  eval $(nodeless env)
  aws eks update-kubeconfig --name nodeless
  kubectl get nodes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(format, ""); err != nil {
				return err
			}
			dir, err := at.ResolveExisting()
			if err != nil {
				return err
			}
			s, err := localcluster.LoadSession(dir)
			if errors.Is(err, localcluster.ErrNotRunning) {
				err = errors.New(localcluster.NothingRuns(dir))
			}
			if err != nil {
				return err
			}
			keys, err := localcluster.LoadAWSKeys(dir)
			if err != nil {
				return err
			}
			values := map[string]string{
				"KUBECONFIG": localcluster.ToolsKubeconfig(dir), "AWS_ENDPOINT_URL": s.RegionURL,
				"AWS_REGION": s.Region, "AWS_DEFAULT_REGION": s.Region, // the SDK for Python heeds only the second
				"AWS_ACCESS_KEY_ID": keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY": keys.SecretAccessKey,
				"NODELESS_REGION_TOKEN": s.RegionToken, // for curl: docs/how-do-i-use-the-region.md
			}
			if format != "" {
				return output.Rows(cmd.OutOrStdout(), format, values, "", true)
			}
			fmt.Fprint(cmd.OutOrStdout(), shellExports(values))
			return nil
		},
	}
	at.Add(c.Flags())
	c.Flags().StringVarP(&format, "output", "o", "", "json, yaml, "+output.Forms+"; nothing for shell commands")
	return c
}

// shellExports formats commands for a POSIX shell. Each ends with a semicolon, because eval $(…) joins lines with
// spaces. The user's own session token or profile would override the credentials, so both are unset.
func shellExports(values map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&out, "export %s='%s';\n", name, strings.ReplaceAll(values[name], "'", `'\''`))
	}
	out.WriteString("unset AWS_SESSION_TOKEN AWS_PROFILE;\n")
	return out.String()
}
