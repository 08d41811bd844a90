// Package host runs pods in microVMs on this instance. It connects package sandbox, which runs virtual machines, and
// package image, which pulls images, to the cluster: Host implements microvm.Host for fargate-scheduler, Kubelet
// implements kubelet.Backend for kubectl and metricsapi.Source for kubectl top. The kubelet's own libraries read the
// objects that pods refer to; their changes reach running guests.
//
// # States of a microVM
//
//	State       Next step                                                  Method
//	coming up   pull images, translate the pod, boot the guest             bringUp
//	running     report containers, refresh volumes, supply, measure        follow, updateVolumes, supply, measure
//	restarting  back off after the virtual machine ended, then come up     restart
//	ended       keep logs and the last status                              follow
//	removing    stop the guest; free disk, address and record              remove
//
// Virtual machines survive this process. To continue (resume), the next process needs only them and a small record on
// disk.
package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/kubelet"
	"github.com/nodeless/nodeless/microvm/logs"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Options configure a Host.
type Options struct {
	// Dir is the state directory: private, used by one process at a time.
	Dir string // required
	// Name is the host's name: unique, a valid label value. Region and Zone are "" if unknown.
	Name, Region, Zone string
	Kube               kubernetes.Interface // required
	// AsNode reads the objects that a pod refers to as the pod's Node, which this identity may impersonate; nil reads
	// them with Kube.
	AsNode *rest.Config
	// ClientCA is the PEM bundle of the authority that signs client certificates of the cluster.
	ClientCA []byte
	Recorder events.Recorder // required; its source is a kubelet's
	Log      *slog.Logger    // default: slog.Default

	// Engine runs the pods; default Auto, which is never Namespace.
	Engine v1alpha1.Engine
	// Driver returns the driver of the virtual machines. It is called again for as long as the driver cannot run any.
	// Default: the driver of Engine, in Dir.
	Driver func() (vmm.Driver, error)
	// Kernel is the guest kernel of the default Driver; "" lets vmm.FindKernel choose one.
	Kernel string
	// Images configures the image cache and the pulls.
	Images image.Options
	// Wanted returns when microVMs may be needed. Until then no guest is booted to probe the host. Default: at once.
	Wanted func(context.Context) error

	// Pods lists and watches the pods that may run here. Default: all pods of fargate-scheduler, which Kube must be
	// allowed to read.
	Pods cache.ListerWatcher
	// Kubelets determines where the kubelet API of each microVM is served, for example where pods reach it (ADR 50);
	// nil serves on loopback, for an API server on this instance (ADR 18).
	Kubelets *microvm.KubeletEndpoints
	// Unapproved leaves the approval of serving certificates to others.
	Unapproved bool
	// Billed is set if pods cost what AWS Fargate charges in Region.
	Billed bool
	// Capacity is the total for all microVMs. Zero fields default to what this instance can spare.
	Capacity fargate.Size

	// Links connects the microVMs; nil means user mode, with the addresses of UserPrefix.
	Links sandbox.Network
	// Resolve configures in network how the pod resolves names; nil keeps the network's own name server.
	Resolve func(pod *corev1.Pod, network *wire.Network)
	// Services returns a pod's environment variables for the Services in its namespace, as NAME=value; nil adds none.
	Services func(pod *corev1.Pod) []string
	// Dial connects the log router to its outputs; nil dials from this instance.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// AWS is the region whose CloudWatch Logs the log router may send to; nil if there is none.
	AWS *logs.AWS

	// Pauses between attempts; the defaults are the kubelet's.
	Pauses Pauses
}

// Pauses are intervals between attempts and between periodic tasks.
type Pauses struct {
	FirstPull, MaxPull time.Duration // image pulls; 10 s, doubled up to 5 minutes
	Config             time.Duration // reads of what a pod refers to; 2 s
	Refresh            time.Duration // refreshes of what running pods refer to; 5 s
	Measure            time.Duration // measurements; 10 s
}

func (p Pauses) orDefault() Pauses {
	return Pauses{
		FirstPull: cmp.Or(p.FirstPull, 10*time.Second), MaxPull: cmp.Or(p.MaxPull, 5*time.Minute),
		Config: cmp.Or(p.Config, 2*time.Second), Refresh: cmp.Or(p.Refresh, 5*time.Second),
		Measure: cmp.Or(p.Measure, 10*time.Second),
	}
}

