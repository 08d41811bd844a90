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

// hostNetwork connects the microVMs of a host with each other, other hosts' and Services. Without root there is none:
// they are in user mode.
type hostNetwork struct {
	net   *network.Net // nil: user mode
	peers *agent.Peers // with net
	key   network.Key  // with net; private
	log   *slog.Logger
}

// network gives the host's microVMs a network in the options, if that is possible here.
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
	p.Log.Warn("microVMs are in user mode: they reach out, and are reached by port-forward and exec alone; no "+
		"Services, names of the cluster or other pods", "why", err)
	h.net = nil
	p.Links, err = sandbox.NewUserMode(kubelets.Pods)
	return h, err
}

// routed makes the network's parts; nothing of it runs before run.
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

// overlay says where this host takes packets from others (port 0: nowhere) and by which public key they encrypt them.
func (h *hostNetwork) overlay(o *hostOptions) (port uint16, key string) {
	if h.net == nil {
		return 0, ""
	}
	return uint16(o.overlayPort), h.key.PublicKey().String()
}

// parts are what is to run for the network. They end when ctx is done: without Services microVMs go on nevertheless.
// Where it is not known where other hosts are, the network would be waited for in vain.
func (h *hostNetwork) parts(ctx context.Context) []func() error {
	if h.net == nil {
		return nil
	}
	return []func() error{
		func() error {
			if err := h.net.Run(ctx); err != nil && ctx.Err() == nil {
				h.log.Warn("microVMs reach each other and this machine, and no Services, names or anything outside", "error", err)
			}
			<-ctx.Done()
			return nil
		},
		func() error { return h.peers.Run(ctx) },
	}
}

// errAskedInVain: the API server gave no answer that this machine could go by for as long as it is a host.
var errAskedInVain = errors.New("the API server does not say what the network of microVMs needs; start the host again")

// serviceRange are the addresses of the cluster's Services. That the host may ask for them shows that it may see what
// it needs.
func (o *hostOptions) serviceRange(ctx context.Context, kube kubernetes.Interface, name string) (netip.Prefix, error) {
	more := fmt.Sprintf("the host lacks rights that hosts have by now: give them with \"nodeless host token %s\", and "+
		"start it again", name)
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
		"the cluster's Services have no IPv4 addresses, but %v: microVMs reach no others", ranges.Spec.CIDRs)
}

// hostPort is the address in a URL of an API server.
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

// prefix4 reads a flag that is an IPv4 network.
func prefix4(flag, text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() {
		return p, fmt.Errorf("%s %q: give an IPv4 network such as 10.96.0.0/16", flag, text)
	}
	return p.Masked(), nil
}
