package remote

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// Host is a host that has joined. It implements microvm.Host and microvm.Follower.
type Host struct {
	o    *Options
	name string

	mu        sync.Mutex
	object    v1alpha1.MicroVMHost
	heartbeat time.Time     // by the local clock: the host's may be wrong
	news      chan struct{} // closed when a microVM changes
	watchers  microvm.Watchers
}

// update records the host's object, and reports whether anything but its heartbeat changed or the host is back.
func (h *Host) update(object *v1alpha1.MicroVMHost) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.object
	h.object = *object.DeepCopy()
	back := false
	if object.Status.Heartbeat != nil && (was.Status.Heartbeat == nil ||
		!object.Status.Heartbeat.Equal(was.Status.Heartbeat)) {
		now := h.o.Clock.Now()
		back = now.Sub(h.heartbeat) > h.o.Away
		h.heartbeat = now
	}
	a, b := was.Status, object.Status
	a.Heartbeat, b.Heartbeat = nil, nil
	return back || was.Spec != object.Spec || !equality.Semantic.DeepEqual(a, b)
}

// notify notifies watchers and waiters of a changed microVM, or with "" of a changed host.
func (h *Host) notify(id string) {
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
	s := &h.object.Status
	d := microvm.Description{
		Name: h.name, Region: s.Region, Zone: s.Zone, Arch: s.Architecture, Engine: s.Engine, Version: s.KubeletVersion,
		Kernel:    s.KernelVersion,
		Capacity:  fargate.Size{MilliCPU: s.Capacity.Cpu().MilliValue(), MemoryBytes: s.Capacity.Memory().Value()},
		MaxPods:   int(s.Capacity.Pods().Value()),
		Abilities: fargate.DefaultAbilities(), Unschedulable: h.object.Spec.Unschedulable, Ready: s.Ready,
		Starting: s.Starting, Message: s.Message,
	}
	if k, err := h.kubelets(); err == nil {
		d.Address, d.Kubelet = k.Host, k.At
	}
	switch {
	case s.Heartbeat == nil:
		d.Ready, d.Starting, d.Message = false, false, "it has not joined yet"
	case h.o.Clock.Now().Sub(h.heartbeat) > h.o.Away:
		if d.Ready || d.Starting { // otherwise the host itself has given the reason
			d.Message = fmt.Sprintf("nothing has been heard of it since %s", h.heartbeat.UTC().Format(time.RFC3339))
		}
		d.Ready, d.Starting = false, false
	}
	return d
}

// kubelets returns where the host serves kubelet APIs. h.mu is held.
func (h *Host) kubelets() (k microvm.KubeletEndpoints, err error) {
	if k.Host, err = netip.ParseAddr(h.object.Status.Address); err != nil {
		return k, err
	}
	k.FirstPort = uint16(h.object.Status.KubeletPort)
	k.Pods, err = netip.ParsePrefix(h.object.Spec.PodCIDR)
	return k, err
}

// Watch implements microvm.Host.
func (h *Host) Watch(ctx context.Context, changed func(id string)) {
	h.watchers.Watch(ctx, changed, func() []string {
		ids, _ := h.List(ctx) // fails when the cache has stopped
		return ids
	})
}

// List implements microvm.Host.
func (h *Host) List(ctx context.Context) ([]string, error) {
	var list v1alpha1.MicroVMList
	if err := h.o.Cache.List(ctx, &list, client.InNamespace(v1alpha1.HostNamespace(h.name)),
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MicroVMs of host %s: %w", h.name, err)
	}
	ids := make([]string, 0, len(list.Items))
	for i := range list.Items {
		ids = append(ids, list.Items[i].Name)
	}
	return ids, nil
}

// markAway marks silent hosts as away in their MicroVMHosts, since they cannot do it themselves, until ctx is done.
func (h *Hosts) markAway(ctx context.Context) {
	for ctx.Err() == nil {
		h.mu.Lock()
		hosts := slices.Collect(maps.Values(h.known))
		h.mu.Unlock()
		for _, host := range hosts {
			if err := host.reportAway(ctx); err != nil && ctx.Err() == nil {
				h.o.Log.Warn("cannot mark a silent microVM host as not ready; retrying", "host", host.name, "error", err)
			}
		}
		_ = clock.Sleep(ctx, h.o.Clock, h.o.Away/5)
	}
}

// reportAway corrects a host's last report if the host has been silent since.
func (h *Host) reportAway(ctx context.Context) error {
	d := h.Describe()
	h.mu.Lock()
	object := h.object.DeepCopy()
	h.mu.Unlock()
	if d.Ready || d.Starting || !object.Status.Ready && !object.Status.Starting {
		return nil
	}
	before := object.DeepCopy()
	object.Status.Ready, object.Status.Starting, object.Status.Message = false, false, d.Message
	if err := h.o.Client.Status().Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of MicroVMHost %s: %w", h.name, err)
	}
	return nil
}
