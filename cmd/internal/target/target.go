// Package target finds the cluster that a command reads: the one of "nodeless up", one of a kubeconfig, or a capture.
package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Flags say which cluster a command reads, and where prices come from.
type Flags struct {
	Kubeconfig, Context, Namespace, As string
	region, Prices                     string
	localcluster.Selector
	From      string                    // a dump instead of a cluster
	Scheduler translate.SchedulerConfig // of its kube-scheduler, if a flag gives it
}

// KubeconfigUsage is the usage of --kubeconfig.
const KubeconfigUsage = `kubeconfig file (default: $KUBECONFIG, else the cluster of "nodeless up" if it runs, else ` +
	"~/.kube/config)"

// Add declares the flags of a command that reads a cluster and its prices.
func (c *Flags) Add(f *pflag.FlagSet) {
	c.AddCluster(f)
	f.StringVar(&c.region, "region", "", "AWS region of the built-in prices (default: that of the cluster's zones)")
	f.StringVar(&c.Prices, "prices", "",
		"source of prices: built-in, or aws to ask AWS with your credentials (default: the simulated region "+
			`of "nodeless up", else built-in)`)
}

// AddNamespace adds -n, for commands about objects that have a namespace.
func (c *Flags) AddNamespace(f *pflag.FlagSet) {
	f.StringVarP(&c.Namespace, "namespace", "n", "", "namespace (default: the context's)")
}

// AddCluster adds the flags that select a cluster, for commands that need no prices.
func (c *Flags) AddCluster(f *pflag.FlagSet) {
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", KubeconfigUsage)
	f.StringVar(&c.Context, "context", "", "context of the kubeconfig")
	f.StringVar(&c.As, "as", "", "user to impersonate")
	c.Selector.Add(f)
}

// AddFrom adds --from.
func (c *Flags) AddFrom(f *pflag.FlagSet) {
	f.StringVar(&c.From, "from", "",
		`read a file instead of a cluster, - for stdin: the output of "nodeless capture" or "kubectl get … -o`+
			` yaml"`)
}

// Cluster is a cluster to read.
type Cluster struct {
	REST      *rest.Config
	Namespace string
	Options   capture.Options
	Clock     *clock.Server // the cluster's; this machine's may be hours off
	Of        string        // which cluster it is, in words
	Context   string        // of the kubeconfig; "" if it has none
	EKSName   string        // its name in EKS; "" = the kubeconfig does not say

	session *localcluster.Session // of "nodeless up"; nil = it is another cluster
	dir     string                // the session's data directory
}

// Find finds the cluster: the named one, else that of $KUBECONFIG, else that of a running `nodeless up`, else that of
// the usual kubeconfig.
func (c *Flags) Find() (*Cluster, error) {
	if c.Prices != "" && c.Prices != "aws" && c.Prices != "built-in" {
		return nil, fmt.Errorf("--prices %q: use aws or built-in", c.Prices)
	}
	t := &Cluster{Options: capture.Options{
		Region: c.region, Scheduler: c.Scheduler,
		DefaultRegion: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
	}}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	overrides.AuthInfo.Impersonate = c.As
	loader, s, dir, err := Choose(c.Kubeconfig, &c.Selector, overrides)
	if err != nil {
		return nil, err
	}
	if s != nil {
		t.Of, t.session, t.dir = "the cluster of \"nodeless up\"", s, dir
		t.Options.DefaultRegion = s.Region // its classes and nodes say so, too, once there are any
		if c.Prices == "" {
			t.PricesOfSession(s, dir)
		}
		if c.Scheduler.Default() {
			if t.Options.Scheduler, err = localcluster.Scheduler(dir); err != nil {
				return nil, err
			}
		}
	}
	if c.Prices == "aws" {
		t.askAWS(c.region)
	}
	if t.REST, err = loader.ClientConfig(); err != nil {
		return nil, NoCluster(err)
	}
	t.Clock = ServerClock(t.REST)
	t.Options.Clock = t.Clock
	if t.Namespace, _, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	t.Namespace = cmp.Or(c.Namespace, t.Namespace)
	if s != nil {
		t.EKSName, t.Context = localcluster.EKSName, localcluster.ContextName(s.Name)
	} else if raw, err := loader.RawConfig(); err == nil {
		t.Context = cmp.Or(c.Context, raw.CurrentContext)
		t.EKSName = eksName(raw, c.Context)
	}
	if t.Of == "" {
		t.Of = t.REST.Host
	}
	return t, nil
}

// Contexts returns the contexts of a kubeconfig, of the usual one if the file is "", in order.
func Contexts(kubeconfig string) []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil // the cluster of "nodeless up" is found without any
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}

// ServerClock returns the clock of the API server, as its responses over this connection show it.
func ServerClock(cfg *rest.Config) *clock.Server {
	c := clock.NewServer(clock.Real{})
	cfg.Wrap(c.Wrap)
	return c
}

