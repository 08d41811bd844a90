//go:build !noplane

package up

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/plane/kubectl"
)

func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--name NAME] [arguments of kubectl]",
		Short: `Run kubectl against the cluster of "nodeless up"`,
		Long: `Runs the kubectl that is built in from Kubernetes' own source. It talks to the
cluster of "nodeless up" unless --kubeconfig, --context or another connection
flag says otherwise. --name or --data-dir before kubectl's own arguments selects
the cluster, as do NODELESS_NAME and NODELESS_DATA_DIR.`,
		Example: `  nodeless kubectl get nodeclaims -o wide
  nodeless kubectl create deployment web --image=nginx --replicas=20
  nodeless kubectl --name b get nodes`,
		DisableFlagParsing: true,
		ValidArgsFunction:  completeKubectl,
		RunE: func(_ *cobra.Command, args []string) error {
			config, args, missing, err := kubectlTarget(args)
			if err != nil {
				return err
			}
			if code := kubectl.Run(args, config, missing, os.Stdin, os.Stdout, os.Stderr); code != 0 {
				return &program.ExitError{Code: code}
			}
			return nil
		},
	}
}

// kubectlTarget returns the kubeconfig of the cluster that kubectl is for, kubectl's own arguments, and the message
// for when they need a cluster and none runs.
func kubectlTarget(args []string) (config string, rest []string, missing string, err error) {
	at, rest, err := takePlace(args)
	if err != nil {
		return "", nil, "", err
	}
	dir, err := at.ResolveExisting()
	if err != nil {
		return "", nil, "", err
	}
	switch _, err := localcluster.LoadSession(dir); {
	case errors.Is(err, localcluster.ErrNotRunning):
		missing = localcluster.NothingRuns(dir)
	case err != nil:
		return "", nil, "", err
	}
	return filepath.Join(dir, "kubeconfig"), rest, missing, nil
}

// takePlace takes --name and --data-dir from the beginning of kubectl's arguments. After other arguments they are
// kubectl's own: `expose` has a --name.
func takePlace(args []string) (localcluster.Selector, []string, error) {
	var at localcluster.Selector
	for len(args) > 0 {
		flag, value, has := strings.Cut(args[0], "=")
		to := map[string]*string{"--name": &at.Name, "--data-dir": &at.DataDir}[flag]
		if to == nil {
			break
		}
		args = args[1:]
		if !has {
			if len(args) == 0 {
				return at, nil, fmt.Errorf("%s: its value is missing", flag)
			}
			value, args = args[0], args[1:]
		}
		*to = value
	}
	if at == (localcluster.Selector{}) {
		at = localcluster.FromEnvironment()
	}
	return at, args, nil
}
