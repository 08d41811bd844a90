//go:build !noplane

package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodeless/nodeless/cmd/internal/kubeconfig"
	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/progress"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/cmd/internal/webpage"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/loadbalancer"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/datadir"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/host"
	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/incluster"
	"github.com/nodeless/nodeless/region/nodesim"
	"github.com/nodeless/nodeless/region/nodesim/kubelet"
	"github.com/nodeless/nodeless/region/nodesim/regional"
	"github.com/nodeless/nodeless/view/web"
)

// local is a whole cluster in this process.
type local struct {
	o upOptions
	p *progress.Printer

	plane                  *plane.Plane
	kubelets               *kubelet.Network // of the simulated nodes
	region                 *region.Region
	eks                    *incluster.Cluster
	regionURL              string
	pageLink               string // "" = there is no page
	page                   webpage.Page
	pageToken, regionToken string
	client                 client.Client
	eksLogin               eksLogin
	microVMs               *host.Host     // nil if this machine runs none
	hosts                  []microvm.Host // microVMs, as the scheduler sees it
	// dialPod connects to microVMs in user mode; nil if this machine reaches their addresses directly.
	dialPod func(ctx context.Context, network, address string) (net.Conn, error)

	log     *slog.Logger
	session localcluster.Session // of what is running

	stops  []func()   // in the order of starting; run backwards
	failed chan error // the first part that failed while running
}

// start starts every part in order. Parts live until runCtx is done; startCtx bounds the waiting.
func (l *local) start(runCtx, startCtx context.Context) error {
	l.failed = make(chan error, 1)
	if err := l.openLog(); err != nil {
		return err
	}
	for _, part := range []func(run, start context.Context) error{
		l.startPlane, l.startRegion, l.installObjects, l.installAddons, l.startNodes, l.startMicroVMs, l.startController,
		l.startLoadBalancers, l.startPage, l.publish,
	} {
		if err := part(runCtx, startCtx); err != nil {
			return err
		}
	}
	return nil
}

// stop stops every part, the last started first.
func (l *local) stop() {
	for i := len(l.stops) - 1; i >= 0; i-- {
		l.stops[i]()
	}
	l.stops = nil
}

// spawn runs a part in the background until it is stopped; if it ends by itself, the whole cluster ends with its
// error.
func (l *local) spawn(ctx context.Context, part string, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := f(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		select {
		case l.failed <- fmt.Errorf("%s: %w; logs: %s", part, err, filepath.Join(l.o.DataDir, "logs")):
		default:
		}
	}()
	l.stops = append(l.stops, func() { cancel(); <-done })
}

// openLog directs the log of the controller, the region and the node simulator to a file: the terminal is for people.
func (l *local) openLog() error {
	dir := filepath.Join(l.o.DataDir, "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("log folder: %w", err)
	}
	flags := os.O_CREATE | os.O_APPEND | os.O_WRONLY
	if !datadir.InUse(l.o.DataDir) { // a second process fails later, and must not empty the log of the first
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(filepath.Join(dir, "nodeless.log"), flags, 0o600)
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	l.log = slog.New(slog.NewTextHandler(f, nil))
	slog.SetDefault(l.log)
	ctrllog.SetLogger(logr.FromSlogHandler(l.log.Handler()))
	l.stops = append(l.stops, func() { _ = f.Close() })
	return nil
}

func (l *local) startPlane(run, start context.Context) error {
	l.p.Begin("Kubernetes %s: etcd, API server, scheduler, controllers", plane.Version())
	l.kubelets = kubelet.NewNetwork()
	var err error
	if l.eksLogin.administrator, err = localcluster.KeepAWSKeys(l.o.DataDir); err != nil {
		return err
	}
	l.plane, err = plane.Start(start,
		plane.Options{
			DataDir: l.o.DataDir, ClientQPS: 1000, AuditLog: l.o.auditLog, Tokens: &l.eksLogin,
			DialKubelet: l.kubelets.DialContext, SchedulerConfig: l.o.schedulerDocument,
		})
	if err != nil {
		return err
	}
	if err := l.mark(); err != nil {
		return err
	}
	l.stops = append(l.stops, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(run), 10*time.Second)
		defer cancel()
		if err := l.plane.Stop(ctx); err != nil {
			l.log.Error("control plane did not stop cleanly", "error", err)
		}
	})
	go func() {
		<-l.plane.Done()
		if err := l.plane.Err(); err != nil {
			select {
			case l.failed <- fmt.Errorf("control plane ended: %w", err):
			default:
			}
		}
	}()
	l.p.Done("")
	return nil
}

// mark records in the data directory whose it is, once the directory is locked.
func (l *local) mark() error {
	m, err := datadir.Read(l.o.DataDir)
	if err != nil {
		return err
	}
	m.Version, m.Kubernetes = program.Version, l.plane.Version()
	if l.o.Name != "" {
		m.Name = l.o.Name
	}
	return m.Write(l.o.DataDir)
}

