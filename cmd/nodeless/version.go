package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/program"
)

// versionInfo is what `nodeless version -o json` prints.
type versionInfo struct {
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	Karpenter  string `json:"karpenterAPI"`
	Catalog    string `json:"catalog"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

func currentVersion() versionInfo {
	v := versionInfo{
		Version: program.Version, Catalog: catalog.Origin(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "k8s.io/kubernetes":
				v.Kubernetes = m.Version
			case "sigs.k8s.io/karpenter":
				v.Karpenter = m.Version
			}
		}
	}
	return v
}

func newVersion() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Nodeless and of what is built into it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(format, ""); err != nil {
				return err
			}
			v := currentVersion()
			if format != "" {
				return output.Rows(cmd.OutOrStdout(), format, v, "", true)
			}
			fmt.Fprintf(cmd.OutOrStdout(),
				"nodeless %s\nkubernetes %s (embedded control plane)\nkarpenter.sh/v1 as of %s\ncatalogue %s\n%s %s\n",
				v.Version, v.Kubernetes, v.Karpenter, v.Catalog, v.Go, v.Platform)
			return nil
		},
	}
	c.Flags().StringVarP(&format, "output", "o", "", "json, yaml, "+output.Forms+"; nothing for text")
	return c
}
