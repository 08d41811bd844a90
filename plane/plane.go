// Package plane runs a real Kubernetes control plane inside this process: etcd, kube-apiserver, kube-controller-manager
// and kube-scheduler, on loopback only, with its own certificates and a data directory that survives restarts. It takes
// minutes to compile and adds 180 MB to a binary, so only commands and tests import it.
package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// Options configures a control plane. Only DataDir is required.
type Options struct {
	// DataDir holds etcd, pki, logs and kubeconfig. It is created (0700) if missing; one process at a time may use it.
	DataDir string
	// LogFile receives the components' logs; the default is DataDir/logs/control-plane.log. Each Start begins a new file,
	// and so does a file of 32 MiB; the previous one is kept with the suffix ".1".
	LogFile string
	// AuditLog is a file to which the API server logs every request, one JSON object per line; "" = none.
	AuditLog string
	// ClientQPS is the request rate per second of kube-controller-manager and kube-scheduler (burst: twice that), and of
	// RESTConfig. The default is 1000: upstream's 20 to 50 make 1,000 pods of a Deployment take almost a minute.
	ClientQPS int
	// ServiceCIDR is the range of Service addresses, 10.96.0.0/16 by default. A cluster keeps the range that it was
	// created with.
	ServiceCIDR string
	// SchedulerConfig is a KubeSchedulerConfiguration in YAML or JSON; its client settings and leader election are
	// replaced. nil = kube-scheduler's defaults.
	SchedulerConfig []byte
	// Port fixes kube-apiserver's port; if another process listens there, Start fails and names it. With 0, Start
	// chooses a free port once and keeps it; if another process takes it between two starts, Start chooses a new one
	// and updates the kubeconfig.
	Port int
	// Tokens authenticates bearer tokens other than those of ServiceAccounts; nil = none.
	Tokens authenticator.Token
	// DialKubelet dials node addresses for the API server; nil = over the host's network.
	DialKubelet func(ctx context.Context, network, address string) (net.Conn, error)
	// Progress is called after each step of the start with the step's duration, from one goroutine at a time.
	Progress func(step string, took time.Duration)
}

// Plane is a running control plane. Its methods may be called from any goroutine.
type Plane struct {
	o     Options
	dir   string
	state state
	pki   *pki

	release    func()    // unlocks the data directory
	listener   *closable // of kube-apiserver
	etcd       *store
	components map[string]*component
	labels     context.Context // carries the profiler labels of its goroutines

	mu       sync.Mutex
	err      error
	stopping chan struct{}
	stopOnce sync.Once
	failed   chan struct{}
	failOnce sync.Once
	done     chan struct{}
}

// inUse is held while a control plane runs: its components register themselves in globals of this process.
var inUse sync.Mutex

// Start starts a control plane and returns when it is ready: the API server reports so, the scheduler's caches have
// synced and the namespace default has its ServiceAccount, so that pods can be created at once. ctx bounds only the
// start; if it ends earlier, everything is stopped again. Afterwards the control plane runs until Stop, or until a
// component fails (see Done and Err). One process can run one control plane at a time.
//
// It fails with a *datadir.InUseError if another process uses the data directory, a *PortError if Options.Port is
// taken, and a *CorruptError if etcd's files are damaged.
func Start(ctx context.Context, o Options) (*Plane, error) {
	began := time.Now()
	if err := o.complete(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		p, err := startOnce(ctx, o)
		var gaveUp *gaveUpError
		if !errors.As(err, &gaveUp) || try == maxStarts || ctx.Err() != nil {
			return p, err
		}
		o.Progress("a Kubernetes component failed, starting again", time.Since(began))
	}
}

// maxStarts bounds how often a control plane whose components give up is started. kube-apiserver gives up if its
// default roles are not written within 30 s, as on a very busy machine; the roles that were written stay.
const maxStarts = 3

func startOnce(ctx context.Context, o Options) (*Plane, error) {
	if !inUse.TryLock() {
		return nil, errors.New("start control plane: one already runs in this process; stop it first")
	}
	p := &Plane{
		o: o, dir: o.DataDir, components: map[string]*component{},
		labels:   pprof.WithLabels(context.Background(), pprof.Labels("control plane", o.DataDir)),
		stopping: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{}),
	}
	running.Store(p)
	go p.supervise()
	if err := p.start(ctx); err != nil {
		p.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // the cause of the failed start says more
		return nil, err
	}
	return p, nil
}

func (o *Options) complete() error {
	if o.DataDir == "" {
		return errors.New("start control plane: no data directory given")
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", o.DataDir, err)
	}
	o.DataDir = dir
	if o.LogFile == "" {
		o.LogFile = filepath.Join(dir, "logs", "control-plane.log")
	}
	if o.ClientQPS == 0 {
		o.ClientQPS = 1000
	}
	if o.ClientQPS < 0 {
		return fmt.Errorf("client QPS %d: give a rate above 0", o.ClientQPS)
	}
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("port %d: give one between 1 and 65535, or 0 for any free port", o.Port)
	}
	if o.Progress == nil {
		o.Progress = func(string, time.Duration) {}
	}
	return nil
}

// start runs the steps in order. shutdown releases what they have acquired, however far they got.
func (p *Plane) start(ctx context.Context) error {
	if err := p.prepare(); err != nil {
		return err
	}
	for _, s := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"etcd", p.startEtcd},
		{"kube-apiserver", p.startAPIServer},
		{"kube-controller-manager, kube-scheduler", p.startClients},
	} {
		began := time.Now()
		if err := s.run(ctx); err != nil {
			return err
		}
		p.o.Progress(s.name, time.Since(began))
	}
	return nil
}

// prepare acquires the data directory, the port and the certificates.
func (p *Plane) prepare() (err error) {
	began := time.Now()
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w; choose another", err)
	}
	if p.release, err = datadir.Lock(p.dir); err != nil {
		return err
	}
	if err := openLog(p.o.LogFile); err != nil {
		return err
	}
	if p.state, err = loadState(p.dir); err != nil {
		return err
	}
	if err := p.state.setServiceCIDR(p.o.ServiceCIDR); err != nil {
		return err
	}
	before := p.state.Port
	l, err := listen(p.o.Port, before)
	if err != nil {
		return err
	}
	p.listener = &closable{Listener: l}
	p.state.Port = p.listener.Addr().(*net.TCPAddr).Port
	if before != 0 && p.state.Port != before {
		p.o.Progress(fmt.Sprintf("port %d is taken%s, using %d", before, holder(before), p.state.Port), time.Since(began))
	}
	if err := p.state.save(p.dir); err != nil {
		return err
	}
	if p.pki, err = ensurePKI(filepath.Join(p.dir, "pki"), p.state.ServiceCIDR, time.Now()); err != nil {
		return err
	}
	if err := p.writeKubeconfigs(); err != nil {
		return err
	}
	p.o.Progress("certificates", time.Since(began))
	return nil
}
