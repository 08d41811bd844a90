//go:build !noplane

package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/agent"
	"github.com/nodeless/nodeless/microvm/host"
	"github.com/nodeless/nodeless/microvm/network"
	"github.com/nodeless/nodeless/microvm/network/overlay"
	"github.com/nodeless/nodeless/microvm/network/ruleset"
	"github.com/nodeless/nodeless/microvm/sandbox"
)

// hostNetwork connects the microVMs of a host with each other, with those of other hosts, and with Services. Without
// root there is no such network, and microVMs are in user mode.
type hostNetwork struct {
	net   *network.Net // nil = user mode
	peers *agent.Peers // set if net is
	key   network.Key  // set if net is; private
	log   *slog.Logger
}

// network adds a network for the host's microVMs to the options, if that is possible here.
func (o *hostOptions) network(ctx context.Context, id *agent.Identity, kubelets microvm.KubeletEndpoints,
	p *host.Options,
) (*hostNetwork, error) {
	h := &hostNetwork{log: p.Log}
	err := o.routed(ctx, h, id, kubelets, p)
	if err == nil {
		return h, nil
	}
	if errors.Is(err, errAskedInVain) { // pods of an earlier process may have a network, and would lose it
		return nil, err
	}
	p.Log.Warn("microVMs have user-mode networking: they can open outbound connections, but cannot reach Services and "+
		"other pods or resolve the cluster's DNS names; only port-forward and exec reach them", "why", err)
	h.net = nil
	p.Links, err = sandbox.NewUserMode(kubelets.Pods)
	return h, err
}

// routed creates the parts of the network; none of them runs before serve.
func (o *hostOptions) routed(ctx context.Context, h *hostNetwork, id *agent.Identity,
	kubelets microvm.KubeletEndpoints, p *host.Options,
) error {
	if os.Geteuid() != 0 {
		return errors.New("this process is not root")
	}
	if err := ruleset.Available(); err != nil {
		return err
	}
	services, err := o.serviceRange(ctx, p.Kube, id.Host)
	if err != nil {
		return err
	}
	server, err := hostPort(id.REST.Host)
	if err != nil {
		return err
	}
	if h.peers, err = agent.NewPeers(id.REST, id.Host); err != nil {
		return err
	}
	b, err := host.BridgeAt(p.Dir, kubelets.Pods)
	if err != nil {
		return err
	}
	if h.key, err = overlay.LoadKey(p.Dir); err != nil {
		return err
	}
	h.net = network.New(network.Options{
		Dir: p.Dir, Kube: p.Kube, Bridge: b, Services: services, APIServer: server, Log: p.Log, Joined: true,
		Peers: h.peers, At: netip.AddrPortFrom(kubelets.Host, uint16(o.overlayPort)), Key: h.key, Reached: o.reached,
	})
	p.Links, p.Resolve, p.Services, p.Dial = b, h.net.Resolve, h.net.Variables, h.net.DialContext
	return nil
}

// overlay returns the port at which this host accepts packets from other hosts (0: none), and the public key for
// encrypting them.
func (h *hostNetwork) overlay(o *hostOptions) (port uint16, key string) {
	if h.net == nil {
		return 0, ""
	}
	return uint16(o.overlayPort), h.key.PublicKey().String()
}

// parts returns what to run for the network until ctx is done. If the network fails, microVMs go on without Services.
// If peers fails, so does the host: the network would wait in vain to learn where other hosts are.
func (h *hostNetwork) parts(ctx context.Context) []func() error {
	if h.net == nil {
		return nil
	}
	return []func() error{
		func() error {
			if err := h.net.Run(ctx); err != nil && ctx.Err() == nil {
				h.log.Warn("the network of microVMs failed: they reach each other and this machine, but no Services, DNS names or "+
					"outside addresses", "error", err)
			}
			<-ctx.Done()
			return nil
		},
		func() error { return h.peers.Run(ctx) },
	}
}

// errAskedInVain means that the API server gave no answer on which this machine could rely for as long as it is a
// host.
var errAskedInVain = errors.New("the API server does not say what the network of microVMs needs; start the host again")

// serviceRange returns the addresses of the cluster's Services. It lists Services first, which shows whether the host
// has the rights it needs.
func (o *hostOptions) serviceRange(ctx context.Context, kube kubernetes.Interface, name string) (netip.Prefix, error) {
	more := fmt.Sprintf("the host lacks permissions that hosts now need: grant them with \"nodeless host token %s\", and "+
		"start the host again", name)
	if _, err := kube.CoreV1().Services(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{Limit: 1}); apierrors.IsForbidden(err) {
		return netip.Prefix{}, fmt.Errorf("%s: %w", more, err)
	} else if err != nil {
		return netip.Prefix{}, fmt.Errorf("%w: list Services: %w", errAskedInVain, err)
	}
	if o.services.IsValid() {
		return o.services, nil
	}
	const byDefault = "kubernetes"
	ranges, err := kube.NetworkingV1().ServiceCIDRs().Get(ctx, byDefault, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return netip.Prefix{}, fmt.Errorf("%w: get ServiceCIDR %s: %w", errAskedInVain, byDefault, err)
	}
	if err != nil {
		return netip.Prefix{}, fmt.Errorf(
			"the addresses of the cluster's Services are not known; say them with --service-cidr: %w", err)
	}
	for _, text := range ranges.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() {
			return p.Masked(), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf(
		"the cluster's Services have no IPv4 range, only %v: microVMs reach Services over IPv4 only", ranges.Spec.CIDRs)
}

// hostPort returns the host and port in the URL of an API server.
func hostPort(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("address of the API server: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// prefix4 parses a flag that is an IPv4 network.
func prefix4(flag, text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() {
		return p, fmt.Errorf("%s %q: give an IPv4 network such as 10.96.0.0/16", flag, text)
	}
	return p.Masked(), nil
}
