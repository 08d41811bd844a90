package agent

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm/network"
	"github.com/nodeless/nodeless/microvm/network/overlay"
)

// Peers are the other hosts of a cluster whose microVMs can be reached. It implements network.Peers.
type Peers struct {
	self    string
	cache   cache.Cache
	changed signal.Signal
}

// NewPeers returns the peers of a host. Run discovers them.
func NewPeers(cfg *rest.Config, host string) (*Peers, error) {
	c, err := cache.New(cfg, cache.Options{Scheme: kinds(), DefaultTransform: cache.TransformStripManagedFields()})
	return &Peers{self: host, cache: c, changed: signal.New()}, err
}

// Run watches MicroVMHosts until ctx is done.
func (p *Peers) Run(ctx context.Context) error {
	err := informer.Watch(ctx, p.cache, &v1alpha1.MicroVMHost{}, p.see)
	if err == nil {
		err = p.cache.Start(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("other hosts: %w", err)
	}
	return nil
}

// Synced implements network.Peers.
func (p *Peers) Synced(ctx context.Context) bool {
	_, err := p.cache.GetInformer(ctx, &v1alpha1.MicroVMHost{})
	return err == nil && p.cache.WaitForCacheSync(ctx)
}

// List implements network.Peers. It never blocks.
func (p *Peers) List() []network.Peer {
	var hosts v1alpha1.MicroVMHostList
	ctx := context.Background() // List reads memory only
	known, err := p.cache.GetInformer(ctx, &v1alpha1.MicroVMHost{}, cache.BlockUntilSynced(false))
	if err != nil || !known.HasSynced() || p.cache.List(ctx, &hosts) != nil {
		return nil
	}
	var all []network.Peer
	for i := range hosts.Items {
		if peer := peerOf(&hosts.Items[i]); hosts.Items[i].Name != p.self && peer.At.IsValid() {
			all = append(all, peer)
		}
	}
	return all
}

// Changed implements network.Peers.
func (p *Peers) Changed() <-chan struct{} { return p.changed }

// see signals changes of peers. It ignores heartbeats.
func (p *Peers) see(old, now client.Object) {
	was, _ := old.(*v1alpha1.MicroVMHost)
	is, _ := now.(*v1alpha1.MicroVMHost)
	if peerOf(was) != peerOf(is) {
		p.changed.Set()
	}
}

// peerOf returns a host as a peer, or the zero value if host is nil or its microVMs cannot be reached.
func peerOf(host *v1alpha1.MicroVMHost) network.Peer {
	if host == nil || host.Namespace != v1alpha1.HostNamespace(host.Name) {
		return network.Peer{} // a MicroVMHost in another namespace represents no host
	}
	pods, err1 := netip.ParsePrefix(host.Spec.PodCIDR)
	address, err2 := netip.ParseAddr(host.Status.Address)
	key, err3 := overlay.ParseKey(host.Status.OverlayPublicKey)
	if err1 != nil || err2 != nil || err3 != nil || host.Status.OverlayPort <= 0 || host.Status.OverlayPort > 65535 {
		return network.Peer{}
	}
	return network.Peer{
		Pods: pods.Masked(), At: netip.AddrPortFrom(address, uint16(host.Status.OverlayPort)), Key: key,
	}
}
