// Package doctor implements the command that checks whether a cluster is ready for the controller.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud/aws/iampolicy"
	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/doctor"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

type options struct {
	target                   target.Flags
	namespace, lease, format string
	aws, nodeGroups          bool
	cluster, region          string
	queue, principal         string
}

// New returns the command doctor.
func New() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether a cluster is ready for the controller, and what to do if not",
		Long: `Checks the version of Kubernetes, the definitions, the permissions of "nodeless
rbac", webhooks that nobody answers, the DNS that the controller asks,
EC2NodeClasses, access to instance metadata and clocks. With --aws it asks AWS,
too: what the selectors of EC2NodeClasses match, free addresses, the
interruption queue, and each permission of "nodeless iam", by simulating the
policies of the controller's role.

With --as it asks what that user may do, and reads everything else with your own
rights. It changes nothing. Each finding that is not "ok" has a remedy. It exits
with 2 if a check failed.`,
		Example: `  # As the controller would be answered
  nodeless doctor --as system:serviceaccount:kube-system:nodeless

  # What AWS says, of the controller's role
  nodeless doctor --aws --cluster-name prod --interruption-queue prod \
    --role arn:aws:iam::123456789012:role/NodelessController-prod`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := c.Flags()
	o.target.AddCluster(f)
	f.StringVar(&o.namespace, "namespace", "kube-system", "namespace of the controller and of its lease")
	f.StringVar(&o.lease, "leader-election-name", controller.DefaultLease, `name of the lease, as for "nodeless run"`)
	f.BoolVar(&o.nodeGroups, "node-groups", false, "also check what NodeGroups (Auto Scaling groups) need")
	f.BoolVar(&o.aws, "aws", false, "ask AWS, too")
	f.StringVar(&o.cluster, "cluster-name", "", "with --aws: name of the cluster (default: that of the kubeconfig)")
	f.StringVar(&o.region, "region", "", "with --aws: AWS region (default: $AWS_REGION)")
	f.StringVar(&o.queue, "interruption-queue", "", "with --aws: name of the SQS queue with EC2's notices")
	f.StringVar(&o.principal, "role", "", "with --aws: ARN of the controller's role (default: that of your credentials)")
	f.StringVarP(&o.format, "output", "o", "", "json or yaml; nothing for text")
	return c
}

func (o *options) run(ctx context.Context, w io.Writer) error {
	if o.format != "" && o.format != "json" && o.format != "yaml" {
		return fmt.Errorf("unknown output %q: use -o json or yaml, or nothing for text", o.format)
	}
	c, err := o.look(ctx)
	if err != nil {
		return err
	}
	findings := doctor.Examine(ctx, *c)
	if err := ctx.Err(); err != nil {
		return err // the findings say nothing else
	}
	if o.format == "" {
		fmt.Fprint(w, text(findings))
	} else if err := output.Data(w, o.format, findings); err != nil {
		return err
	}
	bad := 0
	for _, f := range findings {
		if f.Status == doctor.Failed {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d checks failed", bad, len(findings))
	}
	return nil
}

// look connects to the cluster: to read, with the caller's own rights, and to ask for the rights of --as.
func (o *options) look(ctx context.Context) (*doctor.Cluster, error) {
	reads := o.target
	reads.As = ""
	t, err := reads.Find()
	if err != nil {
		return nil, err
	}
	t.REST.QPS, t.REST.Burst = 100, 200 // one request per permission
	d, err := discovery.NewDiscoveryClientForConfig(t.REST)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	version, err := d.ServerVersion()
	if err != nil {
		return nil, capture.ExplainUnreachable(t.REST.Host, err)
	}
	kube, err := client.New(t.REST, client.Options{Scheme: doctor.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	asked := kube
	if o.target.As != "" {
		cfg := rest.CopyConfig(t.REST)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: o.target.As}
		asked, err = client.New(cfg, client.Options{Scheme: doctor.Scheme(), Mapper: kube.RESTMapper()})
		if err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
	}
	more := rbac.Objects(o.namespace, o.lease)
	if o.nodeGroups {
		more = rbac.Objects(o.namespace, o.lease, rbac.NodeGroupRules()...)
	}
	c := &doctor.Cluster{
		Client: kube, Asked: asked, Version: version.GitVersion, Ahead: t.Clock.Ahead(), Needed: more,
		Namespace: o.namespace,
	}
	if !o.aws {
		return c, nil
	}
	name, cfg, err := t.AtAWS(ctx, o.cluster, o.region)
	if err != nil {
		return nil, err
	}
	c.AWS = &doctor.AWS{
		Config: cfg, Queue: o.queue, Role: o.principal, Clock: clock.Real{},
		Scope: iampolicy.Scope{Cluster: name, Region: cfg.Region, NodeGroups: o.nodeGroups},
	}
	return c, nil
}

// text formats each finding as a line, with its remedy below it.
func text(findings []doctor.Finding) string {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", f.Status, width, f.Check, f.Says)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%8s %*s  → %s\n", "", width, "", f.Remedy)
		}
	}
	return b.String()
}
