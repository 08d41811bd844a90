package remote

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// Host is a host that has joined. It implements microvm.Host and microvm.Follower.
type Host struct {
	o    *Options
	name string

	mu       sync.Mutex
	said     v1alpha1.MicroVMHost
	heard    time.Time // by our clock: the host's may be wrong
	added    bool
	news     chan struct{} // closed when a microVM changes
	watchers microvm.Watchers
}

func newHost(o *Options, name string) *Host {
	return &Host{o: o, name: name, news: make(chan struct{})}
}

// hear takes in what the host says of itself, and reports whether that is more than that it is there.
func (h *Host) hear(said *v1alpha1.MicroVMHost) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.said
	h.said = *said.DeepCopy()
	back := false
	if said.Status.Heartbeat != nil && (was.Status.Heartbeat == nil || !said.Status.Heartbeat.Equal(was.Status.Heartbeat)) {
		now := h.o.Clock.Now()
		back = now.Sub(h.heard) > h.o.Away
		h.heard = now
	}
	a, b := was.Status, said.Status
	a.Heartbeat, b.Heartbeat = nil, nil
	return back || was.Spec != said.Spec || !equality.Semantic.DeepEqual(a, b)
}

// first reports, once, that nobody has been told of the host.
func (h *Host) first() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !h.added
	h.added = true
	return first
}

// tell tells those who watch or wait of a microVM, or with "" of the host.
func (h *Host) tell(id string) {
	h.mu.Lock()
	close(h.news)
	h.news = make(chan struct{})
	h.mu.Unlock()
	h.watchers.Notify(id)
}

// Describe implements microvm.Host.
func (h *Host) Describe() microvm.Description {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.said.Status
	d := microvm.Description{
		Name: h.name, Region: s.Region, Zone: s.Zone, Arch: s.Architecture, Engine: s.Engine, Version: s.KubeletVersion, Kernel: s.KernelVersion,
		Capacity: fargate.Size{MilliCPU: s.Capacity.Cpu().MilliValue(), MemoryBytes: s.Capacity.Memory().Value()}, MaxPods: int(s.Capacity.Pods().Value()),
		Abilities: fargate.DefaultAbilities(), Unschedulable: h.said.Spec.Unschedulable, Ready: s.Ready, Starting: s.Starting, Message: s.Message,
	}
	if k, err := h.kubelets(); err == nil {
		d.Address, d.Kubelet = k.Host, k.At
	}
	switch {
	case s.Heartbeat == nil:
		d.Ready, d.Starting, d.Message = false, false, "it has not joined yet"
	case h.o.Clock.Now().Sub(h.heard) > h.o.Away:
		if d.Ready || d.Starting { // else it has said itself why it is not
			d.Message = fmt.Sprintf("nothing has been heard of it since %s", h.heard.UTC().Format(time.RFC3339))
		}
		d.Ready, d.Starting = false, false
	}
	return d
}

// kubelets is where the host serves kubelet APIs. h.mu is held.
func (h *Host) kubelets() (k microvm.KubeletEndpoints, err error) {
	if k.Host, err = netip.ParseAddr(h.said.Status.Address); err != nil {
		return k, err
	}
	k.FirstPort = uint16(h.said.Status.KubeletPort)
	k.Pods, err = netip.ParsePrefix(h.said.Spec.PodCIDR)
	return k, err
}

// Watch implements microvm.Host.
func (h *Host) Watch(ctx context.Context, changed func(id string)) {
	h.watchers.Watch(ctx, changed, func() []string {
		ids, _ := h.List(ctx) // it fails when the cache ends
		return ids
	})
}

// List implements microvm.Host.
func (h *Host) List(ctx context.Context) ([]string, error) {
	var list v1alpha1.MicroVMList
	if err := h.o.Cache.List(ctx, &list, client.InNamespace(v1alpha1.HostNamespace(h.name)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MicroVMs of host %s: %w", h.name, err)
	}
	ids := make([]string, 0, len(list.Items))
	for i := range list.Items {
		ids = append(ids, list.Items[i].Name)
	}
	return ids, nil
}
