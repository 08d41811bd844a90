package run

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cmd/internal/policyflags"
	"github.com/nodeless/nodeless/cmd/internal/webpage"
	"github.com/nodeless/nodeless/controller"
)

// testCloud adds flags for Karpenter's suites and returns a function that applies them; nil without the build tag
// conformance.
var testCloud func(*pflag.FlagSet) func(*aws.Options, *controller.Options) error

// settings are the controller's settings. Those that Karpenter v1.14.1 and its AWS provider also have use the same
// names, as flags and in the environment, and the same defaults unless the help says otherwise
// (karpenter.sh/docs/reference/settings).
type settings struct {
	kubeconfig, context string
	stateDir            string
	// nil except in the build for Karpenter's suites
	useTestCloud func(*aws.Options, *controller.Options) error

	clusterName, clusterEndpoint, clusterCA  string
	interruptionQueue                        string
	isolatedVPC, eksControlPlane, zonalShift bool
	reservedENIs                             int
	autoMode, autoModeRole                   string
	discovery                                string
	vmMemoryOverhead                         float64
	amiRefresh, subnetRefresh                time.Duration

	metricsAddress, healthAddress string
	metricsPort, healthPort       int
	page                          string
	pageGate                      webpage.GateFlags
	profiling, unobserved         bool

	leaderElect, noLeaderElection       bool
	leaderName, leaderNamespace, system string
	service                             string

	fargateWebhook string
	fargatePort    int

	kubeQPS, kubeBurst  int
	memoryLimit         string
	cpuRequests         int
	batchIdle, batchMax time.Duration

	logLevel, logFormat   string
	logPaths, logErrPaths string

	ignoreDRA bool

	policy policyflags.Flags
	inert  inert
}

// inert are settings of Karpenter that have no effect here. Setting one to request a missing feature logs a warning.
type inert struct {
	awsGates           string
	noWarmup, noDryRun bool
}

// karpenterNames are the flags that can also be given under Karpenter's name in the environment: CLUSTER_NAME for
// cluster-name.
var karpenterNames = []string{
	"cluster-name", "cluster-endpoint", "cluster-ca-bundle", "interruption-queue", "isolated-vpc", "eks-control-plane",
	"reserved-enis",
	"vm-memory-overhead-percent", "ami-refresh-interval", "subnet-refresh-interval", "enable-zonal-shift",
	"disable-dry-run", "aws-feature-gates",
	"metrics-port", "health-probe-port", "enable-profiling", "disable-cluster-state-observability",
	"disable-leader-election",
	"leader-election-name", "leader-election-namespace", "system-namespace", "disable-controller-warmup",
	"karpenter-service",
	"kube-client-qps", "kube-client-burst", "memory-limit", "cpu-requests", "batch-idle-duration", "batch-max-duration",
	"log-level", "log-output-paths", "log-error-output-paths", "preference-policy", "min-values-policy", "feature-gates",
	"scheduler-config", "ignore-dra-requests",
}