func (l *local) installObjects(_, start context.Context) error {
	cfg := l.restConfig("nodeless-setup")
	var err error
	if l.client, err = newClient(cfg); err != nil {
		return err
	}
	if l.o.autoPools != nil {
		l.p.Begin("EKS Auto Mode: NodePools %s", strings.Join(l.o.autoPools, ", "))
		if err := crds.Apply(start, cfg, append(crds.AutoMode(), loadbalancer.CRDs()...)); err != nil {
			return err
		}
		l.p.Done("the controller keeps them")
		return nil
	}
	l.p.Begin("Node pool general-purpose")
	if err := crds.Apply(start, cfg, slices.Concat(crds.All(), loadbalancer.CRDs(), crds.VPCCNI())); err != nil {
		return err
	}
	created, err := createMissing(start, l.client, "general-purpose.yaml", l.fit)
	if err != nil {
		return err
	}
	if created == 0 {
		l.p.Done("kept as they were")
		return nil
	}
	if l.o.types != nil {
		l.p.Done("on-demand nodes of your %d types, amd64", len(l.o.types.Types))
		return nil
	}
	l.p.Done("on-demand c, m and r nodes, amd64")
	return nil
}

func (l *local) startNodes(run, _ context.Context) error {
	client, err := kubernetes.NewForConfig(l.restConfig("nodeless-kubelets"))
	if err != nil {
		return err
	}
	kubelets := func(ctx context.Context, s *nodesim.Simulator) error {
		return kubelet.Serve(ctx, kubelet.Options{
			Network: l.kubelets, Nodes: s, Client: client, ClientCA: l.plane.CABundle(),
			LogDir: filepath.Join(l.o.DataDir, "logs", "simulated"),
		})
	}
	if l.o.autoPools == nil { // EKS Auto Mode has no security groups for pods
		l.spawn(run, "resources of pods", l.eks.RunPodResources)
	}
	l.spawn(run, "node simulator", func(ctx context.Context) error {
		return nodesim.Run(ctx, nodesim.Options{
			REST: l.plane.RESTConfig(), Instances: regional.Instances(l.region), Clock: clock.Real{}, Log: l.log,
			Kubelets: kubelets,
		})
	})
	return nil
}

// startPage serves the page. Nothing is watched for it before someone views it.
func (l *local) startPage(run, start context.Context) error {
	if l.o.page == "" {
		return nil
	}
	listener, err := webpage.Listen(start, l.o.page, l.o.pageAsked)
	if err != nil {
		return fmt.Errorf("--page: %w", err)
	}
	if l.pageToken, err = httpguard.KeepToken(localcluster.TokenFile(l.o.DataDir, "page")); err != nil {
		_ = listener.Close()
		return fmt.Errorf("--page: %w", err)
	}
	l.pageLink = web.Link(listener.Addr().String(), l.pageToken)
	t := &target.Cluster{REST: l.restConfig("nodeless-page"), Of: `the cluster of "nodeless up"`}
	t.Options.Scheduler = l.o.scheduler
	t.PricesOfSession(&localcluster.Session{Region: l.o.region, RegionURL: l.regionURL}, l.o.DataDir)
	l.page.Cluster, l.page.Policy, l.page.Gates, l.page.Token = t, l.o.policy, l.o.gates, l.pageToken
	l.spawn(run, "page", func(ctx context.Context) error { return l.page.Run(ctx, listener) })
	return nil
}

// publish announces the running cluster: it writes the kubeconfig context and the session file.
func (l *local) publish(_, _ context.Context) error {
	if err := publishKubeconfig(l.plane.Kubeconfig(), localcluster.ToolsKubeconfig(l.o.DataDir)); err != nil {
		return fmt.Errorf("kubeconfig of \"nodeless env\": %w", err)
	}
	l.session = localcluster.Session{
		PID: os.Getpid(), Name: l.o.cluster, Started: time.Now(), Version: program.Version, Kubeconfig: l.plane.Kubeconfig(),
		APIServer: l.plane.RESTConfig().Host, Region: l.o.region, RegionURL: l.regionURL,
		BootTime: l.o.bootTime, Page: l.pageLink, PageToken: l.pageToken, RegionToken: l.regionToken,
	}
	if l.o.kubeconfig {
		l.mergeContext()
	}
	if err := l.session.Save(l.o.DataDir); err != nil {
		return err
	}
	l.stops = append(l.stops, func() { _ = os.Remove(localcluster.SessionFile(l.o.DataDir)) })
	return nil
}

// noContext is the message about a context that could not be added, and the reason.
const noContext = "   The context %q was not added to your kubeconfig: %s"

// mergeContext adds the cluster to the user's kubeconfig. If that fails, the cluster runs without a context of its
// own.
func (l *local) mergeContext() {
	c := kubeconfig.Context{Name: localcluster.ContextName(l.o.cluster), DataDir: l.o.DataDir}
	if err := c.Merge(l.plane.Kubeconfig(), datadir.InUse); err != nil {
		l.session.NoContext = err.Error()
		l.p.Line(noContext, c.Name, err)
		return
	}
	l.session.Context = c.Name
	l.stops = append(l.stops, func() { _ = c.Remove() }) // "nodeless down" reports what is wrong
}

// restConfig returns a client configuration with a name of its own and generous limits: no one else uses the API
// server.
func (l *local) restConfig(name string) *rest.Config {
	cfg := rest.CopyConfig(l.plane.RESTConfig())
	cfg.UserAgent = name
	cfg.QPS, cfg.Burst = 1000, 2000
	return cfg
}
