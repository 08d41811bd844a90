package run

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/rbac"
)

// newCRDs prints what `nodeless run` needs a cluster to have.
func newCRDs() *cobra.Command {
	return &cobra.Command{
		Use:   "crds",
		Short: "Print the custom resource definitions, for kubectl apply",
		Long: `Prints NodePool, NodeClaim, NodeOverlay and CapacityBuffer of Karpenter and EC2NodeClass of its AWS provider, unchanged, and
FargateProfile, MicroVMHost and MicroVM of Nodeless:

  nodeless crds | kubectl apply --server-side -f -

A cluster that has Karpenter's definitions of the same version needs only Nodeless's, and those only for pods in microVMs.
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
	var surge, view, hosts, page bool
	var user, account string
	c := &cobra.Command{
		Use:   "rbac",
		Short: "Print the service account and roles the controller needs, for kubectl apply",
		Long: `Prints a ServiceAccount "nodeless" with what the controller needs in a cluster and no more:

  nodeless rbac --namespace kube-system | kubectl apply -f -

With --view it prints instead the role nodeless-view of those who only look, with "nodeless why" and the like, and gives it to a
user or a service account if one is named:

  nodeless rbac --view --user jane@example.com | kubectl apply -f -
  nodeless rbac --view --service-account monitoring/viewer | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if view {
				subjects, err := viewers(user, account)
				if err != nil {
					return err
				}
				return printManifest(cmd.OutOrStdout(), rbac.ViewObjects(subjects...))
			}
			var more []rbacv1.PolicyRule
			if surge {
				more = append(more, rbac.SurgeRules()...)
			}
			if hosts {
				more = append(more, rbac.HostRules()...)
			}
			if page {
				more = append(more, rbac.PageRules()...)
			}
			return printManifest(cmd.OutOrStdout(), rbac.Objects(namespace, lease, more...))
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "kube-system", "namespace of the controller and of its lease")
	c.Flags().BoolVar(&surge, "surge", false,
		"also let it change Deployments, for annotation nodeless.sh/surge-before-eviction")
	c.Flags().BoolVar(&hosts, "hosts", false,
		"also let it approve the serving certificates of microVM hosts (nodeless host)")
	c.Flags().BoolVar(&page, "page", false,
		"also let it ask who those are that log in to its page (nodeless run --page) and what they may list, and read what the page shows")
	c.Flags().BoolVar(&view, "view", false, "print the role of those who only look, instead")
	c.Flags().StringVar(&user, "user", "", "with --view: a user who gets the role")
	c.Flags().StringVar(&account, "service-account", "",
		"with --view: a service account that gets the role, as namespace/name")
	c.Flags().StringVar(&lease, "leader-election-name", controller.DefaultLease,
		"name of the lease, as for \"nodeless run\"")
	return c
}

// viewers are who is to get the role of those who only look.
func viewers(user, account string) ([]rbacv1.Subject, error) {
	var out []rbacv1.Subject
	if user != "" {
		out = append(out, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user})
	}
	if account != "" {
		namespace, name, ok := strings.Cut(account, "/")
		if !ok || namespace == "" || name == "" {
			return nil, fmt.Errorf("--service-account %q: give namespace/name", account)
		}
		out = append(out, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
	}
	return out, nil
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
