package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

func newRun() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the controller alone, against any cluster",
		Long: `Watches the cluster of your kubeconfig (or, in a pod, of its service account), launches machines through the AWS API and takes
them away. AWS credentials and region come from where every AWS tool takes them; AWS_ENDPOINT_URL leads to a simulated
region. Each flag can be given as NODELESS_<FLAG> in the environment, and those that Karpenter has also under Karpenter's
name, such as CLUSTER_NAME: a Karpenter deployment's settings can stay as they are.

Do not run it beside Karpenter on the same NodePools. It takes Karpenter's lease (--leader-election-name), so that the two
never act at the same time in one namespace.`,
		Args:    cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return fromKarpentersEnvironment(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.logged(runController(cmd.Context(), cmd.Flags(), &s))
		},
	}
	s.add(c.Flags())
	return c
}

// choiceFlags are the flags for what is a matter of choice in decisions.
func choiceFlags(f *pflag.FlagSet, c *controller.Choices) {
	f.StringVar(&c.PreferencePolicy, "preference-policy", "Priced",
		"preferred affinities, PreferNoSchedule taints and ScheduleAnyway spreads are kept: "+
			"Priced = as far as they cost no more than --preference-price, Respect = if at all possible, Ignore = not looked at")
	f.StringVar(&c.MinValuesPolicy, "min-values-policy", "Strict",
		"minValues of a NodePool that a machine cannot keep: Strict = it is not launched, "+
			"BestEffort = they are lowered for it if its pods get nothing otherwise")
	f.Float64Var(&c.PreferencePrice, "preference-price", 0,
		"dollars an hour that a preference of weight 100 may cost; less weight, less money")
	f.Float64Var(&c.NodeFee, "node-fee", 0,
		"dollars an hour that every machine costs you beside its price, such as licences: the more, the fewer and larger machines")
	f.IntVar(&c.SpotRisk, "spot-risk", 0, "percent by which spot prices count for more when offerings are compared")
	f.Int32Var(&c.PriorityCutoff, "priority-cutoff", controller.NoCutoff,
		"pods of lower priority may use machines that are there, but none is launched for them")
	f.Lookup("priority-cutoff").DefValue = "none"
}

// logged says in the log why the controller ended, where whatever it prints is to be JSON.
func (s *settings) logged(err error) error {
	if err == nil || s.logFormat != "json" {
		return err
	}
	log, failed := s.openLogger()
	if failed != nil {
		return err
	}
	log.Error("the controller ended", "error", err.Error())
	return exitError(exitFailure)
}

// frugal is how much garbage the controller lets grow, in percent of what lives: its heap is small, so that
// collecting it twice as often as usual costs little.
const frugal = 50

func runController(ctx context.Context, f *pflag.FlagSet, s *settings) error {
	if err := s.validate(); err != nil {
		return err
	}
	log, err := s.startLog()
	if err != nil {
		return err
	}
	for _, flag := range s.inert.wanted() {
		log.Warn("this setting is accepted but not carried out; see nodeless run --help", "flag", "--"+flag)
	}
	if limit, _ := s.memory(); limit > 0 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(frugal)
	}
	cfg, err := s.connect()
	if err != nil {
		return err
	}
	awsCfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("AWS configuration: %w", err)
	}
	if awsCfg.Region == "" {
		return fmt.Errorf("no AWS region: set AWS_REGION")
	}
	provider, err := s.provider(ctx, awsCfg, cfg)
	if err != nil {
		return err
	}
	provider.Log = log
	o, err := s.controllerOptions(f)
	if err != nil {
		return err
	}
	o.REST, o.Log, o.Provider = cfg, log, awsProvider(provider)
	if s.fargateWebhook != "" {
		if o.Fargate, err = listenForPods(ctx, fmt.Sprintf(":%d", s.fargatePort), s.fargateWebhook); err != nil {
			return err
		}
	}
	if s.page == "" {
		return controller.Run(ctx, o)
	}
	return s.runWithPage(ctx, awsCfg, o)
}