// Host is this instance as a host of microVMs. It is safe for concurrent use.
type Host struct {
	o        Options
	driver   *retryingDriver
	vms      *sandbox.Host
	images   *image.Puller
	records  recordStore
	objects  objects
	pods     *podStore
	nodes    cache.SharedIndexInformer // nil with Options.Pods: such a host may not read Nodes
	signer   *kubelet.Signer
	kubelet  *kubelet.Server
	listener net.Listener // of all kubelet APIs; nil if each has its own
	port     uint16       // of the kubelet APIs
	capacity fargate.Size
	router   *logs.Router

	ctx     context.Context // of background work
	cancel  context.CancelFunc
	work    sync.WaitGroup // on microVMs, in the background
	changed signal.Signal  // what running pods refer to may have changed

	mu       sync.Mutex
	state    state
	microVMs map[string]*microVM // by ID
	watchers microvm.Watchers
}

// state is the state of the host as a whole.
type state struct {
	resumed bool // the microVMs of an earlier process have been taken over
	probed  bool
	found   vmm.Capabilities
	kernel  string
	why     error // why the host cannot run microVMs; nil if it can
}

// UserPrefix holds the addresses of microVMs in user mode; each is visible to its own microVM only.
var UserPrefix = netip.MustParsePrefix("10.201.0.0/16")

func (o Options) withDefaults() (_ Options, err error) {
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Pauses = o.Pauses.orDefault()
	if o.Links == nil {
		if o.Links, err = sandbox.NewUserMode(UserPrefix); err != nil {
			return o, err
		}
	}
	if o.Driver == nil {
		o.Driver = func() (vmm.Driver, error) { return driver(o) }
	}
	return o, nil
}

// New opens a state directory. Virtual machines in it keep running; Run takes them over.
func New(o Options) (_ *Host, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, fmt.Errorf("microVM host: %w", err)
	}
	objects, err := newObjects(o.Kube, o.AsNode)
	if err != nil {
		return nil, fmt.Errorf("microVM host: %w", err)
	}
	h := &Host{
		o: o, driver: &retryingDriver{make: o.Driver}, objects: objects, signer: kubelet.NewSigner(o.Kube, !o.Unapproved),
		changed: signal.New(), records: recordStore{filepath.Join(o.Dir, "pods")}, microVMs: map[string]*microVM{},
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			_ = h.Close()
			err = fmt.Errorf("microVM host: %w", err)
		}
	}()
	if err := os.MkdirAll(h.records.dir, 0o700); err != nil {
		return nil, err
	}
	if h.vms, err = sandbox.Open(sandbox.Config{
		Dir: o.Dir, Driver: h.driver, Network: o.Links, Templates: true,
	}); err != nil {
		return nil, err
	}
	if err := removeUnfinished(o.Dir); err != nil {
		return nil, err
	}
	if h.images, err = image.Open(filepath.Join(o.Dir, "images"), o.Images); err != nil {
		return nil, err
	}
	if h.capacity, err = nodeCapacity(); err != nil {
		return nil, err
	}
	h.capacity.MilliCPU, h.capacity.MemoryBytes = cmp.Or(o.Capacity.MilliCPU, h.capacity.MilliCPU),
		cmp.Or(o.Capacity.MemoryBytes, h.capacity.MemoryBytes)
	if h.kubelet, err = kubelet.New(kubelet.Options{
		Backend: h.Kubelet(), Client: o.Kube, ClientCA: o.ClientCA, Certificates: h.signer,
	}); err != nil {
		return nil, err
	}
	if o.Kubelets == nil {
		if h.listener, h.port, err = listenLocally(o.Dir); err != nil {
			return nil, err
		}
	}
	h.router, err = logs.New(logs.Options{Dir: filepath.Join(o.Dir, LogRouterDir), Dial: o.Dial, Log: o.Log, AWS: o.AWS})
	if err != nil {
		return nil, err
	}
	if err := h.loadRecords(); err != nil {
		return nil, err
	}
	h.informers()
	return h, nil
}

// Close releases the virtual machines, which keep running. Run must have returned.
func (h *Host) Close() error {
	h.cancel()
	if h.router != nil {
		h.router.Close()
	}
	h.work.Wait()
	var failed error
	if h.listener != nil {
		_ = h.listener.Close()
	}
	if h.images != nil {
		failed = h.images.Close()
	}
	if h.vms != nil {
		failed = h.vms.Close()
	}
	return failed
}
