//go:build !noplane

package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/agent"
	"github.com/nodeless/nodeless/microvm/host"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/logs"
	"github.com/nodeless/nodeless/microvm/metricsapi"
	"github.com/nodeless/nodeless/microvm/network"
	"github.com/nodeless/nodeless/microvm/network/overlay"
	"github.com/nodeless/nodeless/plane/extension"
)

// startMicroVMs makes this machine a host of microVMs. What it can run is determined when the first FargateProfile
// needs it.
func (l *local) startMicroVMs(run, start context.Context) error {
	// A killed process has left its registration, which would stay until there is a profile again.
	err := podMetrics(nil).Unregister(start, l.restConfig("nodeless-setup"))
	if err != nil || !l.o.controller || !l.o.fargate || !l.o.microVMs {
		return err
	}
	cfg := l.restConfig("nodeless-microvms")
	wanted, err := host.UntilProfiles(cfg)
	if err != nil {
		return err
	}
	o, stopEvents, err := l.microVMOptions(run)
	if err != nil {
		return err
	}
	l.stops = append(l.stops, stopEvents)
	o.Wanted = wanted
	routed, err := l.connectMicroVMs(&o)
	if err != nil {
		return err
	}
	if l.microVMs, err = host.New(o); err != nil {
		return err
	}
	l.stops = append(l.stops, l.leaveMicroVMs)
	l.hosts = []microvm.Host{l.microVMs}
	if routed == nil {
		l.dialPod = func(_ context.Context, _, address string) (net.Conn, error) {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return nil, err
			}
			return l.microVMs.Kubelet().DialPod(run, at)
		}
	}
	if routed != nil {
		if err := l.serveNetwork(run, routed, o); err != nil {
			return err
		}
	}
	l.spawn(run, "microVM host", l.microVMs.Run)
	l.spawn(run, "metrics of microVMs", func(ctx context.Context) error {
		if err := wanted(ctx); err != nil {
			return err
		}
		if err := podMetrics(l.microVMs.Kubelet()).Run(ctx, l.plane.Kubeconfig()); err != nil {
			l.log.Warn("there is no kubectl top", "error", err)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	return nil
}

// podMetrics returns the API that kubectl top reads.
func podMetrics(s metricsapi.Source) extension.API {
	return extension.API{
		GroupVersion: metrics.SchemeGroupVersion, Service: "nodeless-metrics", Resources: metricsapi.Resources,
		Handler: metricsapi.Handler(s),
	}
}

// microVMOptions returns the host's options: this machine is in the region's first zone.
func (l *local) microVMOptions(run context.Context) (host.Options, func(), error) {
	cfg := l.restConfig("nodeless-microvms")
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return host.Options{}, nil, fmt.Errorf("microVM host: %w", err)
	}
	mirrors, err := image.ParseMirrors(l.o.mirrors)
	if err != nil {
		return host.Options{}, nil, err
	}
	broadcaster := events.Broadcast(run, kube)
	engine, err := host.Engine(l.o.engine)
	if err != nil {
		return host.Options{}, nil, err
	}
	keys, err := localcluster.LoadAWSKeys(l.o.DataDir)
	if err != nil {
		return host.Options{}, nil, err
	}
	name := hostLabel()
	dir := localcluster.MicroVMDir(l.o.DataDir)
	return host.Options{
		Dir: dir, Name: name, Region: l.o.region, Zone: l.firstZone(), Billed: true, Kube: kube,
		ClientCA: l.plane.CABundle(), Log: l.log,
		Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: name}),
		Engine:   engine, Kernel: l.o.guestKernel,
		AWS: &logs.AWS{
			Endpoint: l.regionURL, Region: l.o.region, Credentials: keys,
		},
		Images: image.Options{Sources: []string{localcluster.ImageDir(l.o.DataDir)}, Mirrors: mirrors},
	}, broadcaster.Shutdown, nil
}

// kubeletPort is the first port of the microVMs' kubelets, of which there are as many as the bridge has addresses.
// All these ports are below those that Linux uses for outgoing connections.
const kubeletPort = 20000

// microVMNetwork connects microVMs with each other, with those of hosts that have joined, and with Services.
type microVMNetwork struct {
	net   *network.Net
	peers *agent.Peers
	at    netip.AddrPort // where hosts send packets for pods of this machine; a loopback address is for hosts on it
	pods  netip.Prefix
	key   network.Key // private
}

