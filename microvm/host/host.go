// Package host runs the pods of FargateProfiles in microVMs of this machine. It joins package microvm/sandbox, which runs machines, and microvm/image, which
// gets their images, with the cluster: it is a microvm.Host for fargate-scheduler, a kubelet.Backend for kubectl, and a metricsapi.Source for kubectl
// top. What a pod refers to is read by the kubelet's own libraries, and given to running guests anew when it changes.
//
// Machines do not need this process. What is known of each beside the machine itself is a small record on disk; a later process goes on from there.
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
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/kubelet"
	"github.com/nodeless/nodeless/microvm/logs"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Options are what a Host needs.
type Options struct {
	// Dir is the state directory: private, of one process at a time.
	Dir string // required
	// Name of the host: unique, a valid value of a label. Region and Zone are where it is; "" if they are not known.
	Name, Region, Zone string
	Kube               kubernetes.Interface // required
	// AsNode reads what pods refer to as their Nodes, which this identity may impersonate; nil = it is read with Kube.
	AsNode *rest.Config
	// ClientCA is the PEM of who signs client certificates of the cluster.
	ClientCA []byte
	Recorder events.Recorder // required; its source is what a kubelet's is
	Log      *slog.Logger    // default slog.Default

	// Engine is what pods are run on; default Auto, which is never Namespace.
	Engine v1alpha1.Engine
	// Driver makes the driver of the machines; it is asked again, later, when that cannot run any. Default: that of Engine, in Dir.
	Driver func() (vmm.Driver, error)
	// Kernel is where a guest kernel is looked for by the default Driver; "" = where FindKernel looks.
	Kernel string
	// Images are where images are looked for and how they are pulled.
	Images image.Options
	// Wanted returns when microVMs may be needed: until then nothing is booted to find out what this machine can do. Default: at once.
	Wanted func(context.Context) error

	// Pods lists and watches the pods that may run here; default those of fargate-scheduler, which the host needs to be allowed to see.
	Pods cache.ListerWatcher
	// Kubelets are where the kubelet API of each microVM is served; nil = on loopback, for an API server on this machine (ADR 18).
	Kubelets *microvm.KubeletEndpoints
	// Unapproved leaves it to others to approve the serving certificates.
	Unapproved bool
	// Room is what microVMs may have together; what is 0 is this machine's.
	Capacity fargate.Size

	// Links connects the machines; nil is user mode, with the addresses of UserPrefix.
	Links sandbox.Network
	// Resolve says in what a guest is told how its pod resolves names; nil leaves the network's own name server.
	Resolve func(pod *corev1.Pod, told *wire.Network)
	// Services are a pod's variables of the services of its namespace, as NAME=value; nil = none.
	Services func(pod *corev1.Pod) []string
	// Dial connects the log router to where it sends; nil = as this machine does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Pauses between attempts; the defaults are a kubelet's.
	Pauses Pauses
}

// Pauses between attempts at what failed.
type Pauses struct {
	FirstPull, MaxPull time.Duration // of an image; 10 s, doubled up to 5 minutes
	Config             time.Duration // at what a pod refers to; 2 s
	Refresh            time.Duration // between looks at what running pods refer to; 5 s
	Measure            time.Duration // between measurements; 10 s
}

func (p Pauses) orDefault() Pauses {
	return Pauses{
		FirstPull: cmp.Or(p.FirstPull, 10*time.Second), MaxPull: cmp.Or(p.MaxPull, 5*time.Minute),
		Config: cmp.Or(p.Config, 2*time.Second), Refresh: cmp.Or(p.Refresh, 5*time.Second),
		Measure: cmp.Or(p.Measure, 10*time.Second),
	}
}

// Host is this machine as a host of microVMs. Its methods may be used by many goroutines.
type Host struct {
	o        Options
	driver   *retryingDriver
	vms      *sandbox.Host
	images   *image.Puller
	records  recordStore
	objects  objects
	pods     cache.SharedIndexInformer
	nodes    cache.SharedIndexInformer // nil if Options.Pods are given: such a host may not see Nodes
	signer   *kubelet.Signer
	kubelet  *kubelet.Server
	listener net.Listener // of all kubelet APIs; nil if each has its own
	port     uint16       // of the kubelet API
	capacity fargate.Size
	router   *logs.Router

	ctx    context.Context // of what goes on in the background
	cancel context.CancelFunc
	work   sync.WaitGroup // machines that are brought up or followed
	kick   chan struct{}  // what running pods refer to may have changed

	mu       sync.Mutex
	state    state
	microVMs map[string]*microVM // by the microVM's ID
	watchers microvm.Watchers
}

// state is what is known of the host.
type state struct {
	resumed bool // machines of an earlier process were taken up
	probed  bool
	found   vmm.Capabilities
	kernel  string
	why     error // it cannot run machines
}

// UserPrefix are the addresses of microVMs in user mode: each is seen by its own microVM alone.
var UserPrefix = netip.MustParsePrefix("10.201.0.0/16")

// New takes charge of the state directory. Machines that still run go on; Run takes them up.
func New(o Options) (_ *Host, err error) {
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Pauses = o.Pauses.orDefault()
	if o.Links == nil {
		if o.Links, err = sandbox.NewUserMode(UserPrefix); err != nil {
			return nil, fmt.Errorf("microVM host: %w", err)
		}
	}
	if o.Driver == nil {
		o.Driver = func() (vmm.Driver, error) { return driver(o) }
	}
	objects, err := newObjects(o.Kube, o.AsNode)
	if err != nil {
		return nil, fmt.Errorf("microVM host: %w", err)
	}
	h := &Host{
		o: o, driver: &retryingDriver{make: o.Driver}, objects: objects, signer: kubelet.NewSigner(o.Kube, !o.Unapproved), kick: make(chan struct{}, 1),
		records:  recordStore{filepath.Join(o.Dir, "pods")},
		microVMs: map[string]*microVM{},
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
	if h.vms, err = sandbox.Open(sandbox.Config{Dir: o.Dir, Driver: h.driver, Network: o.Links, Templates: true}); err != nil {
		return nil, err
	}
	if err := reapUnfinished(o.Dir); err != nil {
		return nil, err
	}
	if h.images, err = image.Open(filepath.Join(o.Dir, "images"), o.Images); err != nil {
		return nil, err
	}
	if h.capacity, err = nodeCapacity(); err != nil {
		return nil, err
	}
	h.capacity.MilliCPU, h.capacity.MemoryBytes = cmp.Or(o.Capacity.MilliCPU, h.capacity.MilliCPU), cmp.Or(o.Capacity.MemoryBytes, h.capacity.MemoryBytes)
	if h.kubelet, err = kubelet.New(kubelet.Options{Backend: h.Kubelet(), Client: o.Kube, ClientCA: o.ClientCA, Certificates: h.signer}); err != nil {
		return nil, err
	}
	if o.Kubelets == nil {
		if h.listener, h.port, err = listenLocally(o.Dir); err != nil {
			return nil, err
		}
	}
	h.router, err = logs.New(logs.Options{Dir: filepath.Join(o.Dir, LogRouterDir), Dial: o.Dial, Log: o.Log})
	if err != nil {
		return nil, err
	}
	if err := h.loadRecords(); err != nil {
		return nil, err
	}
	return h, h.informers()
}

// Close lets go of the machines, which go on. Run has to have returned.
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
