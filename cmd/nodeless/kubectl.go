//go:build !noplane

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/internal/kubectl"
)

func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [arguments of kubectl]",
		Short: `kubectl, pointed at the cluster of "nodeless up"`,
		Long: `The kubectl of Kubernetes' own source, built in. It talks to the cluster of "nodeless up" (whose data directory
$NODELESS_DATA_DIR may name) unless --kubeconfig, --context or another connection flag says otherwise.`,
		Example:            "  nodeless kubectl get nodeclaims -o wide\n  nodeless kubectl create deployment web --image=nginx --replicas=20",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := resolveDataDir("")
			if err != nil {
				return err
			}
			if code := kubectl.Run(args, filepath.Join(dir, "kubeconfig"), os.Stdin, os.Stdout, os.Stderr); code != 0 {
				return exitError(code)
			}
			return nil
		},
	}
}
