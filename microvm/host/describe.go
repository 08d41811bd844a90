package host

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/kubeversion"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// maxPods is the kubelet's pod limit, as commonly set on large nodes.
const maxPods = 250

// nodeCapacity returns the default capacity: all CPUs and three quarters of the memory. Disk space is not
// reserved.
func nodeCapacity() (fargate.Size, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return fargate.Size{}, fmt.Errorf("memory of this machine: %w", err)
	}
	return fargate.Size{
		MilliCPU:    int64(runtime.NumCPU()) * 1000,
		MemoryBytes: int64(info.Totalram) * int64(info.Unit) / 4 * 3,
	}, nil
}

// Describe implements microvm.Host.
func (h *Host) Describe() microvm.Description {
	h.mu.Lock()
	s := h.state
	h.mu.Unlock()
	d := microvm.Description{
		Name: h.o.Name, Region: h.o.Region, Zone: h.o.Zone, Billed: h.o.Billed, Arch: runtime.GOARCH,
		Engine:   engineOf(s.found),
		Capacity: h.capacity, MaxPods: maxPods,
		Abilities: h.abilities(), Version: kubeversion.Version, Kernel: s.kernel, Kubelet: h.kubeletAt,
	}
	switch {
	case s.why != nil:
		// While microVMs run, the host is not lost: it may be too busy to boot another guest.
		d.Starting, d.Message = h.Running() > 0, s.why.Error()
	case !s.resumed || !s.probed:
		d.Starting, d.Message = true, "the host is checking what this machine can run"
	default:
		d.Ready = true
	}
	return d
}

func (h *Host) abilities() fargate.Abilities {
	able := fargate.DefaultAbilities()
	able.CloudWatch = h.o.AWS != nil
	return able
}

// The delay before a failed probe of the host is retried; it doubles each time.
const (
	firstProbeDelay = 15 * time.Second
	maxProbeDelay   = 10 * time.Minute
)

// probe determines what the host can run and retries until it can run microVMs. It first waits for Wanted, unless the
// host has microVMs already.
func (h *Host) probe(ctx context.Context) {
	if !h.Any() && h.o.Wanted != nil {
		if err := h.o.Wanted(ctx); err != nil {
			return // ctx is done
		}
	}
	for wait := firstProbeDelay; ctx.Err() == nil; wait = min(2*wait, maxProbeDelay) {
		found, err := h.driver.Probe(ctx)
		if ctx.Err() != nil {
			return
		}
		h.mu.Lock()
		h.state.probed, h.state.found, h.state.why = err == nil, found, err
		if d, _ := h.driver.get(); d != nil && err == nil {
			h.state.kernel = kernelVersion(d, found)
		}
		h.mu.Unlock()
		h.watchers.Notify("")
		if err == nil {
			h.o.Log.Info("ready to run pods", "driver", found.Driver, "accelerator", found.Accelerator, "version",
				found.Version, "boot", found.Boot)
			if found.Warning != "" {
				h.o.Log.Warn(found.Warning)
			}
			return
		}
		h.o.Log.Warn("cannot run microVMs; retrying", "error", err, "after", wait)
		if !pause(ctx, wait) {
			return
		}
	}
}

// Any reports whether there is a microVM, running or not.
func (h *Host) Any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.microVMs) > 0
}

// kubeletAt returns where the kubelet API of a microVM's Node is served: as Options.Kubelets determines, or at the
// loopback address with the same last three bytes as the microVM's (ADR 18).
func (h *Host) kubeletAt(microVM netip.Addr) netip.AddrPort {
	if h.o.Kubelets != nil {
		return h.o.Kubelets.At(microVM)
	}
	a := microVM.As4()
	a[0] = 127
	return netip.AddrPortFrom(netip.AddrFrom4(a), h.port)
}

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	return clock.Sleep(ctx, clock.Real{}, d) == nil
}

// UntilProfiles returns a function for Options.Wanted that waits until a FargateProfile exists.
func UntilProfiles(config *rest.Config) (func(context.Context) error, error) {
	scheme := apiruntime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("microVM host: %w", err)
	}
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			if there, err := awaitProfile(ctx, c); there && err == nil {
				return nil
			}
			pause(ctx, firstProbeDelay/10) // the API server is unavailable, or the watch has ended
		}
		return ctx.Err()
	}, nil
}

// awaitProfile waits for a profile until the watch ends.
func awaitProfile(ctx context.Context, c client.WithWatch) (there bool, err error) {
	var list v1alpha1.FargateProfileList
	if err := c.List(ctx, &list); err != nil || len(list.Items) > 0 {
		return len(list.Items) > 0, err
	}
	w, err := c.Watch(ctx, &v1alpha1.FargateProfileList{},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Added {
			return true, nil
		}
	}
	return false, nil
}