// karpenterName returns Karpenter's name of a flag in the environment.
func karpenterName(flag string) string {
	return strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromKarpentersEnvironment sets those flags that were not given otherwise from Karpenter's environment variables.
func fromKarpentersEnvironment(cmd *cobra.Command) error {
	for _, flag := range karpenterNames {
		f := cmd.Flags().Lookup(flag)
		v := os.Getenv(karpenterName(flag))
		if f == nil || f.Changed || v == "" {
			continue
		}
		if err := cmd.Flags().Set(flag, v); err != nil {
			return fmt.Errorf("environment variable %s=%q: %w", karpenterName(flag), v, err)
		}
	}
	return nil
}

// add adds the flags of `nodeless run`.
func (s *settings) add(f *pflag.FlagSet) {
	f.StringVar(&s.kubeconfig, "kubeconfig", "",
		"kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	f.StringVar(&s.context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringVar(&s.stateDir, "state-dir", "", "folder for plans that failed the check (default: they are only logged)")
	if testCloud != nil {
		s.useTestCloud = testCloud(f)
	}
	s.addCluster(f)
	s.addProcess(f)
	s.inert.add(f)
	s.policy.Add(f)
}

func (s *settings) addCluster(f *pflag.FlagSet) {
	f.StringVar(&s.clusterName, "cluster-name", "", "name of the cluster, in tags and user data (required)")
	f.StringVar(&s.clusterEndpoint, "cluster-endpoint", "",
		"URL at which nodes reach the API server (default: EKS is asked with --eks-control-plane or in a pod,"+
			" else the kubeconfig's)")
	f.StringVar(&s.clusterCA, "cluster-ca-bundle", "",
		"base64-encoded certificates of the API server for nodes (default: as for --cluster-endpoint)")
	f.BoolVar(&s.eksControlPlane, "eks-control-plane", false,
		"the control plane is EKS: ask it for endpoint, certificates and service network")
	f.BoolVar(&s.zonalShift, "enable-zonal-shift", false,
		"launch nothing in zones from which a zonal shift moves the traffic of the EKS cluster away")
	f.StringVar(&s.interruptionQueue, "interruption-queue", "", "name of the SQS queue with EC2's notices (default: none)")
	f.BoolVar(&s.isolatedVPC, "isolated-vpc", false, "AWS's price list cannot be reached: use the built-in one")
	f.Float64Var(&s.vmMemoryOverhead, "vm-memory-overhead-percent", 0.075,
		"fraction of an instance type's memory that the hypervisor keeps")
	f.IntVar(&s.reservedENIs, "reserved-enis", 0, "network interfaces of a node that are not for pods")
	f.StringVar(&s.autoMode, "auto-mode", "",
		"accept the NodeClass of EKS Auto Mode, and keep the mode's built-in NodePools that are named here, such as "+
			"general-purpose,system. Not for EKS clusters whose Auto Mode is on: there AWS does that (default: off)")
	f.StringVar(&s.autoModeRole, "auto-mode-role", "",
		"IAM role of the nodes of the NodeClass default, with --auto-mode; its subnets and security groups are those "+
			"with the tag karpenter.sh/discovery: CLUSTER_NAME")
	f.StringVar(&s.discovery, "node-group-auto-discovery", "",
		"size the Auto Scaling groups with these tags, as Cluster Autoscaler does: asg:tag=KEY,KEY, such as "+
			"asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod. Each gets a NodeGroup and a NodePool "+
			"(default: only groups that a NodeGroup names)")
	f.DurationVar(&s.amiRefresh, "ami-refresh-interval", time.Minute,
		"how often images are looked up again, at least 1m; images and subnets are looked up together, at the"+
			" shorter interval")
	f.DurationVar(&s.subnetRefresh, "subnet-refresh-interval", time.Minute,
		"how often subnets are looked up again, at least 1m; see --ami-refresh-interval")
}

func (s *settings) addProcess(f *pflag.FlagSet) {
	f.IntVar(&s.metricsPort, "metrics-port", 8080,
		"port of /metrics; 0 = none. It is open on all addresses in a pod or if it is given, else on loopback")
	f.IntVar(&s.healthPort, "health-probe-port", 8081, "port of /healthz and /readyz, as for --metrics-port")
	f.StringVar(&s.metricsAddress, "metrics-address", "",
		`address and port of /metrics instead of --metrics-port, such as 127.0.0.1:8080`)
	f.StringVar(&s.healthAddress, "health-address", "",
		"address and port of /healthz and /readyz instead of --health-probe-port")
	f.StringVar(&s.page, "page", "",
		"address and port of the page that shows the cluster: on a loopback address, such as 127.0.0.1:8082, with a token "+
			"in a file that the log names; on others, such as 0.0.0.0:8443 in a pod, people log in with a bearer token "+
			"(default: no page)")
	s.pageGate.Add(f, "page-")
	f.BoolVar(&s.profiling, "enable-profiling", false,
		"serve /debug/pprof beside /metrics, to callers on this machine or in this pod (kubectl port-forward)")
	f.BoolVar(&s.unobserved, "disable-cluster-state-observability", false,
		"export no metrics of individual pods, nodes, pools and conditions")
	f.BoolVar(&s.leaderElect, "leader-elect", true,
		"let one of several replicas act; the others stand by with the state of the cluster")
	f.BoolVar(&s.noLeaderElection, "disable-leader-election", false, "the same as --leader-elect=false")
	f.StringVar(&s.leaderName, "leader-election-name", controller.DefaultLease, "name of the lease")
	f.StringVar(&s.leaderNamespace, "leader-election-namespace", "",
		"namespace of the lease (default: --system-namespace)")
	f.StringVar(&s.system, "system-namespace", "",
		"namespace of the controller (default: the pod's own, else kube-system)")
	f.StringVar(&s.service, "karpenter-service", "",
		"name of the controller's Service in --system-namespace: without --fargate-webhook, a webhook that refers to it "+
			"is left from before and is deleted")
	f.StringVar(&s.fargateWebhook, "fargate-webhook", "",
		"URL at which the API server reaches this process, such as https://192.0.2.1:9443 or, for a Service, "+
			"https://SERVICE.NAMESPACE.svc. FargateProfiles then take effect: the pods they select run in "+
			`microVMs of machines that joined with "nodeless host", and stay Pending without one (default: `+
			"FargateProfiles are ignored)")
	f.IntVar(&s.fargatePort, "fargate-webhook-port", 9443, "port that serves --fargate-webhook")
	f.IntVar(&s.kubeQPS, "kube-client-qps", 200, "requests per second to the API server")
	f.IntVar(&s.kubeBurst, "kube-client-burst", 300, "burst of requests to the API server")
	f.StringVar(&s.memoryLimit, "memory-limit", "-1",
		"memory of the container, in bytes or as 2Gi; garbage is collected more eagerly above 90 % of it; -1 "+
			"= unknown")
	f.IntVar(&s.cpuRequests, "cpu-requests", 1000,
		"CPU of the container, in millicores; 64 launches and 16 writes to the API server run in parallel for"+
			" each 1000")
	f.DurationVar(&s.batchIdle, "batch-idle-duration", 0,
		"quiet time to wait for before planning for pods; longer means fewer, larger nodes for pods that "+
			"trickle in (default: 10 to 60 ms; 200 ms once a controller wants pods)")
	f.DurationVar(&s.batchMax, "batch-max-duration", 0,
		"longest wait while more pods arrive (default: 300 ms; 1 s once a controller wants pods; ten times "+
			"--batch-idle-duration if that is given)")
	f.BoolVar(&s.ignoreDRA, "ignore-dra-requests", false,
		"launch no nodes for pods with claims of dynamic resource allocation, as Karpenter does by default")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&s.logFormat, "log-format", "text", "text or json")
	f.StringVar(&s.logPaths, "log-output-paths", "stderr",
		"where to write the log: stdout, stderr or files, separated by commas")
	f.StringVar(&s.logErrPaths, "log-error-output-paths", "stderr", "where to report that the log cannot be written")
}

func (i *inert) add(f *pflag.FlagSet) {
	f.BoolVar(&i.noWarmup, "disable-controller-warmup", true,
		"Karpenter's; a standby always knows the state of the cluster")
	f.BoolVar(&i.noDryRun, "disable-dry-run", false,
		"Karpenter's; node classes are validated without trial launches")
	f.StringVar(&i.awsGates, "aws-feature-gates", "NodeClassCEL=false",
		"Karpenter's; the gate NodeClassCEL is not supported yet")
}

// wanted returns the inert settings that request a missing feature.
func (i *inert) wanted() []string {
	if strings.Contains(i.awsGates, "=true") {
		return []string{"aws-feature-gates"}
	}
	return nil
}