// Choose reads the named kubeconfig, or that of the named cluster of "nodeless up". If neither is named, it reads
// $KUBECONFIG, else that of "nodeless up" if it runs, else the usual kubeconfig. Of "nodeless up" it returns the
// session and the folder, too.
func Choose(kubeconfig string, at *localcluster.Selector, overrides *clientcmd.ConfigOverrides) (clientcmd.ClientConfig,
	*localcluster.Session, string, error,
) {
	if err := oneCluster(at.Set); err != nil {
		return nil, nil, "", err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if kubeconfig != "" || overrides.CurrentContext != "" {
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), nil, "", nil
	}
	dir, err := at.ResolveExisting()
	if err != nil {
		return nil, nil, "", err
	}
	own := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if own != "" && own != localcluster.ToolsKubeconfig(dir) && !at.Named() { // `nodeless env` sets it to ours
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), nil, "", nil
	}
	var running *localcluster.Session
	switch s, err := localcluster.LoadSession(dir); {
	case err == nil:
		running, rules.ExplicitPath = &s, s.Kubeconfig
	case !errors.Is(err, localcluster.ErrNotRunning):
		return nil, nil, "", err
	case at.Named():
		return nil, nil, "", errors.New(localcluster.NothingRuns(dir))
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), running, dir, nil
}

// oneCluster returns an error if the command line names two clusters: one of "nodeless up" and one of a kubeconfig.
func oneCluster(set *pflag.FlagSet) error {
	if set == nil {
		return nil
	}
	for _, ours := range program.LocalFlags {
		for _, other := range program.KubeconfigFlags {
			if program.OnCommandLine(set, ours) && program.OnCommandLine(set, other) {
				return fmt.Errorf("--%s names a cluster of \"nodeless up\", and --%s another one; leave out one of them", ours,
					other)
			}
		}
	}
	return nil
}

// NoCluster adds a remedy to the error of a kubeconfig that leads to no cluster.
func NoCluster(err error) error {
	if !clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("kubeconfig: %w; name one with --kubeconfig, and one of its contexts with --context", err)
	}
	here := localcluster.FromEnvironment()
	dir, err := here.Resolve()
	if err != nil {
		return err
	}
	return fmt.Errorf("no cluster: there is no kubeconfig, and %s; or name a kubeconfig with --kubeconfig",
		localcluster.NothingRuns(dir))
}

// PricesOfSession makes the simulated region the source of prices, as for its controller.
func (t *Cluster) PricesOfSession(s *localcluster.Session, dir string) {
	t.Options.Prices = "the simulated region " + s.Region
	t.Options.Catalog = func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		version string,
	) (capture.Catalog, error) {
		o := aws.Options{
			AWS:         simulated(s, dir),
			ClusterName: localcluster.EKSName, KubernetesVersion: version, Classes: classes,
		}
		text, err := os.ReadFile(localcluster.TypesFile(dir))
		switch {
		case err == nil:
			own, err := localcluster.ParseTypes(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", localcluster.TypesFile(dir), err)
			}
			o.TypeLabels = localcluster.TypeLabels(own)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		return aws.New(ctx, o)
	}
}

// askAWS makes AWS the source of prices.
func (t *Cluster) askAWS(region string) {
	t.Options.Prices = "AWS, asked now"
	t.Options.Catalog = func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		version string,
	) (capture.Catalog, error) {
		cfg, err := AWS(ctx, region)
		if err != nil {
			return nil, err
		}
		return aws.New(ctx, aws.Options{
			AWS: cfg, ClusterName: localcluster.EKSName, KubernetesVersion: version,
			Classes: classes,
		})
	}
}

// Authorities returns the CA certificates of a client configuration, which holds them inline or, as in a pod, names a
// file.
func Authorities(cfg *rest.Config) ([]byte, error) {
	if len(cfg.CAData) > 0 || cfg.CAFile == "" {
		return cfg.CAData, nil
	}
	pem, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificates of the API server: %w; give them with --cluster-ca-bundle", err)
	}
	return pem, nil
}

// AWSProvider returns a function that creates the AWS provider once the controller can read node classes.
func AWSProvider(o aws.Options) func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass,
	string) (cloud.Provider, error) {
	return func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		kubernetesVersion string,
	) (cloud.Provider, error) {
		o.Classes, o.KubernetesVersion = classes, kubernetesVersion
		return aws.New(ctx, o)
	}
}

// Connect reads a kubeconfig as kubectl does and limits the rate of requests to its cluster.
func Connect(kubeconfig, context string, qps, burst int) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, NoCluster(err)
	}
	cfg.QPS, cfg.Burst = float32(qps), burst
	return cfg, nil
}
