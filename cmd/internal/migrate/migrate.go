// Package migrate is the command that turns manifests of what launched nodes before into NodePools.
package migrate

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/migrate"
)

type options struct {
	files  []string
	o      migrate.Options
	output string
	strict bool
}

// New returns the command.
func New() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Turn node groups and Karpenter's old APIs into NodePools",
		Long: `Reads what launched nodes before and writes NodePools and EC2NodeClasses (v1)
to stdout, and a report to stderr: what became of each field, which defaults are
written out because they were others, and what the nodes cost. It changes
nothing and needs no cluster.

It reads
- Karpenter: Provisioner, AWSNodeTemplate and the ConfigMap
  karpenter-global-settings (v1alpha5), NodePool and EC2NodeClass (v1beta1)
- kops: Cluster and InstanceGroup
- eksctl: ClusterConfig, with its node groups and Fargate profiles
- the AWS CLI's output: aws eks describe-nodegroup and describe-fargate-profile,
  aws autoscaling describe-auto-scaling-groups together with aws ec2
  describe-launch-template-versions
- Cluster Autoscaler's Deployment, whose flags say when idle nodes go
- workloads, whose labels, selectors and annotations of then are renamed

Objects of v1 stay as they are. Other kinds are named and left out.

The exit code is 2 if an object cannot work as it is written; the report says
what it lacks.`,
		Example: `  # A file, with the role that nodes have
  nodeless migrate -f provisioner.yaml --node-role KarpenterNodeRole-prod > pools.yaml

  # A Helm chart, or what the cluster has
  helm template ./karpenter-pools | nodeless migrate -f -
  kubectl get provisioners,awsnodetemplates -o yaml | nodeless migrate -f -

  # The groups of kops, of eksctl, of EKS
  (kops get cluster -o yaml; echo ---; kops get ig -o yaml) | nodeless migrate -f -
  nodeless migrate -f cluster.yaml --widen
  aws eks describe-nodegroup --cluster-name prod --nodegroup-name web | nodeless migrate -f -

  # The fate of every field, as JSON
  nodeless migrate -f manifests/ -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of manifests, - for stdin; may be repeated")
	f.StringVar(&o.o.NodeRole, "node-role", "", "IAM role of nodes, for classes without an instance profile")
	f.BoolVar(&o.o.Static, "static", false,
		"node groups keep their size: NodePools with spec.replicas, not for the pods that wait")
	f.BoolVar(&o.o.Widen, "widen", false,
		"node groups may have other instance types of their architecture and category, as large or larger")
	f.StringVarP(&o.output, "output", "o", "yaml",
		"yaml, wide for a report that has the fields with the same meaning too, or json for objects and report")
	f.BoolVar(&o.strict, "strict", false, "exit with 2 if an object was left out")
	return c
}

func (o *options) run(cmd *cobra.Command) error {
	if o.output != "yaml" && o.output != "wide" && o.output != "json" {
		return fmt.Errorf("--output %q: use yaml, wide or json", o.output)
	}
	if len(o.files) == 0 {
		return errors.New("nothing to migrate: name manifests with -f; see: nodeless migrate --help")
	}
	inputs, closeAll, err := o.open(cmd.InOrStdin())
	defer closeAll()
	if err != nil {
		return err
	}
	r, err := migrate.Run(inputs, o.o)
	if err != nil {
		return err
	}
	if o.output == "json" {
		err = output.Data(cmd.OutOrStdout(), "json", r)
	} else {
		err = errors.Join(r.YAML(cmd.OutOrStdout()), r.Report(cmd.ErrOrStderr(), o.output == "wide"))
	}
	switch {
	case err != nil:
		return err
	case r.Failed():
		return errors.New("some objects cannot work as they are written: see what the report says has failed")
	case o.strict && len(r.Skipped) > 0:
		return fmt.Errorf("%d objects were left out (--strict)", len(r.Skipped))
	}
	return nil
}

func (o *options) open(stdin io.Reader) (inputs []migrate.Input, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, f := range opened {
			_ = f.Close()
		}
	}
	for _, name := range o.files {
		files, err := program.ManifestFiles(name)
		if err != nil {
			return nil, closeAll, err
		}
		for _, file := range files {
			if file == "-" {
				inputs = append(inputs, migrate.Input{Name: "stdin", Reader: stdin})
				continue
			}
			f, err := os.Open(file)
			if err != nil {
				return nil, closeAll, err
			}
			opened, inputs = append(opened, f), append(inputs, migrate.Input{Name: file, Reader: f})
		}
	}
	return inputs, closeAll, nil
}
