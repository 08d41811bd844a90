// Package agent represents an instance that has joined a cluster as a microVM host ("nodeless host"). It reports the
// host's capacity and heartbeat (MicroVMHost), runs the pods it is given (MicroVM) and reports their statuses. Package
// host runs the microVMs themselves; package remote is the controller's side.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
	"github.com/nodeless/nodeless/microvm"
)

// Options configure an Agent. Fields without a default are required.
type Options struct {
	REST *rest.Config // with the host's own identity
	Name string       // of the host
	Host microvm.Host
	// Kubelets says where Host serves kubelet APIs.
	Kubelets microvm.KubeletEndpoints
	// OverlayPort receives other hosts' packets for microVMs, encrypted by the public OverlayKey; 0: there is no overlay.
	OverlayPort uint16
	OverlayKey  string
	// Every is the interval between heartbeats; default 5 s.
	Every time.Duration
	Log   *slog.Logger // default: slog.Default
}

// Agent reports for a host.
type Agent struct {
	o      Options
	client client.Client
	cache  cache.Cache
	queue  *workqueue.Queue // IDs of microVMs
	news   signal.Signal    // the host's description has changed

	mu      sync.Mutex
	stopped map[string]int64 // the graces passed to Host.Stop, by ID
}

// scheme holds Kubernetes' kinds and Nodeless's own.
var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
}

// GetHost reads what the cluster has decided about a host.
func GetHost(ctx context.Context, cfg *rest.Config, name string) (*v1alpha1.MicroVMHost, error) {
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	host := &v1alpha1.MicroVMHost{}
	return host, c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.HostNamespace(name), Name: name}, host)
}

// New returns an Agent.
func New(o Options) (*Agent, error) {
	o.Every, o.Log = cmp.Or(o.Every, 5*time.Second), cmp.Or(o.Log, slog.Default())
	a := &Agent{
		o: o, queue: workqueue.New("microVM", clock.Real{}, o.Log), news: signal.New(), stopped: map[string]int64{},
	}
	var err error
	if a.client, err = client.New(o.REST, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	a.cache, err = cache.New(o.REST, cache.Options{
		Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{v1alpha1.HostNamespace(o.Name): {}},
	})
	return a, err
}

// workers is the number of microVMs worked on at a time.
const workers = 8

// Run works until ctx is done or the cluster no longer accepts the host. MicroVMs keep running when it has returned.
func (a *Agent) Run(ctx context.Context) error {
	changed := informer.Latest(func(vm client.Object) { a.queue.Add(vm.GetName()) })
	if err := informer.Watch(ctx, a.cache, &v1alpha1.MicroVM{}, changed); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() {
		if err := a.cache.Start(ctx); err != nil {
			a.o.Log.Warn("the cache of MicroVMs failed", "error", err)
		}
	})
	if !a.cache.WaitForCacheSync(ctx) {
		return nil
	}
	wg.Go(func() {
		a.o.Host.Watch(ctx, func(id string) {
			if id != "" {
				a.queue.Add(id)
			} else {
				a.news.Set()
			}
		})
	})
	wg.Go(func() { a.queue.Run(ctx, workers, a.microVM) })
	return a.beat(ctx)
}

// beat reports the host again and again and, at the end, that it has stopped.
func (a *Agent) beat(ctx context.Context) error {
	tick := time.NewTicker(a.o.Every)
	defer tick.Stop()
	for {
		d := a.o.Host.Describe()
		err := a.report(ctx, d.Ready, d.Starting, d.Message)
		switch {
		case apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err):
			return err // waiting would not help
		case err != nil && ctx.Err() == nil:
			a.o.Log.Warn("cannot report this host to the cluster; retrying", "error", err)
		}
		select {
		case <-tick.C:
		case <-a.news:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			const stopped = "it was stopped; its microVMs go on, and are taken up when it is started again"
			if err := a.report(last, false, false, stopped); err != nil {
				a.o.Log.Warn("cannot tell the cluster that this host stops", "error", err)
			}
			return nil
		}
	}
}

// report writes the host's status.
func (a *Agent) report(ctx context.Context, ready, starting bool, message string) error {
	d := a.o.Host.Describe()
	now := metav1.NowMicro()
	host := &v1alpha1.MicroVMHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1alpha1.HostNamespace(a.o.Name), Name: a.o.Name,
	}}
	before := host.DeepCopy()
	// differs in every field, so that false and empty ones are written too
	before.Status = v1alpha1.MicroVMHostStatus{Ready: !ready, Starting: !starting, Message: message + " "}
	host.Status = v1alpha1.MicroVMHostStatus{
		Ready: ready, Starting: starting, Message: message, Heartbeat: &now, Engine: d.Engine, Architecture: d.Arch,
		Region: d.Region, Zone: d.Zone,
		KubeletVersion: d.Version, KernelVersion: d.Kernel, Address: a.o.Kubelets.Host.String(),
		KubeletPort: int32(a.o.Kubelets.FirstPort), OverlayPort: int32(a.o.OverlayPort),
		OverlayPublicKey: a.o.OverlayKey,
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(d.Capacity.MilliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(d.Capacity.MemoryBytes, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(int64(d.MaxPods), resource.DecimalSI),
		},
	}
	if err := a.client.Status().Patch(ctx, host, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the status of MicroVMHost %s: %w", a.o.Name, err)
	}
	return nil
}
