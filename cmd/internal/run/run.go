// Package run implements the commands run, crds and rbac, which run the controller and print what it needs in a
// cluster.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/admission"
	"github.com/nodeless/nodeless/controller/automode"
	"github.com/nodeless/nodeless/controller/nodegroup"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

func newRun() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the controller against a cluster",
		Example: `  # Against the cluster of your kubeconfig
  nodeless run --cluster-name prod --interruption-queue prod

  # Against the cluster of "nodeless up --controller=false"
  eval $(nodeless env)
  nodeless run --cluster-name nodeless --interruption-queue nodeless`,
		Long: `Watches the cluster of your kubeconfig or, in a pod, of its service account;
launches and terminates nodes through the AWS API. AWS credentials and region
come from the usual places; AWS_ENDPOINT_URL may point to a simulated region.

Each flag can also be given as NODELESS_<FLAG> in the environment. Karpenter's
settings also work under Karpenter's own names, such as CLUSTER_NAME: a
Karpenter deployment's settings can stay as they are.

Do not run it beside Karpenter on the same NodePools. It takes Karpenter's lease
(--leader-election-name), so that the two never act at the same time in one
namespace.`,
		Args:    cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return fromKarpentersEnvironment(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.logged(runController(cmd.Context(), cmd.Flags(), &s))
		},
	}
	s.add(c.Flags())
	return c
}

// logged writes the error to the log if everything that the controller prints is to be JSON.
func (s *settings) logged(err error) error {
	if err == nil || s.logFormat != "json" {
		return err
	}
	log, failed := s.openLogger()
	if failed != nil {
		return err
	}
	log.Error("the controller ended", "error", err.Error())
	return &program.ExitError{Code: program.ExitFailure}
}

// frugal is the controller's GOGC, in percent of the live heap: that heap is small, so that collecting garbage twice
// as often as usual costs little.
const frugal = 50

func runController(ctx context.Context, f *pflag.FlagSet, s *settings) error {
	if err := s.validate(); err != nil {
		return err
	}
	log, err := s.startLog()
	if err != nil {
		return err
	}
	o, err := s.controllerOptions(f)
	if err != nil {
		return err
	}
	for _, flag := range s.inert.wanted() {
		log.Warn("this setting is accepted but has no effect; see nodeless run --help", "flag", "--"+flag)
	}
	if limit, _ := s.memory(); limit > 0 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(frugal)
	}
	if !s.profiling {
		runtime.MemProfileRate = 0
	}
	cfg, err := target.Connect(s.kubeconfig, s.context, s.kubeQPS, s.kubeBurst)
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
	provider.Log, provider.IgnoreReservations = log, !o.Gates.ReservedCapacity
	if s.useTestCloud != nil {
		if err := s.useTestCloud(&provider, &o); err != nil {
			return err
		}
	}
	o.REST, o.Log, o.Provider = cfg, log, target.AWSProvider(provider)
	if o.Fargate, err = s.fargate(ctx); err != nil {
		return err
	}
	if s.page == "" {
		return controller.Run(ctx, o)
	}
	return s.runWithPage(ctx, awsCfg, o)
}

// fargate returns the options for pods in microVMs; nil if FargateProfiles are ignored.
func (s *settings) fargate(ctx context.Context) (*controller.Fargate, error) {
	if s.fargateWebhook == "" {
		return nil, nil
	}
	at, listener, err := admission.Listen(ctx, fmt.Sprintf(":%d", s.fargatePort), s.fargateWebhook)
	if err != nil {
		return nil, err
	}
	return &controller.Fargate{At: at, Listener: listener, Namespace: s.ownNamespace()}, nil
}

// catalogOptions returns the options of the cloud provider that decide what instances offer and cost.
func (s *settings) catalogOptions(awsCfg awssdk.Config) aws.Options {
	return aws.Options{
		AWS: awsCfg, ClusterName: s.clusterName, VMMemoryOverheadPercent: &s.vmMemoryOverhead,
		ReservedENIs: s.reservedENIs, IsolatedVPC: s.isolatedVPC,
	}
}

