package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// clusterFlags say which cluster a command only looks at, and where prices come from.
type clusterFlags struct {
	kubeconfig, context, namespace, as string
	region, prices                     string
	place
	from string // a dump instead of a cluster
}

func (c *clusterFlags) add(f *pflag.FlagSet) {
	c.addTarget(f)
	f.StringVar(&c.region, "region", "", "AWS region of the built-in prices (default: where the cluster's zones are)")
	f.StringVar(&c.prices, "prices", "",
		"built-in: the catalogue in this program; aws: ask AWS with your credentials (default: the simulated region of \"nodeless up\", else built-in)")
}

// addTarget adds the flags of commands that need no prices.
func (c *clusterFlags) addTarget(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "",
		"kubeconfig file (default: the cluster of \"nodeless up\" if it runs, else $KUBECONFIG or ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig")
	f.StringVarP(&c.namespace, "namespace", "n", "", "namespace (default: the context's)")
	f.StringVar(&c.as, "as", "", "user to impersonate")
	c.place.add(f)
}

// addFrom adds --from.
func (c *clusterFlags) addFrom(f *pflag.FlagSet) {
	f.StringVar(&c.from, "from", "",
		"answer from a file instead of a cluster, - for stdin: what \"nodeless capture\" or \"kubectl get … -o yaml\" wrote")
}

// target is a cluster to look at.
type target struct {
	rest      *rest.Config
	namespace string
	options   capture.Options
	clock     *clock.Server // the cluster's; the machine's may be hours off
	of        string        // whose cluster it is, in words
}

// find looks for the cluster: the one that is named, else that of a running `nodeless up`, else that of the kubeconfig.
func (c *clusterFlags) find() (*target, error) {
	if c.prices != "" && c.prices != "aws" && c.prices != "built-in" {
		return nil, fmt.Errorf("--prices %q: use aws or built-in", c.prices)
	}
	t := &target{options: capture.Options{
		Region:        c.region,
		DefaultRegion: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
	}}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	overrides.AuthInfo.Impersonate = c.as
	loader, s, dir, err := chooseCluster(c.kubeconfig, &c.place, overrides)
	if err != nil {
		return nil, err
	}
	if s != nil {
		t.of = "the cluster of \"nodeless up\""
		if c.prices == "" {
			t.askSession(s, dir)
		}
	}
	if c.prices == "aws" {
		t.askAWS(c.region)
	}
	if t.rest, err = loader.ClientConfig(); err != nil {
		return nil, noCluster(err)
	}
	t.clock = serverClock(t.rest)
	t.options.Clock = t.clock
	if t.namespace, _, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	t.namespace = cmp.Or(c.namespace, t.namespace)
	if t.of == "" {
		t.of = t.rest.Host
	}
	return t, nil
}

// serverClock is the clock of the API server, as its answers over this connection tell.
func serverClock(cfg *rest.Config) *clock.Server {
	c := clock.NewServer(clock.Real{})
	cfg.Wrap(c.Wrap)
	return c
}

// eksName is what the simulated region calls its cluster: in tags, user data and EKS.
const eksName = "nodeless"

// chooseCluster reads the kubeconfig that is named, or that of the cluster of "nodeless up" that is. If neither is,
// it takes the latter if it runs, with its session and folder, else the usual kubeconfig.
func chooseCluster(kubeconfig string, at *place, overrides *clientcmd.ConfigOverrides) (clientcmd.ClientConfig,
	*session, string, error,
) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if kubeconfig != "" || overrides.CurrentContext != "" {
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), nil, "", nil
	}
	dir, err := at.resolveExisting()
	if err != nil {
		return nil, nil, "", err
	}
	own := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if own != "" && own != toolsKubeconfig(dir) && !at.given() { // that of `nodeless env` is ours
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), nil, "", nil
	}
	var running *session
	switch s, err := loadSession(dir); {
	case err == nil:
		running, rules.ExplicitPath = &s, s.Kubeconfig
	case !errors.Is(err, errNotRunning):
		return nil, nil, "", err
	case at.given():
		return nil, nil, "", errors.New(nothingRuns(dir))
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), running, dir, nil
}

// noCluster says what to do about a kubeconfig that leads nowhere.
func noCluster(err error) error {
	if !clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("kubeconfig: %w; name one with --kubeconfig, and one of its contexts with --context", err)
	}
	here := fromEnvironment()
	dir, err := here.resolve()
	if err != nil {
		return err
	}
	return fmt.Errorf("no cluster: there is no kubeconfig, and %s; or name a kubeconfig with --kubeconfig",
		nothingRuns(dir))
}

// askSession takes prices from the simulated region, as its controller does.
func (t *target) askSession(s *session, dir string) {
	t.options.Prices = "the simulated region " + s.Region
	t.options.Catalog = func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		version string,
	) (capture.Catalog, error) {
		o := aws.Options{
			AWS: awssdk.Config{
				Region: s.Region, BaseEndpoint: &s.RegionURL,
				Credentials: credentials.NewStaticCredentialsProvider("nodeless", "nodeless", ""),
			},
			ClusterName: eksName, KubernetesVersion: version, Classes: classes,
		}
		text, err := os.ReadFile(typesFile(dir))
		switch {
		case err == nil:
			own, err := parseTypes(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", typesFile(dir), err)
			}
			o.TypeLabels = typeLabels(own)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		return aws.New(ctx, o)
	}
}

// askAWS takes prices from AWS.
func (t *target) askAWS(region string) {
	t.options.Prices = "AWS, asked now"
	t.options.Catalog = func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		version string,
	) (capture.Catalog, error) {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, fmt.Errorf("AWS configuration: %w", err)
		}
		if region != "" {
			cfg.Region = region
		}
		if cfg.Region == "" {
			return nil, errors.New("no AWS region: give --region or set AWS_REGION")
		}
		return aws.New(ctx, aws.Options{AWS: cfg, ClusterName: eksName, KubernetesVersion: version, Classes: classes})
	}
}

// typesFile keeps the types of one's own that a cluster of `nodeless up` was made with.
func typesFile(dir string) string { return filepath.Join(dir, "region", "types.json") }
