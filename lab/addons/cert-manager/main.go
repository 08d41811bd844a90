// Program cert-manager runs one of the three components of cert-manager: webhook, cainjector or controller. It uses
// cert-manager's own packages, unmodified. Only the commands that start them are ours: upstream's are in modules
// without versions. The module's path is below cert-manager's, like the paths of upstream's commands, since it
// imports internal packages. The controller omits the issuers that need other services to sign: ACME, Vault and
// Venafi.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/api"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/healthz"
	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"

	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	ctrl.SetLogger(klog.Background())
	parts := map[string]func(context.Context, *pflag.FlagSet, []string) error{
		"webhook": runWebhook, "cainjector": runCAInjector, "controller": runController,
	}
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cert-manager webhook|cainjector|controller [flags]")
		os.Exit(2)
	}
	flags := pflag.NewFlagSet(os.Args[1], pflag.ExitOnError)
	// The chart sets flags that do not exist here, such as those of leader election, which a single replica does not
	// need.
	flags.ParseErrorsAllowlist.UnknownFlags = true
	if err := parts[os.Args[1]](ctrl.SetupSignalHandler(), flags, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
		os.Exit(1)
	}
}

// runWebhook serves the admission webhooks.
func runWebhook(ctx context.Context, flags *pflag.FlagSet, args []string) error {
	c, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	options.AddConfigFlags(flags, c)
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := webhook.NewCertManagerWebhookServer(klog.Background(), *c)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// runCAInjector injects the CA of the webhook into the configurations that refer to it.
func runCAInjector(ctx context.Context, _ *pflag.FlagSet, _ []string) error {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, api.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		if err := add(types); err != nil {
			return err
		}
	}
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	cluster = util.RestConfigWithUserAgent(cluster, "cainjector") // the field manager of what it writes
	m, err := ctrl.NewManager(cluster, ctrl.Options{Scheme: types, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := cainjector.RegisterAllInjectors(ctx, m, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.APIServiceName: true, cainjector.CustomResourceDefinitionName: true,
		},
	}); err != nil {
		return err
	}
	return m.Start(ctx)
}

// runController runs the controllers of Certificates, and the issuers that need no service other than the API server
// to sign.
func runController(ctx context.Context, flags *pflag.FlagSet, args []string) error {
	o := controller.ContextOptions{
		KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	}
	flags.StringVar(&o.ClusterResourceNamespace, "cluster-resource-namespace", "", "where ClusterIssuers' Secrets are")
	if err := flags.Parse(args); err != nil {
		return err
	}
	factory, err := controller.NewContextFactory(ctx, o)
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	health, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":9403")
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return healthz.NewServer(time.Minute).Start(ctx, health) })
	for name, construct := range controller.Known() {
		one, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all.Go(func() error { return one.Run(workers, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return all.Wait()
}

// workers is the number of objects that a controller processes concurrently.
const workers = 5
