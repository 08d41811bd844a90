package webpage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/remote"
	"github.com/nodeless/nodeless/view/web"
)

// hostsKept is how long an answer about hosts is cached.
const hostsKept = 2 * time.Second

// hostReader reads the hosts of microVMs as the page's own user, one read at a time.
type hostReader struct {
	cfg    *rest.Config
	clock  clock.Clock
	client client.Reader   // nil before the first read
	heard  map[string]beat // by host
}

// beat is a heartbeat by a host's own clock, and when it was first seen.
type beat struct{ says, seen time.Time }

func hosts(cfg *rest.Config, c clock.Clock) web.ReadHosts {
	r, last := hostReader{cfg: cfg, clock: c, heard: map[string]beat{}}, kept[web.Hosts]{clock: c, keep: hostsKept}
	return func(ctx context.Context) (*web.Hosts, error) {
		return last.get(func() (*web.Hosts, error) { return r.read(ctx) })
	}
}

func (r *hostReader) read(ctx context.Context) (*web.Hosts, error) {
	if r.client == nil {
		c, err := client.New(r.cfg, client.Options{Scheme: scheme.Scheme})
		if err != nil {
			return nil, fmt.Errorf("client of hosts: %w", err)
		}
		r.client = c
	}
	var list v1alpha1.MicroVMHostList
	err := r.client.List(ctx, &list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return &web.Hosts{At: r.clock.Now().Unix()}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list hosts of microVMs: %w", err)
	}
	vms, err := r.microVMs(ctx, list.Items)
	out := r.join(list.Items, vms)
	if err != nil {
		out.NoMicroVMs = err.Error()
	}
	return out, nil
}

// microVMs returns what runs on hosts, by their namespaces. The controller's own host has no MicroVMs: the NodeClaims
// of its pods say what runs there.
func (r *hostReader) microVMs(ctx context.Context, of []v1alpha1.MicroVMHost) (map[string][]web.MicroVM, error) {
	var list v1alpha1.MicroVMList
	if err := r.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list microVMs: %w", err)
	}
	out := map[string][]web.MicroVM{}
	for i := range list.Items {
		out[list.Items[i].Namespace] = append(out[list.Items[i].Namespace], microVMOf(&list.Items[i]))
	}
	for i := range of {
		if of[i].Annotations[v1alpha1.AnnotationOwnHost] != "true" {
			continue
		}
		var claims karpv1.NodeClaimList
		if err := r.client.List(ctx, &claims, client.MatchingLabels{microvm.HostLabel: of[i].Name}); err != nil {
			return nil, fmt.Errorf("list the NodeClaims of host %s: %w", of[i].Name, err)
		}
		for k := range claims.Items {
			out[of[i].Namespace] = append(out[of[i].Namespace], podOf(&claims.Items[k]))
		}
	}
	return out, nil
}

func microVMOf(vm *v1alpha1.MicroVM) web.MicroVM {
	out := web.MicroVM{
		Namespace: vm.Spec.Pod.Namespace, Pod: vm.Spec.Pod.Name, Profile: vm.Spec.Profile, Problem: vm.Status.Error,
		CPU: vm.Spec.Size.Cpu().MilliValue(), Memory: vm.Spec.Size.Memory().Value(),
	}
	if vm.Status.Pod != nil {
		out.Phase = string(vm.Status.Pod.Phase)
	}
	return out
}

// podOf returns the microVM of a NodeClaim. Its size is what the NodeClaim requests; its Node has whole CPUs.
func podOf(c *karpv1.NodeClaim) web.MicroVM {
	namespace, pod, _ := strings.Cut(c.Annotations[microvm.PodAnnotation], "/")
	size := c.Spec.Resources.Requests
	return web.MicroVM{
		Namespace: namespace, Pod: pod, Profile: c.Labels[fargate.ProfileLabel], CPU: size.Cpu().MilliValue(),
		Memory: size.Memory().Value(),
	}
}

// join combines hosts with their microVMs. It ignores a host in a namespace other than its own.
func (r *hostReader) join(list []v1alpha1.MicroVMHost, vms map[string][]web.MicroVM) *web.Hosts {
	out := &web.Hosts{At: r.clock.Now().Unix(), Served: true, Hosts: []web.Host{}}
	known := map[string]beat{}
	for i := range list {
		h := &list[i]
		if h.Namespace != v1alpha1.HostNamespace(h.Name) {
			continue
		}
		b := r.hear(h)
		known[h.Name] = b
		one := hostOf(h, vms[h.Namespace])
		one.Status, one.Message = hostStatus(h, b, r.clock.Now())
		if !b.seen.IsZero() {
			one.Heard = b.seen.Unix()
		}
		out.Hosts = append(out.Hosts, one)
	}
	r.heard = known
	slices.SortFunc(out.Hosts, func(a, b web.Host) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// hear returns when a host's heartbeat was seen. Only changes count, since a host's clock may be wrong; the first
// heartbeat seen counts as sent when it says, but not in the future.
func (r *hostReader) hear(h *v1alpha1.MicroVMHost) beat {
	if h.Status.Heartbeat == nil {
		return beat{}
	}
	now, says := r.clock.Now(), h.Status.Heartbeat.Time
	was, known := r.heard[h.Name]
	switch {
	case !known || was.says.IsZero():
		if says.After(now) {
			return beat{says, now}
		}
		return beat{says, says}
	case was.says.Equal(says):
		return was
	}
	return beat{says, now}
}

// hostStatus returns a host's status, and why it is not ready.
func hostStatus(h *v1alpha1.MicroVMHost, b beat, now time.Time) (status, message string) {
	s := &h.Status
	switch {
	case b.seen.IsZero():
		return "NotReady", "it has not joined yet"
	case now.Sub(b.seen) > remote.Away:
		return "NotReady", "nothing has been heard of it since " + b.seen.UTC().Format(time.RFC3339)
	case s.Starting:
		return "Starting", s.Message
	case !s.Ready:
		return "NotReady", s.Message
	case h.Spec.Unschedulable:
		return "Unschedulable", s.Message
	}
	return "Ready", s.Message
}

// hostOf returns a host with what runs on it.
func hostOf(h *v1alpha1.MicroVMHost, vms []web.MicroVM) web.Host {
	s := &h.Status
	out := web.Host{
		Name: h.Name, Namespace: h.Namespace, Engine: s.Engine, Arch: s.Architecture, Zone: s.Zone, Kubelet: s.KubeletVersion,
		Kernel: s.KernelVersion, Created: h.CreationTimestamp.Unix(),
		Capacity: web.HostUse{
			CPU: s.Capacity.Cpu().MilliValue(), Memory: s.Capacity.Memory().Value(), Pods: s.Capacity.Pods().Value(),
		},
		Network: web.Network{
			PodCIDR: h.Spec.PodCIDR, Address: s.Address, OverlayPort: s.OverlayPort, OverlayKey: s.OverlayPublicKey != "",
		},
		MicroVMs: []web.MicroVM{},
	}
	for _, v := range vms {
		out.Used.CPU += v.CPU
		out.Used.Memory += v.Memory
		out.Used.Pods++
		out.MicroVMs = append(out.MicroVMs, v)
	}
	slices.SortFunc(out.MicroVMs, func(a, b web.MicroVM) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return out
}
