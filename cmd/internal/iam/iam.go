// Package iam implements the command that prints what the controller needs in an AWS account.
package iam

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cloud/aws/iampolicy"
)

// parts are the documents that can be printed separately, for `aws iam put-role-policy` and similar commands.
var parts = map[string]func(iampolicy.Scope) any{
	"controller-policy": func(s iampolicy.Scope) any { return s.Controller() },
	"controller-trust":  func(s iampolicy.Scope) any { return s.ControllerTrust() },
	"node-trust":        func(s iampolicy.Scope) any { return s.NodeTrust() },
	"queue-policy":      func(s iampolicy.Scope) any { return s.QueuePolicy() },
	"rules":             func(s iampolicy.Scope) any { return s.Rules() },
}

func partNames() []string { return slices.Sorted(maps.Keys(parts)) }

const long = `Prints the role of the controller with its policy, the role of nodes, and the
interruption queue with the EventBridge rules that feed it. The policy is tied
to the region and the account, and to what is tagged as the cluster's; it has
what the controller calls and nothing more.

With -o cloudformation and -o terraform nodes also get the access entry with
which they join the cluster. A cluster with the authentication mode CONFIG_MAP
refuses it: set the parameter CreateNodeAccessEntry or the variable
node_access_entry to false, and map the role of nodes in aws-auth. Set it to
false, too, if you have made the entry yourself: EKS refuses a second one.

With the name of a part it prints that document alone, as JSON.`

// New returns the command iam.
func New() *cobra.Command {
	var s iampolicy.Scope
	var account, format string
	c := &cobra.Command{
		Use:   "iam [" + strings.Join(partNames(), "|") + "]",
		Short: "Print the IAM policy and roles that the controller needs in AWS",
		Long:  long,
		Example: `  nodeless iam --cluster-name prod --region us-west-2 --account 123456789012 \
    -o cloudformation > nodeless.json
  aws cloudformation deploy --stack-name nodeless --template-file nodeless.json \
    --capabilities CAPABILITY_NAMED_IAM

  nodeless iam --cluster-name prod --region us-west-2 --account 123456789012 \
    -o terraform > nodeless.tf`,
		Args: cobra.MaximumNArgs(1), ValidArgs: partNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Region == "" {
				s.Region = os.Getenv("AWS_REGION")
			}
			var named bool
			if s.Namespace, s.ServiceAccount, named = strings.Cut(account, "/"); !named {
				return fmt.Errorf("--service-account %q: give namespace/name", account)
			}
			complete, err := s.Complete()
			if err != nil {
				return err
			}
			out, err := text(complete, format, args)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&s.Cluster, "cluster-name", "", "name of the EKS cluster (required)")
	f.StringVar(&s.Account, "account", "", "ID of the AWS account (required)")
	f.StringVar(&s.Region, "region", "", "AWS region (default: $AWS_REGION)")
	f.StringVar(&s.Partition, "partition", "", "AWS partition (default: that of the region)")
	f.StringVar(&s.Queue, "interruption-queue", "",
		"name of the SQS queue with EC2's notices (default: the cluster's name)")
	f.StringVar(&s.NodeRole, "node-role", "",
		"name of the role in spec.role of EC2NodeClasses (default: NodelessNodeRole-CLUSTER)")
	f.StringVar(&s.ControllerRole, "controller-role", "",
		"name of the controller's role (default: NodelessController-CLUSTER)")
	f.StringVar(&account, "service-account", "kube-system/nodeless", "the controller's service account, as namespace/name")
	f.StringVar(&s.OIDCIssuer, "oidc-issuer", "",
		"URL of the cluster's OIDC issuer, to trust the service account by IRSA too (default: EKS Pod Identity alone)")
	f.BoolVar(&s.NodeGroups, "node-groups", false, "also allow what NodeGroups (Auto Scaling groups) need")
	f.StringVarP(&format, "output", "o", "json", "json, cloudformation or terraform")
	return c
}

func text(s iampolicy.Scope, format string, args []string) ([]byte, error) {
	switch {
	case len(args) > 0 && parts[args[0]] == nil:
		return nil, fmt.Errorf("there is no part %q: say one of %s", args[0], strings.Join(partNames(), ", "))
	case len(args) > 0 && format != "json":
		return nil, fmt.Errorf("-o %s has all parts; print %s alone with -o json", format, args[0])
	case len(args) > 0:
		return iampolicy.JSON(parts[args[0]](s))
	case format == "json":
		return iampolicy.JSON(s.Bundle())
	case format == "cloudformation":
		return s.CloudFormation()
	case format == "terraform":
		return s.Terraform()
	}
	return nil, fmt.Errorf("unknown output %q: use -o json, cloudformation or terraform", format)
}
