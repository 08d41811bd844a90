package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/internal/clock"
	"github.com/nodeless/nodeless/internal/controller"
	"github.com/nodeless/nodeless/internal/loop"
)

// runOptions are the settings of the controller alone; names and environment follow Karpenter's where it has them.
type runOptions struct {
	kubeconfig, context  string
	clusterName          string
	clusterEndpoint      string
	interruptionQueue    string
	vmMemoryOverhead     float64
	reservedENIs         int
	metrics, health      string
	leaderElection       bool
	leaderNamespace      string
	stateDir, logLevel   string
	kubeQPS              float64
	profiling            bool
	typesFile            string
	classKinds           []string
	choices              controller.Choices
	karpenterEnvironment map[string]string // flag → environment variable
}

func newRun() *cobra.Command {
	o := runOptions{karpenterEnvironment: map[string]string{
		"cluster-name": "CLUSTER_NAME", "cluster-endpoint": "CLUSTER_ENDPOINT", "interruption-queue": "INTERRUPTION_QUEUE",
		"vm-memory-overhead-percent": "VM_MEMORY_OVERHEAD_PERCENT", "reserved-enis": "RESERVED_ENIS", "log-level": "LOG_LEVEL",
		"enable-profiling": "ENABLE_PROFILING", "leader-election-namespace": "LEADER_ELECTION_NAMESPACE", "kube-client-qps": "KUBE_CLIENT_QPS",
		"preference-policy": "PREFERENCE_POLICY",
	}}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the controller alone, against any cluster",
		Long: `Watches the cluster of your kubeconfig (or, in a pod, of its service account), launches machines through the AWS API and takes
them away. AWS credentials and region come from where every AWS tool takes them; AWS_ENDPOINT_URL leads to a simulated
region. Each flag can be given as NODELESS_<FLAG>, and those that Karpenter has also under Karpenter's name, such as CLUSTER_NAME.

Do not run it beside Karpenter on the same NodePools.`,
		Args: cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			for flag, name := range o.karpenterEnvironment {
				if v := os.Getenv(name); v != "" && !cmd.Flags().Changed(flag) {
					if err := cmd.Flags().Set(flag, v); err != nil {
						return fmt.Errorf("environment variable %s=%q: %w", name, v, err)
					}
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runController(cmd.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringVar(&o.clusterName, "cluster-name", "", "name of the cluster, in tags and user data (required)")
	f.StringVar(&o.clusterEndpoint, "cluster-endpoint", "", "URL of the API server as machines reach it (default: the kubeconfig's)")
	f.StringVar(&o.interruptionQueue, "interruption-queue", "", "name of the SQS queue with EC2's notices (default: none)")
	f.Float64Var(&o.vmMemoryOverhead, "vm-memory-overhead-percent", 0.075, "part of a type's memory that the hypervisor keeps")
	f.IntVar(&o.reservedENIs, "reserved-enis", 0, "network interfaces of a machine that are not for pods")
	f.StringVar(&o.metrics, "metrics-address", "127.0.0.1:8080", `where /metrics is served; "" = nowhere`)
	f.StringVar(&o.health, "health-address", "127.0.0.1:8081", `where /healthz and /readyz are served; "" = nowhere`)
	f.BoolVar(&o.leaderElection, "leader-elect", false, "run several replicas of which one acts")
	f.StringVar(&o.leaderNamespace, "leader-election-namespace", "kube-system", "namespace of the lease")
	f.StringVar(&o.stateDir, "state-dir", "", "folder for plans that failed the check (default: they are only logged)")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.Float64Var(&o.kubeQPS, "kube-client-qps", 200, "requests per second to the API server")
	f.BoolVar(&o.profiling, "enable-profiling", false, "serve /debug/pprof beside /metrics")
	f.StringVar(&o.typesFile, "types", "", `file of machine types as for "nodeless up": their labels`)
	f.StringSliceVar(&o.classKinds, "class-kind", nil, "file of a kind of node class beside EC2NodeClass, and of what its objects stand for")
	_ = errors.Join(f.MarkHidden("types"), f.MarkHidden("class-kind")) // for tests: AWS has no types of one's own
	choiceFlags(f, &o.choices)
	return c
}

// choiceFlags are the flags for what is a matter of choice in decisions.
func choiceFlags(f *pflag.FlagSet, c *controller.Choices) {
	f.StringVar(&c.PreferencePolicy, "preference-policy", "Priced", "preferred affinities, PreferNoSchedule taints and ScheduleAnyway spreads are kept: "+
		"Priced = as far as they cost no more than --preference-price, Respect = if at all possible, Ignore = not looked at")
	f.Float64Var(&c.PreferencePrice, "preference-price", 0, "dollars an hour that a preference of weight 100 may cost; less weight, less money")
	f.Float64Var(&c.NodeFee, "node-fee", 0, "dollars an hour that every machine costs you beside its price, such as licences: the more, the fewer and larger machines")
	f.IntVar(&c.SpotRisk, "spot-risk", 0, "percent by which spot prices count for more when offerings are compared")
	f.Int32Var(&c.PriorityCutoff, "priority-cutoff", controller.NoCutoff, "pods of lower priority may use machines that are there, but none is launched for them")
	f.Lookup("priority-cutoff").DefValue = "none"
}

func runController(ctx context.Context, o runOptions) error {
	if o.clusterName == "" {
		return fmt.Errorf("--cluster-name is missing: the name under which machines are tagged, such as --cluster-name prod")
	}
	policy, err := o.choices.Policy()
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return fmt.Errorf("--log-level %q: use debug, info, warn or error", o.logLevel)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	slog.SetDefault(log)
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w; name a kubeconfig with --kubeconfig", err)
	}
	cfg.QPS, cfg.Burst = float32(o.kubeQPS), int(o.kubeQPS*1.5)
	awsCfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("AWS configuration: %w", err)
	}
	if awsCfg.Region == "" {
		return fmt.Errorf("no AWS region: set AWS_REGION")
	}
	types, err := readTypes(o.typesFile)
	if err != nil {
		return err
	}
	kinds, err := readClassKinds(o.classKinds)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	return controller.Run(ctx, controller.Options{
		REST: cfg, Policy: policy, Log: log, Clock: clock.Real{}, DataDir: o.stateDir,
		MetricsAddress: o.metrics, HealthAddress: o.health, Profiling: o.profiling,
		LeaderElection: o.leaderElection, LeaderNamespace: o.leaderNamespace, Identity: host,
		ClassKinds: kinds,
		Provider: awsProvider(aws.Options{
			AWS: awsCfg, ClusterName: o.clusterName, ClusterEndpoint: orElse(o.clusterEndpoint, cfg.Host), ClusterCA: cfg.CAData,
			InterruptionQueue: o.interruptionQueue, VMMemoryOverheadPercent: &o.vmMemoryOverhead, ReservedENIs: o.reservedENIs,
			TypeLabels: typeLabels(types),
			Log:        log,
		}),
	})
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// awsProvider makes the AWS provider once the controller can read node classes.
func awsProvider(o aws.Options) func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
	return func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass, kubernetesVersion string) (cloud.Provider, error) {
		o.Classes, o.KubernetesVersion = classes, kubernetesVersion
		return aws.New(ctx, o)
	}
}

// controllerOptions is the controller inside `nodeless up`: it reaches the region over the wire, like any AWS client.
func (l *local) controllerOptions(ready func()) controller.Options {
	ui := launchUI{l.p}
	return controller.Options{
		REST: l.restConfig("nodeless-controller"), Log: l.log, Clock: clock.Real{}, DataDir: l.o.dataDir, OnReady: ready,
		OnDecision: func(d loop.Decision) {
			if l.o.demo {
				ui.show(d)
			}
		},
		Provider: awsProvider(aws.Options{
			AWS: awssdk.Config{
				Region: l.o.region, BaseEndpoint: &l.regionURL,
				Credentials: credentials.NewStaticCredentialsProvider("nodeless", "nodeless", ""),
			},
			ClusterName: clusterName, ClusterEndpoint: l.plane.APIServerURL(), ClusterCA: l.plane.CABundle(),
			ServiceCIDR: l.plane.ServiceCIDR(), InterruptionQueue: clusterName, TypeLabels: typeLabels(l.o.types), Log: l.log,
		}),
	}
}
