package run

import (
	"errors"
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

// newCRDs returns the command that prints the custom resource definitions that `nodeless run` needs.
func newCRDs() *cobra.Command {
	var auto bool
	c := &cobra.Command{
		Use:     "crds",
		Short:   "Print the custom resource definitions, for kubectl apply",
		Example: "  nodeless crds | kubectl apply --server-side -f -",
		Long: `Prints the definitions of NodePool, NodeClaim, NodeOverlay and CapacityBuffer of
Karpenter and EC2NodeClass of its AWS provider, unchanged, and FargateProfile,
MicroVMHost, MicroVM, NodeGroup and DecisionLog of Nodeless.

A cluster with Karpenter's definitions of the same version needs only those of
Nodeless. "nodeless up" installs all of them. Where something else installed
them, such as Helm, kubectl apply also needs --force-conflicts.

With --auto-mode it adds NodeClass and CNINode of EKS Auto Mode, and prints a
NodePool that keeps Auto Mode's rules. EKS clusters with Auto Mode have AWS's
own definitions: do not replace them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			definitions := crds.All()
			if auto {
				definitions = crds.AutoMode()
			}
			var objects []client.Object
			for _, d := range definitions {
				objects = append(objects, d)
			}
			return printManifest(cmd.OutOrStdout(), objects)
		},
	}
	c.Flags().BoolVar(&auto, "auto-mode", false, `print the definitions of a cluster for "nodeless run --auto-mode"`)
	return c
}

// newRBAC returns the command that prints the controller's permissions.
func newRBAC() *cobra.Command {
	var namespace, lease string
	var surge, view, hosts, page, auto, groups bool
	var user, account string
	c := &cobra.Command{
		Use:   "rbac",
		Short: "Print the controller's service account and roles",
		Example: `  # For the controller
  nodeless rbac --namespace kube-system | kubectl apply -f -

  # For people and programs that only read
  nodeless rbac --view --user jane@example.com | kubectl apply -f -
  nodeless rbac --view --service-account monitoring/viewer | kubectl apply -f -`,
		Long: `Prints a ServiceAccount "nodeless" with the permissions that the controller
needs in a cluster, and no more.

With --view it prints instead the role nodeless-view, which allows
"nodeless why" and the other read-only commands, and binds it to a user or a
service account if one is named.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			subjects, err := viewers(view, user, account)
			if err != nil {
				return err
			}
			if view {
				return printManifest(cmd.OutOrStdout(), rbac.ViewObjects(subjects...))
			}
			more := wantedRules([]optionalRules{
				{surge, rbac.SurgeRules},
				{hosts, rbac.HostRules},
				{page, rbac.PageRules},
				{auto, rbac.AutoModeRules},
				{groups, rbac.NodeGroupRules},
			})
			return printManifest(cmd.OutOrStdout(), rbac.Objects(namespace, lease, more...))
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "kube-system", "namespace of the controller and of its lease")
	c.Flags().BoolVar(&surge, "surge", false,
		"also allow changing Deployments, for annotation nodeless.sh/surge-before-eviction")
	c.Flags().BoolVar(&hosts, "hosts", false,
		"also allow approving the serving certificates of microVM hosts (nodeless host)")
	c.Flags().BoolVar(&page, "page", false,
		"also allow checking who logs in to the page (nodeless run --page) and what they may list, and "+
			"reading what the page shows")
	c.Flags().BoolVar(&auto, "auto-mode", false,
		"also allow keeping the objects of EKS Auto Mode (nodeless run --auto-mode)")
	c.Flags().BoolVar(&groups, "node-groups", false,
		"also allow creating a NodePool for each NodeGroup without one, and NodeGroups "+
			"(nodeless run --node-group-auto-discovery)")
	c.Flags().BoolVar(&view, "view", false, "print the role for read-only commands instead")
	c.Flags().StringVar(&user, "user", "", "with --view: the user to bind the role to")
	c.Flags().StringVar(&account, "service-account", "",
		"with --view: the service account to bind the role to, as namespace/name")
	c.Flags().StringVar(&lease, "leader-election-name", controller.DefaultLease,
		`name of the lease, as for "nodeless run"`)
	return c
}

// optionalRules are the permissions of an optional part of the controller.
type optionalRules struct {
	wanted bool
	rules  func() []rbacv1.PolicyRule
}

func wantedRules(parts []optionalRules) (out []rbacv1.PolicyRule) {
	for _, part := range parts {
		if part.wanted {
			out = append(out, part.rules()...)
		}
	}
	return out
}

// viewers returns the subjects that get the read-only role, which is printed with --view alone.
func viewers(view bool, user, account string) ([]rbacv1.Subject, error) {
	if !view && (user != "" || account != "") {
		return nil, errors.New("--user and --service-account name who gets the role for reading: add --view")
	}
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