// provider returns the options of the cloud provider. It asks EKS how instances reach the cluster where EKS knows
// better.
func (s *settings) provider(ctx context.Context, awsCfg awssdk.Config, cfg *rest.Config) (aws.Options, error) {
	ca, err := s.caBundle()
	if err != nil {
		return aws.Options{}, err
	}
	o := s.catalogOptions(awsCfg)
	o.ClusterEndpoint, o.ClusterCA, o.InterruptionQueue = s.clusterEndpoint, ca, s.interruptionQueue
	if o.ClusterCA == nil { // before asking EKS: hashes of node classes cover these, as Karpenter reads them
		if o.ClusterCA, err = target.Authorities(cfg); err != nil {
			return o, err
		}
	}
	if s.eksControlPlane || s.zonalShift || s.clusterEndpoint == "" && inPod() {
		found, err := aws.FindCluster(ctx, awsCfg, s.clusterName)
		if err != nil {
			return o, fmt.Errorf("%w; give --cluster-endpoint and leave --eks-control-plane and --enable-zonal-shift out if "+
				"the control plane is not EKS", err)
		}
		if s.zonalShift {
			o.ClusterARN = found.ARN
		}
		o.ClusterEndpoint, o.ServiceCIDR = cmp.Or(o.ClusterEndpoint, found.Endpoint), found.ServiceCIDR
		if o.ClusterCA == nil {
			o.ClusterCA = found.CA
		}
	}
	if o.ServiceCIDR == "" {
		o.ServiceCIDR = s.serviceCIDR(ctx, awsCfg, cfg)
	}
	o.ClusterEndpoint = cmp.Or(o.ClusterEndpoint, cfg.Host)
	return o, nil
}

// cidrWait is how long the start waits for the range of Services. Node classes that need it say if it is not known.
const cidrWait = 10 * time.Second

// serviceCIDR returns the range of the cluster's Services as the API server has it (kubernetes.io/docs/reference,
// "ServiceCIDR": its own has the name kubernetes), else as EKS has it; "" if neither says it.
func (s *settings) serviceCIDR(ctx context.Context, awsCfg awssdk.Config, cfg *rest.Config) string {
	ctx, stop := context.WithTimeout(ctx, cidrWait)
	defer stop()
	if kube, err := kubernetes.NewForConfig(cfg); err == nil {
		own, err := kube.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil && len(own.Spec.CIDRs) > 0 {
			return own.Spec.CIDRs[0]
		}
	}
	found, _ := aws.FindCluster(ctx, awsCfg, s.clusterName)
	return found.ServiceCIDR
}

// controllerOptions returns the controller options that follow from the settings.
func (s *settings) controllerOptions(f *pflag.FlagSet) (controller.Options, error) {
	policy, on, err := s.policy.Resolve()
	if err != nil {
		return controller.Options{}, err
	}
	var scheduler translate.SchedulerConfig
	if err := s.policy.Scheduler(&scheduler); err != nil {
		return controller.Options{}, err
	}
	auto, err := s.autoModeSettings()
	if err != nil {
		return controller.Options{}, err
	}
	var groups []string
	if s.discovery != "" {
		if groups, err = nodegroup.ParseDiscovery(s.discovery); err != nil {
			return controller.Options{}, fmt.Errorf("--node-group-auto-discovery: %w", err)
		}
	}
	host, _ := os.Hostname()
	return controller.Options{
		AutoMode: auto, NodeGroupTags: groups,
		Policy: policy, Scheduler: scheduler, Gates: on, Clock: clock.Real{}, DataDir: s.stateDir, Version: program.Version,
		MetricsAddress: listen(f, "metrics-port", s.metricsPort, s.metricsAddress),
		HealthAddress:  listen(f, "health-probe-port", s.healthPort, s.healthAddress),
		Profiling:      s.profiling, Unobserved: s.unobserved,
		LeaderElection: s.leaderElect && !s.noLeaderElection, LeaderName: s.leaderName,
		LeaderNamespace: cmp.Or(s.leaderNamespace, s.ownNamespace()), Identity: cmp.Or(os.Getenv("POD_NAME"), host),
		Service:  client.ObjectKey{Namespace: s.ownNamespace(), Name: s.service},
		Parallel: s.parallel(), ClassRefresh: min(s.amiRefresh, s.subnetRefresh), BatchIdle: s.batchIdle,
		BatchMax: cmp.Or(s.batchMax, 10*s.batchIdle), IgnoreDRA: s.ignoreDRA,
	}, nil
}

// autoModeSettings returns the settings of EKS Auto Mode; nil if it is off.
func (s *settings) autoModeSettings() (*automode.Settings, error) {
	switch {
	case s.autoMode == "" && s.autoModeRole == "":
		return nil, nil
	case s.autoMode == "":
		return nil, errors.New("--auto-mode-role: has no effect without --auto-mode; name the built-in NodePools with " +
			"--auto-mode")
	case s.autoModeRole == "":
		return nil, errors.New("--auto-mode: the NodeClass default needs a role; name it with --auto-mode-role")
	}
	pools, err := automode.ParsePools(s.autoMode)
	if err != nil {
		return nil, fmt.Errorf("--auto-mode: %w", err)
	}
	return &automode.Settings{Pools: pools, Class: automode.DiscoveredClass(s.autoModeRole, s.clusterName)}, nil
}

// Commands returns the commands run, crds and rbac.
func Commands() []*cobra.Command {
	return []*cobra.Command{newRun(), newCRDs(), newRBAC()}
}