// connect finds the cluster.
func (s *settings) connect() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: s.context}).ClientConfig()
	if err != nil {
		return nil, noCluster(err)
	}
	cfg.QPS, cfg.Burst = float32(s.kubeQPS), s.kubeBurst
	return cfg, nil
}

// provider are the cloud's options: how machines reach the cluster is asked of EKS where that is the better source.
func (s *settings) provider(ctx context.Context, awsCfg awssdk.Config, cfg *rest.Config) (aws.Options, error) {
	labels, err := s.testCloud.typeLabels()
	if err != nil {
		return aws.Options{}, err
	}
	ca, err := s.caBundle()
	if err != nil {
		return aws.Options{}, err
	}
	o := aws.Options{
		AWS: awsCfg, ClusterName: s.clusterName, ClusterEndpoint: s.clusterEndpoint, ClusterCA: ca,
		InterruptionQueue: s.interruptionQueue, VMMemoryOverheadPercent: &s.vmMemoryOverhead, ReservedENIs: s.reservedENIs,
		IsolatedVPC: s.isolatedVPC, TypeLabels: labels,
	}
	if s.eksControlPlane || s.clusterEndpoint == "" && inPod() {
		found, err := aws.FindCluster(ctx, awsCfg, s.clusterName)
		if err != nil {
			return o, fmt.Errorf("%w; give --cluster-endpoint and leave --eks-control-plane out if the control plane is not EKS", err)
		}
		o.ClusterEndpoint, o.ServiceCIDR = cmp.Or(o.ClusterEndpoint, found.Endpoint), found.ServiceCIDR
		if o.ClusterCA == nil {
			o.ClusterCA = found.CA
		}
	}
	o.ClusterEndpoint = cmp.Or(o.ClusterEndpoint, cfg.Host)
	if o.ClusterCA == nil {
		o.ClusterCA, err = authorities(cfg)
	}
	return o, err
}

// authorities are the certificates of a client's configuration, which has them as text or, as in a pod, as a file.
func authorities(cfg *rest.Config) ([]byte, error) {
	if len(cfg.CAData) > 0 || cfg.CAFile == "" {
		return cfg.CAData, nil
	}
	pem, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificates of the API server: %w; give them with --cluster-ca-bundle", err)
	}
	return pem, nil
}

// controllerOptions are those that the settings decide.
func (s *settings) controllerOptions(f *pflag.FlagSet) (controller.Options, error) {
	policy, err := s.choices.Policy()
	if err != nil {
		return controller.Options{}, err
	}
	kinds, err := s.testCloud.classKinds()
	if err != nil {
		return controller.Options{}, err
	}
	on, err := s.choices.parsedGates()
	host, _ := os.Hostname()
	return controller.Options{
		Policy: policy, Gates: on, Clock: clock.Real{}, DataDir: s.stateDir, Version: version, ClassKinds: kinds,
		MetricsAddress: listen(f, "metrics-port", s.metricsPort, s.metricsAddress),
		HealthAddress:  listen(f, "health-probe-port", s.healthPort, s.healthAddress),
		Profiling:      s.profiling, Unobserved: s.unobserved,
		LeaderElection: s.leaderElect && !s.noLeaderElection, LeaderName: s.leaderName,
		LeaderNamespace: s.leaseNamespace(), Identity: cmp.Or(os.Getenv("POD_NAME"), host),
		Parallel: s.parallel(), ClassRefresh: min(s.amiRefresh, s.subnetRefresh), BatchIdle: s.batchIdle,
		BatchMax: cmp.Or(s.batchMax, 10*s.batchIdle),
	}, err
}

// awsProvider makes the AWS provider once the controller can read node classes.
func awsProvider(o aws.Options) func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass,
	string) (cloud.Provider, error) {
	return func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		kubernetesVersion string,
	) (cloud.Provider, error) {
		o.Classes, o.KubernetesVersion = classes, kubernetesVersion
		return aws.New(ctx, o)
	}
}
