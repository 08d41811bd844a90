//go:build !noplane

package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/microvm/agent"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/host"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/network/overlay"
)

// hostOptions are the options of `nodeless host`.
type hostOptions struct {
	dataDir           string
	join              string
	server, token, ca string
	address           string
	kubeletPort       int
	overlayPort       int
	serviceCIDR       string
	reachable         []string
	region, zone      string
	cpus, memory      string
	guestKernel       string
	engine            string
	mirrors           []string

	stateDir string
	room     fargate.Size // zero = the machine's
	services netip.Prefix
	reached  []netip.Prefix
}

func newHost() *cobra.Command {
	var o hostOptions
	c := &cobra.Command{
		Use:   "host",
		Short: "Make this machine a host of microVMs for a cluster's FargateProfiles",
		Example: `  # Where the cluster is administered
  nodeless host token NAME > join.kubeconfig

  # On the machine that is to be a host
  nodeless host --join join.kubeconfig`,
		Long: `Joins a cluster whose controller is "nodeless run" with --fargate-webhook, and
runs pods of FargateProfiles in microVMs on this machine. A cluster
administrator makes the file with which the machine joins, once.

The machine keeps its identity in the data directory: from then on
"nodeless host" alone is enough. When it ends, microVMs keep running; they are
adopted when it is started again, or ended by "nodeless host end".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.settle(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.dataDir, "data-dir", "", localcluster.DataDirUsage)
	f.StringVar(&o.join, "join", "", `file made by "nodeless host token"`)
	f.StringVar(&o.server, "server", "", "URL of the API server, instead of --join; needs --token-file and --ca-file")
	f.StringVar(&o.token, "token-file", "", "file with the token")
	f.StringVar(&o.ca, "ca-file", "", "PEM file with the API server's certificate authorities")
	f.StringVar(&o.address, "address", "",
		"address at which API servers reach this machine (default: the one from which it reaches them)")
	f.IntVar(&o.kubeletPort, "kubelet-port", 20000,
		"first port for the microVMs' kubelet APIs, one for each address of the host's pods")
	f.IntVar(&o.overlayPort, "overlay-port", overlay.Port,
		"UDP port for packets from other hosts to microVMs (WireGuard)")
	f.StringVar(&o.serviceCIDR, "service-cidr", "",
		"addresses of the cluster's Services, such as 10.96.0.0/16 (default: what the cluster says)")
	f.StringArrayVar(&o.reachable, "reachable-pods", nil,
		"addresses of pods on other nodes that this machine can reach, such as 10.244.0.0/16, so that "+
			"Services may lead there; may be repeated")
	f.StringVar(&o.region, "region", "", "region of this machine")
	f.StringVar(&o.zone, "zone", "", "zone of this machine")
	f.StringVar(&o.cpus, "cpus", "", "CPUs for all microVMs together, such as 4 (default: this machine's)")
	f.StringVar(&o.memory, "memory", "",
		"memory for all microVMs together, such as 8Gi (default: three quarters of this machine's)")
	f.StringVar(&o.guestKernel, "guest-kernel", "",
		"directory with the microVMs' kernel, as scripts/guest-kernel makes it (default: nodeless/kernel in "+
			"your cache directory, /var/cache or the system's own)")
	f.StringVar(&o.engine, "engine", "auto", localcluster.EngineUsage)
	f.StringArrayVar(&o.mirrors, "registry-mirror", nil,
		"REGISTRY=URL of a mirror that is tried before the registry itself; may be repeated")
	c.AddCommand(newHostToken(), newHostEnd())
	return c
}

// settleCapacity parses how much all pods together may use.
func (o *hostOptions) settleCapacity() error {
	for _, q := range []struct {
		flag, text string
		to         *int64
		milli      bool
	}{{"--cpus", o.cpus, &o.room.MilliCPU, true}, {"--memory", o.memory, &o.room.MemoryBytes, false}} {
		if q.text == "" {
			continue
		}
		amount, err := resource.ParseQuantity(q.text)
		if err != nil || amount.Sign() <= 0 {
			return fmt.Errorf("%s %q: give an amount as Kubernetes writes it, more than none", q.flag, q.text)
		}
		if *q.to = amount.Value(); q.milli {
			*q.to = amount.MilliValue()
		}
	}
	return nil
}

// settle parses the flags.
func (o *hostOptions) settle() (err error) {
	if o.dataDir, err = (&localcluster.Selector{DataDir: o.dataDir}).Resolve(); err != nil {
		return err
	}
	o.stateDir = hostDir(o.dataDir)
	separate := []string{o.server, o.token, o.ca}
	given := 0
	for _, flag := range separate {
		if flag != "" {
			given++
		}
	}
	if given > 0 && (given < len(separate) || o.join != "") {
		return errors.New("give --join, or --server, --token-file and --ca-file together")
	}
	if o.kubeletPort < 1024 || o.kubeletPort > 61000 {
		return fmt.Errorf("--kubelet-port %d: give one from 1024 to 61000; the next 4095 are used too", o.kubeletPort)
	}
	if o.overlayPort < 1 || o.overlayPort > 65535 {
		return fmt.Errorf("--overlay-port %d: give one from 1 to 65535", o.overlayPort)
	}
	if o.serviceCIDR != "" {
		if o.services, err = prefix4("--service-cidr", o.serviceCIDR); err != nil {
			return err
		}
	}
	for _, text := range o.reachable {
		p, err := prefix4("--reachable-pods", text)
		if err != nil {
			return err
		}
		o.reached = append(o.reached, p)
	}
	if err := o.settleCapacity(); err != nil {
		return err
	}
	if _, err := host.Engine(o.engine); err != nil {
		return fmt.Errorf("--engine: %w", err)
	}
	if _, err := image.ParseMirrors(o.mirrors); err != nil {
		return fmt.Errorf("--registry-mirror: %w", err)
	}
	return nil
}

// hostDir returns the directory, below the data directory, of this machine's state as a host.
func hostDir(dataDir string) string { return filepath.Join(dataDir, "host") }

// joinConfig returns how to reach the cluster for the first time; nil if no flag says.
func (o *hostOptions) joinConfig() (*rest.Config, error) {
	if o.join != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", o.join)
		if err != nil {
			return nil, fmt.Errorf("--join: %w", err)
		}
		return cfg, nil
	}
	if o.server == "" {
		return nil, nil
	}
	if u, err := url.Parse(o.server); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--server %q: give a URL such as https://192.0.2.1:6443", o.server)
	}
	token, err1 := os.ReadFile(o.token)
	ca, err2 := os.ReadFile(o.ca)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: o.server, BearerToken: strings.TrimSpace(string(token)),
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}, nil
}

// supersedes reports whether the flags are for joining anew: another cluster, as another host, or with a token that was
// made after this host's own. The file that a host has joined with is older than its identity.
func supersedes(join *rest.Config, id *agent.Identity, now time.Time) bool {
	if join == nil {
		return false
	}
	given, err := agent.ParseToken(join.BearerToken, now)
	if err != nil || join.Host != id.REST.Host || given.Host != id.Host {
		return true // Join reports what is wrong with it
	}
	own, err := agent.ParseToken(id.REST.BearerToken, now)
	return err != nil || !given.IsExpired && given.Issued.After(own.Issued)
}

// identity loads this host's identity, or gets one by joining.
func (o *hostOptions) identity(ctx context.Context) (*agent.Identity, error) {
	id, err := agent.LoadIdentity(o.stateDir, time.Now())
	if err != nil {
		return nil, err
	}
	join, err := o.joinConfig()
	switch {
	case id != nil && (errors.Is(err, os.ErrNotExist) || err == nil && !supersedes(join, id, time.Now())):
		return id, nil
	case err != nil:
		return nil, err
	case join == nil:
		return nil, fmt.Errorf("this machine is no host yet, or was off for longer than its token is good: have " +
			"\"nodeless host token NAME\" make a file where the cluster is administered, and give it with --join")
	}
	claims, _ := agent.ParseToken(join.BearerToken, time.Now()) // Join reports what is wrong with it
	id, err = agent.Join(ctx, join, o.stateDir, time.Now())
	if err != nil {
		return nil, fmt.Errorf("join: %w", agent.Explain(err, join.Host, claims.Host, time.Now()))
	}
	return id, nil
}

func (o *hostOptions) run(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	program.LogTo(log)
	id, err := o.identity(ctx)
	if err != nil {
		return err
	}
	id.REST.UserAgent, id.REST.QPS, id.REST.Burst = "nodeless-host", 100, 200
	explain := func(err error) error { return agent.Explain(err, id.REST.Host, id.Host, time.Now()) }
	record, err := agent.GetHost(ctx, id.REST, id.Host)
	if err != nil {
		return explain(err)
	}
	kubelets, err := o.kubelets(id.REST.Host, record.Spec.PodCIDR)
	if err != nil {
		return err
	}
	options, stopEvents, err := o.podHost(ctx, id, kubelets, log)
	if err != nil {
		return explain(err)
	}
	defer stopEvents()
	network, err := o.network(ctx, id, kubelets, &options)
	if err != nil {
		return explain(err)
	}
	vms, err := host.New(options)
	if err != nil {
		return err
	}
	port, key := network.overlay(o)
	agent, err := agent.New(agent.Options{
		REST: id.REST, Name: id.Host, Host: vms, Kubelets: kubelets, OverlayPort: port, OverlayKey: key, Log: log,
	})
	if err != nil {
		return errors.Join(err, vms.Close())
	}
	log.Info("this machine is a host of microVMs", "host", id.Host, "cluster", id.REST.Host, "pods", kubelets.Pods,
		"kubelets", kubelets.Host)
	err = explain(o.serve(ctx, id, vms, agent, network, log))
	n := vms.Running()
	if n > 0 {
		log.Info("microVMs keep running; \"nodeless host\" adopts them, \"nodeless host end\" ends them", "microVMs", n)
	}
	if err = errors.Join(err, vms.Close()); n == 0 {
		_, failed := endHostMicroVMs(context.WithoutCancel(ctx), o.stateDir)
		err = errors.Join(err, failed)
	}
	return err
}
