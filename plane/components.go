package plane

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/configz"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	cmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	cmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"github.com/nodeless/nodeless/internal/kit/kubeversion"
	"github.com/nodeless/nodeless/plane/extension"
)

// The components run through their Run functions, not their commands: commands install signal handlers (a second
// component that does so panics) and a logging configuration that can be set only once.

// Version returns the Kubernetes version, such as "v1.36.2".
func (p *Plane) Version() string { return Version() }

// Version returns the Kubernetes version that this package runs.
func Version() string { return kubeversion.Version }

// parse applies flags to a component's options.
func parse(name string, sets cliflag.NamedFlagSets, flags []string) error {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, s := range sets.FlagSets {
		fs.AddFlagSet(s)
	}
	if err := fs.Parse(flags); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Issuer is the issuer of service accounts' tokens.
const Issuer = "https://kubernetes.default.svc.cluster.local"

func (p *Plane) apiserverFlags() []string {
	k := p.pki
	return []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",   // else it looks for a default route, which an offline laptop lacks
		"--endpoint-reconciler-type=none", // endpoints must not be loopback addresses
		"--etcd-servers=" + p.etcd.endpoint(),
		"--service-cluster-ip-range=" + p.state.ServiceCIDR,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", // as in kubeadm and EKS
		"--allow-privileged=true",
		"--client-ca-file=" + k.ca.certFile,
		"--tls-cert-file=" + k.serving.certFile, "--tls-private-key-file=" + k.serving.keyFile,
		"--kubelet-client-certificate=" + k.kubelet.certFile, "--kubelet-client-key=" + k.kubelet.keyFile,
		"--kubelet-preferred-address-types=InternalDNS,InternalIP",
		"--kubelet-certificate-authority=" + k.ca.certFile, // else it would trust any server at a node's address
		"--service-account-issuer=" + Issuer,
		// The default is the advertised address, which is on loopback.
		"--service-account-jwks-uri=" + Issuer + "/openid/v1/jwks",
		"--service-account-key-file=" + k.serviceAccountPub,
		"--service-account-signing-key-file=" + k.serviceAccountKey,
		"--requestheader-client-ca-file=" + k.frontCA.certFile,
		"--requestheader-allowed-names=" + k.front.cert.Subject.CommonName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + k.front.certFile, "--proxy-client-key-file=" + k.front.keyFile,
		"--shutdown-send-retry-after=true", // limits the wait for open watches to 2 s instead of a minute
		"--profiling=false",
	}
}

// startAPIServer runs kube-apiserver and waits until it is ready.
func (p *Plane) startAPIServer(ctx context.Context) error {
	s := apioptions.NewServerRunOptions()
	extension.AddHandover(s.Admission.GenericAdmission)
	audit, err := p.auditFlags()
	if err != nil {
		return err
	}
	if err := parse(apiserver, s.Flags(), append(p.apiserverFlags(), audit...)); err != nil {
		return err
	}
	s.SecureServing.Listener = p.listener
	s.SecureServing.BindPort = p.state.Port
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("%s: feature gates: %w", apiserver, err)
	}
	p.run(apiserver, func(ctx context.Context) error {
		completed, err := s.Complete(ctx)
		if err != nil {
			return err
		}
		if errs := completed.Validate(); len(errs) != 0 {
			return utilerrors.NewAggregate(errs)
		}
		return p.serveAPI(ctx, completed)
	})
	return p.awaitAPIServer(ctx)
}

// startClients runs the controllers and the scheduler concurrently and waits until both are ready.
func (p *Plane) startClients(ctx context.Context) error {
	if err := p.startControllerManager(); err != nil {
		return err
	}
	synced, err := p.startScheduler()
	if err != nil {
		return err
	}
	if err := p.awaitClients(ctx, synced); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.failed:
		return p.err
	default:
		p.components[clientsReady] = &component{}
		return nil
	}
}

func (p *Plane) clientFlags(name string) []string {
	return []string{
		"--kubeconfig=" + p.componentKubeconfig(name),
		"--leader-elect=false",
		"--secure-port=0", // the API server's /metrics has its metrics: one process, one registry
		"--profiling=false",
		fmt.Sprintf("--kube-api-qps=%d", p.o.ClientQPS),
		fmt.Sprintf("--kube-api-burst=%d", 2*p.o.ClientQPS),
	}
}

func (p *Plane) startControllerManager() error {
	s, err := cmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("%s: %w", controllerManager, err)
	}
	sets := s.Flags(cmapp.KnownControllers(), cmapp.ControllersDisabledByDefault(), cmapp.ControllerAliases())
	s.ParsedFlags = &sets
	flags := append(p.clientFlags(controllerManager),
		"--allocate-node-cidrs=false", // a /24 for each node would run out at 256 nodes
		"--service-account-private-key-file="+p.pki.serviceAccountKey,
		"--root-ca-file="+p.pki.ca.certFile,
		"--cluster-signing-cert-file="+p.pki.ca.certFile, "--cluster-signing-key-file="+p.pki.ca.keyFile,
		"--controller-shutdown-timeout=1s",
	)
	if err := parse(controllerManager, sets, flags); err != nil {
		return err
	}
	p.run(controllerManager, func(ctx context.Context) error {
		c, err := s.Config(ctx, cmapp.KnownControllers(), cmapp.ControllersDisabledByDefault(), cmapp.ControllerAliases())
		if err != nil {
			return err
		}
		configz.Delete(cmapp.ConfigzName) // left by an earlier control plane in this process
		return cmapp.Run(ctx, c.Complete())
	})
	return nil
}