// connectMicroVMs gives microVMs a network of their own, which serveNetwork creates, if this process is root.
// Otherwise they are in user mode.
func (l *local) connectMicroVMs(o *host.Options) (*microVMNetwork, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	b, err := host.Bridge(o.Dir)
	if err != nil {
		l.log.Warn("microVMs have user-mode networking: they can open outbound connections, and only port-forward reaches "+
			"them", "error", err)
		return nil, nil
	}
	services, err := netip.ParsePrefix(l.plane.ServiceCIDR())
	if err != nil {
		return nil, fmt.Errorf("range of Services: %w", err)
	}
	at, err := netip.ParseAddr(l.o.hostAddress)
	if err != nil {
		return nil, err
	}
	routed := &microVMNetwork{at: netip.AddrPortFrom(at, overlay.Port), pods: b.Prefix()}
	if routed.peers, err = agent.NewPeers(l.restConfig("nodeless-microvms"), o.Name); err != nil {
		return nil, err
	}
	if routed.key, err = overlay.LoadKey(o.Dir); err != nil {
		return nil, err
	}
	server := strings.TrimPrefix(l.plane.APIServerURL(), "https://")
	n := network.New(network.Options{
		Dir: o.Dir, Kube: o.Kube, Bridge: b, Services: services, APIServer: server, Log: l.log,
		Peers: routed.peers, At: routed.at, Key: routed.key,
		Wanted: func(ctx context.Context) error { // without microVMs, this machine keeps its firewall and its forwarding
			if l.microVMs.Any() {
				return nil
			}
			return o.Wanted(ctx)
		},
	})
	o.Links, o.Resolve, o.Services, o.Dial = b, n.Resolve, n.Variables, n.DialContext
	// At their gateway, pods such as metrics-server reach the kubelets, too.
	o.Kubelets = &microvm.KubeletEndpoints{Host: b.Address(), FirstPort: kubeletPort, Pods: b.Prefix()}
	routed.net = n
	return routed, nil
}

// serveNetwork serves the network and announces this host to others, as soon as there may be microVMs.
func (l *local) serveNetwork(run context.Context, n *microVMNetwork, o host.Options) error {
	own, err := agent.NewOwn(run, agent.Options{
		REST: l.restConfig("nodeless-microvms"), Name: o.Name, Host: l.microVMs,
		Kubelets:    microvm.KubeletEndpoints{Host: n.at.Addr(), Pods: n.pods},
		OverlayPort: n.at.Port(), OverlayKey: n.key.PublicKey().String(), Log: l.log,
	})
	if err != nil {
		return err
	}
	l.hosts = []microvm.Host{own}
	l.spawn(run, "network of microVMs", func(ctx context.Context) error {
		if err := n.net.Run(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("the network of microVMs failed: they reach each other and this machine, but no Services, DNS names or "+
				"outside addresses", "error", err)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	for what, part := range map[string]func(context.Context) error{
		"other microVM hosts": n.peers.Run, "report of the microVM host": own.Run,
	} {
		l.spawn(run, what, func(ctx context.Context) error {
			if err := o.Wanted(ctx); err != nil {
				return err
			}
			if err := part(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
	}
	return nil
}

func (l *local) firstZone() string {
	zones := catalog.Of(l.o.region).Zones()
	if own, err := l.o.offers(); err == nil && own != nil {
		zones = own.Zones()
	}
	if len(zones) == 0 {
		return ""
	}
	return zones[0].Name
}

var notInLabels = regexp.MustCompile(`[^a-z0-9-]+`)

// hostLabel returns this machine's name as a microVM host, shortened so that the name of its namespace is a DNS
// label.
func hostLabel() string {
	name, _ := os.Hostname()
	name = strings.Trim(notInLabels.ReplaceAllString(strings.ToLower(name), "-"), "-")
	name = strings.Trim(name[:min(len(name), validation.DNS1123LabelMaxLength-len(v1alpha1.HostNamespace("")))], "-")
	if name == "" {
		return "localhost"
	}
	return name
}

// leaveMicroVMs releases the microVMs, which keep running, as a region's instances do. If there are none, it cleans
// up.
func (l *local) leaveMicroVMs() {
	n := l.microVMs.Running()
	if n > 0 {
		l.p.Line("%d microVMs keep running. The next \"%s\" adopts them, \"%s\" ends them.", n,
			localcluster.CommandFor("up", l.o.DataDir, l.o.cluster), localcluster.CommandFor("down", l.o.DataDir, l.o.cluster))
	}
	if err := l.microVMs.Close(); err != nil {
		l.log.Error("microVM host did not stop cleanly", "error", err)
		return
	}
	if n == 0 {
		if _, err := endMicroVMs(context.Background(), l.o.DataDir); err != nil {
			l.log.Error("traces of microVMs were left", "error", err)
		}
	}
}

// endMicroVMs ends the microVMs that the process of a data directory has left running, and removes their network.
// Pods have their grace period, but no longer than until ctx is done.
func endMicroVMs(ctx context.Context, dataDir string) (int, error) {
	n, err := host.Sweep(ctx, localcluster.MicroVMDir(dataDir))
	return n, errors.Join(err, network.CleanUp(localcluster.MicroVMDir(dataDir)))
}
