// Package agent represents an instance that has joined a cluster as a microVM host ("nodeless host"). It reports the
// host's capacity and heartbeat (MicroVMHost), runs the pods assigned to it (MicroVM) and reports their statuses.
// Package host runs the microVMs themselves; package remote is the controller's side.
package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/informer"
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
	// OverlayPort receives other hosts' packets for microVMs, encrypted with the public OverlayKey; 0 means no overlay.
	OverlayPort uint16
	OverlayKey  string
	// Every is the interval between heartbeats; default 5 s.
	Every time.Duration
	Log   *slog.Logger // default: slog.Default
}

// Agent runs the MicroVMs assigned to a host, and reports the host.
type Agent struct {
	reporter
	cache cache.Cache
	queue *workqueue.Queue // IDs of microVMs

	mu      sync.Mutex
	stopped map[string]int64 // the graces passed to Host.Stop, by ID
}

// kinds returns a scheme with the kinds of Kubernetes and Nodeless. It is built on first use, not at program start.
var kinds = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
})

// GetHost reads the MicroVMHost of a host.
func GetHost(ctx context.Context, cfg *rest.Config, name string) (*v1alpha1.MicroVMHost, error) {
	c, err := client.New(cfg, client.Options{Scheme: kinds()})
	if err != nil {
		return nil, err
	}
	return getHost(ctx, c, name)
}

func getHost(ctx context.Context, c client.Reader, name string) (*v1alpha1.MicroVMHost, error) {
	host := &v1alpha1.MicroVMHost{}
	return host, c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.HostNamespace(name), Name: name}, host)
}

// New returns an Agent.
func New(o Options) (*Agent, error) {
	r, err := newReporter(o)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		reporter: r, queue: workqueue.New("microVM", clock.Real{}, r.o.Log), stopped: map[string]int64{},
	}
	a.cache, err = cache.New(o.REST, cache.Options{
		Scheme: kinds(), DefaultTransform: cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{v1alpha1.HostNamespace(o.Name): {}},
	})
	return a, err
}

// workers is the number of microVMs reconciled at a time.
const workers = 8

// Run runs the agent until ctx is done or the cluster rejects the host. MicroVMs keep running after it returns.
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
	return a.beat(ctx, func(v1alpha1.MicroVMHostSpec) {}) // the controller acts on the spec
}
