package views

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
)

// viewersFlags are the flags of eks-node-viewer that its file may set.
var viewersFlags = []string{
	"context", "node-selector", "extra-labels", "node-sort", "style", "kubeconfig",
	"resources", "disable-pricing",
}

// fromViewersFile sets flags that were given neither on the command line nor in the environment from
// ~/.eks-node-viewer: lines flag=value; lines that begin with # are comments. As in eks-node-viewer, KUBECONFIG
// overrides the file, as does a cluster of "nodeless up" that the command line names.
func fromViewersFile(cmd *cobra.Command) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil // without a home there is no such file
	}
	path := filepath.Join(home, ".eks-node-viewer")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("configuration of eks-node-viewer: %w", err)
	}
	defer file.Close()
	placed := program.Placed(cmd.Flags())
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		key, value, ok := strings.Cut(lines.Text(), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || strings.HasPrefix(key, "#") || !slices.Contains(viewersFlags, key) || cmd.Flags().Changed(key) ||
			placed && slices.Contains(program.ClusterFlags, key) {
			continue
		}
		if key == "kubeconfig" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
			continue
		}
		if err := cmd.Flags().Set(key, value); err != nil {
			return fmt.Errorf("%s, line %d: %s=%s: %w", path, n, key, value, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// TwoDashes lets "top" be called like eks-node-viewer, whose long flags have one dash.
func TwoDashes(args []string) []string {
	if len(args) == 0 || args[0] != "top" {
		return args
	}
	out := slices.Clone(args)
	for i, a := range out {
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		if a == "--" {
			break
		}
		if strings.HasPrefix(a, "-") && slices.Contains(append([]string{"attribution", "version"}, viewersFlags...), name) {
			out[i] = "-" + a
		}
	}
	return out
}

// find returns the client configuration of the cluster to view, and the name of its context.
func (f *topFlags) find() (*rest.Config, string, error) {
	loader, running, _, err := target.Choose(f.kubeconfig, &f.Selector,
		&clientcmd.ConfigOverrides{CurrentContext: f.context})
	if err != nil {
		return nil, "", err
	}
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, "", target.NoCluster(err)
	}
	if running != nil {
		return cfg, localcluster.ContextName(running.Name), nil
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %w", err)
	}
	return cfg, cmp.Or(f.context, raw.CurrentContext, cfg.Host), nil
}
