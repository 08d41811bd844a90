//go:build !noplane

// Package migrate implements the command that turns manifests of what launched nodes before into NodePools.
package migrate

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/migrate"
)

type options struct {
	files                       []string
	fromCluster, fromAWS, apply bool
	cluster                     target.Flags
	clusterName, region         string
	o                           migrate.Options
	output                      string
	strict                      bool
}

const long = `Reads what launched nodes before and writes NodePools and EC2NodeClasses (v1)
to stdout, and a report to stderr: what became of each field, which defaults are
written out because they have changed, and what the nodes cost. It changes
nothing unless told to --apply, and files need no cluster.

With -f it reads
- Karpenter: Provisioner, AWSNodeTemplate and the ConfigMap
  karpenter-global-settings (v1alpha5), NodePool and EC2NodeClass (v1beta1)
- kops: Cluster and InstanceGroup
- eksctl: ClusterConfig, with its node groups and Fargate profiles
- the AWS CLI's output: aws eks describe-nodegroup and describe-fargate-profile,
  aws autoscaling describe-auto-scaling-groups together with aws ec2
  describe-launch-template-versions or describe-launch-configurations
- Cluster Autoscaler's Deployment, whose flags say when idle nodes are removed
- workloads, whose outdated labels, selectors and annotations are renamed

Objects of v1 stay as they are. Other kinds are named and left out.

With --from-cluster it lists what the cluster has of Karpenter's old APIs, Cluster
Autoscaler, and the workloads among these that have something to rename. The
report then says what the nodes of today cost, and those that the same pods
would have on the new pools. With --from-aws it asks AWS for the managed node
groups, Fargate profiles and Auto Scaling groups of the cluster, and for what
these launch: the region of "nodeless up" if that is the cluster.

With --apply NodePools, EC2NodeClasses and FargateProfiles are applied
(server-side, as the field manager nodeless-migrate): all of them or, if a dry
run of one fails, none. What became of each goes to stdout instead of the
manifests. Workloads are left as they are, since their pods would be restarted.

The exit code is 2 if an object cannot work as it is written, or if a cluster or
AWS cannot be read; the report or the error says what is lacking.`

const examples = `  # A file, with the role that nodes have
  nodeless migrate -f provisioner.yaml --node-role KarpenterNodeRole-prod > pools.yaml

  # A Helm chart, or what the cluster has
  helm template ./karpenter-pools | nodeless migrate -f -
  kubectl get provisioners,awsnodetemplates -o yaml | nodeless migrate -f -

  # The groups of kops, of eksctl, of EKS
  (kops get cluster -o yaml; echo ---; kops get ig -o yaml) | nodeless migrate -f -
  nodeless migrate -f cluster.yaml --widen
  aws eks describe-nodegroup --cluster-name prod --nodegroup-name web | nodeless migrate -f -

  # What a cluster and its AWS account have, and the pools into the cluster
  nodeless migrate --from-cluster --from-aws --cluster-name prod > pools.yaml
  nodeless migrate --from-cluster --from-aws --cluster-name prod --apply

  # The fate of every field, as JSON
  nodeless migrate -f manifests/ -o json`

// New returns the command migrate.
func New() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:     "migrate",
		Short:   "Turn node groups and Karpenter's old APIs into NodePools",
		Long:    long,
		Example: examples,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of manifests, - for stdin; may be repeated")
	f.BoolVar(&o.fromCluster, "from-cluster", false, "read the objects of the cluster")
	f.BoolVar(&o.fromAWS, "from-aws", false, "ask AWS for the cluster's node groups")
	f.BoolVar(&o.apply, "apply", false, "apply the pools, classes and profiles to the cluster, all or none")
	o.cluster.AddCluster(f)
	f.StringVar(&o.clusterName, "cluster-name", "",
		"what AWS calls the cluster (default: as the kubeconfig says, if the AWS CLI or eksctl wrote it)")
	f.StringVar(&o.region, "region", "", "AWS region of the cluster (default: that of the AWS configuration)")
	f.StringVar(&o.o.NodeRole, "node-role", "", "IAM role of nodes, for classes without an instance profile")
	f.BoolVar(&o.o.Static, "static", false,
		"node groups keep their size: NodePools with spec.replicas, not for the pods that wait")
	f.BoolVar(&o.o.Widen, "widen", false,
		"node groups may have other instance types of their architecture and category, as large or larger")
	f.StringVarP(&o.output, "output", "o", "yaml",
		"yaml, wide for a report that has the fields with the same meaning too, or json for objects and report")
	f.BoolVar(&o.strict, "strict", false, "exit with 2 if an object was left out")
	c.AddCommand(statusCommand(), nextCommand(), backCommand())
	return c
}

// answer is what -o json prints.
type answer struct {
	*migrate.Result
	Bill    *bill     `json:"bill,omitempty"`
	Applied []applied `json:"applied,omitempty"`
}

func (o *options) run(cmd *cobra.Command) error {
	if o.output != "yaml" && o.output != "wide" && o.output != "json" {
		return fmt.Errorf("--output %q: use yaml, wide or json", o.output)
	}
	if len(o.files) == 0 && !o.fromCluster && !o.fromAWS {
		return errors.New("nothing to migrate: name manifests with -f, or see --from-cluster and --from-aws in: nodeless " +
			"migrate --help")
	}
	t, err := o.find()
	if err != nil {
		return err
	}
	in, err := o.inputs(cmd, t)
	if err != nil {
		return err
	}
	r, err := in.migrated(o.o)
	if err != nil {
		return err
	}
	a := &answer{Result: r}
	if o.fromCluster && !r.Failed() && len(r.Nodes) > 0 {
		a.Bill = o.liveBill(cmd.Context(), t, in, r)
	}
	failed := o.verdict(r)
	switch {
	case o.apply && failed != nil:
		failed = fmt.Errorf("nothing was applied: %w", failed)
	case o.apply:
		a.Applied, failed = applyAll(cmd.Context(), t.REST, r, cmd.ErrOrStderr())
	}
	return errors.Join(o.write(cmd, a), failed)
}

// verdict returns an error if an object cannot work or, with --strict, was left out.
func (o *options) verdict(r *migrate.Result) error {
	switch {
	case r.Failed():
		return errors.New("some objects cannot work as they are written: see what the report says has failed")
	case o.strict && len(r.Skipped) > 0:
		return fmt.Errorf("%d objects were left out (--strict)", len(r.Skipped))
	}
	return nil
}

// write prints the manifests, or what applying them did, and the report.
func (o *options) write(cmd *cobra.Command, a *answer) error {
	if a.Empty() {
		if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "nodeless: migrate: nothing to migrate was found"); err != nil {
			return err
		}
	}
	if o.output == "json" {
		return output.Data(cmd.OutOrStdout(), "json", a)
	}
	err := a.Report(cmd.ErrOrStderr(), o.output == "wide")
	if a.Bill != nil {
		_, more := io.WriteString(cmd.ErrOrStderr(), a.Bill.text())
		err = errors.Join(err, more)
	}
	if o.apply {
		return errors.Join(err, writeApplied(cmd.OutOrStdout(), a.Applied))
	}
	return errors.Join(err, a.YAML(cmd.OutOrStdout()))
}
