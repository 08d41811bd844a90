// Package remote lets fargate-scheduler run pods on instances that have joined the cluster as microVM hosts
// ("nodeless host", package agent). The two sides communicate only through objects: a host reports its capacity and
// heartbeat in its MicroVMHost, and gets each pod to run as a MicroVM. Each connects only to the API server, not to
// the other.
//
// The host reads the objects that a pod refers to itself, as the pod's Node.
package remote

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
	"github.com/nodeless/nodeless/microvm"
)

// Registry registers hosts. It is implemented by scheduler.Scheduler.
type Registry interface {
	AddHost(microvm.Host)
	RemoveHost(name string)
}

// Away is the default time without a heartbeat after which a host is not ready: five heartbeats.
const Away = 25 * time.Second

// Options configure Hosts. Fields without a default are required.
type Options struct {
	Cache    cache.Cache
	Client   client.Client
	Kube     kubernetes.Interface
	Registry Registry
	// Own are the names of this process's own hosts, whose MicroVMHosts are handled elsewhere.
	Own []string
	// Away is the time without a heartbeat after which a host is not ready; default Away.
	Away  time.Duration
	Clock clock.Clock  // default: the real one
	Log   *slog.Logger // default: slog.Default
}

// Hosts are the hosts that have joined.
type Hosts struct {
	o       Options
	orphans *workqueue.Queue // MicroVMs whose host may have been removed from the cluster, as namespace/name

	joined chan struct{} // closed when the first host has joined
	once   sync.Once     // of closing it

	mu    sync.Mutex
	known map[string]*Host // by name
}

// New starts to watch for hosts. It must be called before the cache is started.
func New(ctx context.Context, o Options) (*Hosts, error) {
	o.Away, o.Log = cmp.Or(o.Away, Away), cmp.Or(o.Log, slog.Default())
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.Real{})
	h := &Hosts{
		o: o, orphans: workqueue.New("MicroVM", o.Clock, o.Log), joined: make(chan struct{}), known: map[string]*Host{},
	}
	if err := informer.Watch(ctx, o.Cache, &v1alpha1.MicroVMHost{}, h.hostChanged); err != nil {
		return nil, err
	}
	return h, informer.Watch(ctx, o.Cache, &v1alpha1.MicroVM{}, informer.Latest(h.vmChanged))
}

// Run performs the tasks that only one process of the cluster may perform, until ctx is done.
func (h *Hosts) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { h.orphans.Run(ctx, 1, h.release) })
	wg.Go(func() { h.approve(ctx) })
	wg.Go(func() { h.markAway(ctx) })
	wg.Wait()
	return nil
}

func (h *Hosts) hostChanged(_, now client.Object) {
	host, ok := now.(*v1alpha1.MicroVMHost)
	if !ok { // the object is gone
		h.removeGone()
		return
	}
	// A MicroVMHost in any other namespace represents no host.
	if host.Namespace != v1alpha1.HostNamespace(host.Name) || slices.Contains(h.o.Own, host.Name) {
		return
	}
	h.mu.Lock()
	known, registered := h.known[host.Name]
	if !registered {
		known = &Host{o: &h.o, name: host.Name, news: make(chan struct{})}
		h.known[host.Name] = known
	}
	h.mu.Unlock()
	if known.update(host) {
		known.notify("")
	}
	if !registered {
		h.o.Registry.AddHost(known)
		h.once.Do(func() { close(h.joined) })
	}
}

// removeGone forgets the hosts that are no longer in the cluster.
func (h *Hosts) removeGone() {
	var list v1alpha1.MicroVMHostList
	if err := h.o.Cache.List(context.Background(), &list); err != nil {
		return // the cache has stopped
	}
	h.mu.Lock()
	var gone []string
	for name := range h.known {
		if !slices.ContainsFunc(list.Items, func(m v1alpha1.MicroVMHost) bool {
			return m.Name == name && m.Namespace == v1alpha1.HostNamespace(name)
		}) {
			delete(h.known, name)
			gone = append(gone, name)
		}
	}
	h.mu.Unlock()
	for _, name := range gone {
		h.o.Registry.RemoveHost(name)
		var vms v1alpha1.MicroVMList
		if err := h.o.Cache.List(context.Background(), &vms, client.InNamespace(v1alpha1.HostNamespace(name))); err != nil {
			return // the cache has stopped
		}
		for i := range vms.Items {
			h.orphans.Add(client.ObjectKeyFromObject(&vms.Items[i]).String())
		}
	}
}

func (h *Hosts) vmChanged(vm client.Object) {
	name, _ := strings.CutPrefix(vm.GetNamespace(), v1alpha1.HostNamespace(""))
	if host := h.host(name); host != nil {
		host.notify(vm.GetName())
	} else {
		h.orphans.Add(client.ObjectKeyFromObject(vm).String()) // release ignores a MicroVM that is gone
	}
}

// host returns a host by name, nil if there is none.
func (h *Hosts) host(name string) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[name]
}

// release removes the finalizer of a deleted MicroVM whose host is gone, since nothing else would.
func (h *Hosts) release(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, _ := strings.Cut(key, "/")
	host, _ := strings.CutPrefix(namespace, v1alpha1.HostNamespace(""))
	vm := &v1alpha1.MicroVM{}
	if err := h.o.Cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, vm); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if vm.DeletionTimestamp == nil || h.host(host) != nil {
		return 0, nil
	}
	before := vm.DeepCopy()
	controllerutil.RemoveFinalizer(vm, v1alpha1.FinalizerMicroVM)
	return 0, client.IgnoreNotFound(h.o.Client.Patch(ctx, vm, client.MergeFrom(before)))
}
