package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/internal/controller"
	"github.com/nodeless/nodeless/internal/crds"
	"github.com/nodeless/nodeless/internal/rbac"
)

// newCRDs prints what `nodeless run` needs a cluster to have.
func newCRDs() *cobra.Command {
	return &cobra.Command{
		Use:   "crds",
		Short: "Print the custom resource definitions, for kubectl apply",
		Long: `Prints NodePool, NodeClaim, NodeOverlay and CapacityBuffer of Karpenter and EC2NodeClass of its AWS provider, unchanged, and
FargateProfile of Nodeless:

  nodeless crds | kubectl apply --server-side -f -

A cluster that has Karpenter's definitions of the same version needs only FargateProfile, and that only for pods in microVMs.
"nodeless up" installs them by itself.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var objects []client.Object
			for _, d := range crds.All() {
				objects = append(objects, d)
			}
			return printManifest(cmd.OutOrStdout(), objects)
		},
	}
}

// newRBAC prints what the controller may do.
func newRBAC() *cobra.Command {
	var namespace, lease string
	var surge bool
	c := &cobra.Command{
		Use:   "rbac",
		Short: "Print the service account and roles the controller needs, for kubectl apply",
		Long: `Prints a ServiceAccount "nodeless" with what the controller needs in a cluster and no more:

  nodeless rbac --namespace kube-system | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if surge {
				return printManifest(cmd.OutOrStdout(), rbac.Objects(namespace, lease, rbac.SurgeRules()...))
			}
			return printManifest(cmd.OutOrStdout(), rbac.Objects(namespace, lease))
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "kube-system", "namespace of the controller and of its lease")
	c.Flags().BoolVar(&surge, "surge", false, "also let it change Deployments, for annotation nodeless.sh/surge-before-eviction")
	c.Flags().StringVar(&lease, "leader-election-name", controller.DefaultLease, "name of the lease, as for \"nodeless run\"")
	return c
}

// printManifest writes objects as one YAML stream.
func printManifest(w io.Writer, objects []client.Object) error {
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("print %s: %w", o.GetName(), err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
