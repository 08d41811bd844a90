//go:build !noplane

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/admission"
	"github.com/nodeless/nodeless/internal/clock"
	"github.com/nodeless/nodeless/internal/controller"
	"github.com/nodeless/nodeless/internal/crds"
	"github.com/nodeless/nodeless/internal/gates"
	"github.com/nodeless/nodeless/internal/kubeconfig"
	"github.com/nodeless/nodeless/internal/loop"
	"github.com/nodeless/nodeless/internal/nodesim"
	"github.com/nodeless/nodeless/internal/nodesim/regional"
	"github.com/nodeless/nodeless/internal/plane"
	"github.com/nodeless/nodeless/internal/podhost"
	"github.com/nodeless/nodeless/internal/podnode"
	"github.com/nodeless/nodeless/internal/steps"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/ec2api"
)

// local is a whole cluster in this process.
type local struct {
	o      upOptions
	p      *steps.Printer
	policy model.Policy
	gates  gates.Gates

	plane     *plane.Plane
	region    *region.Region
	regionURL string
	pageURL   string // "" = there is no page
	client    client.Client
	microVMs  *podhost.Host // nil if this machine runs none
	log       *slog.Logger
	merged    bool

	stops  []func()   // in order of starting; run backwards
	failed chan error // the first part that failed while running
}

// start brings every part up in order. Parts live until runCtx is done; startCtx bounds the waiting.
func (l *local) start(runCtx, startCtx context.Context) error {
	l.failed = make(chan error, 1)
	if err := l.openLog(); err != nil {
		return err
	}
	for _, part := range []func(run, start context.Context) error{
		l.startPlane, l.startRegion, l.installObjects, l.startNodes, l.startMicroVMs, l.startController, l.startPage, l.publish,
	} {
		if err := part(runCtx, startCtx); err != nil {
			return err
		}
	}
	return nil
}

// stop ends every part, the last started first.
func (l *local) stop() {
	for i := len(l.stops) - 1; i >= 0; i-- {
		l.stops[i]()
	}
	l.stops = nil
}

// spawn runs a part in the background until it is stopped; if it ends by itself, the whole cluster ends with its error.
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
		case l.failed <- fmt.Errorf("%s: %w; logs: %s", part, err, filepath.Join(l.o.dataDir, "logs")):
		default:
		}
	}()
	l.stops = append(l.stops, func() { cancel(); <-done })
}

// openLog sends what the controller, region and node simulator have to say to a file: the terminal is for people.
func (l *local) openLog() error {
	dir := filepath.Join(l.o.dataDir, "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("log folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "nodeless.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	l.log = slog.New(slog.NewTextHandler(f, nil))
	slog.SetDefault(l.log)
	l.stops = append(l.stops, func() { _ = f.Close() })
	return nil
}

func (l *local) startPlane(run, start context.Context) error {
	l.p.Begin("Kubernetes %s: etcd, API server, scheduler, controllers", plane.Version())
	var err error
	l.plane, err = plane.Start(start, plane.Options{DataDir: l.o.dataDir, ClientQPS: 1000, AuditLog: l.o.auditLog})
	if err != nil {
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

func (l *local) startRegion(run, start context.Context) error {
	l.p.Begin("Simulated AWS region %s", l.o.region)
	offers, err := l.o.offers()
	if err != nil {
		return err
	}
	r, err := region.Open(region.Config{
		Name: l.o.region, Offers: offers, Dir: filepath.Join(l.o.dataDir, "region"), Seed: l.o.seed, Clock: clock.Real{},
		Boot: region.BootTime{Median: l.o.bootTime},
	})
	if err != nil {
		return err
	}
	if err := errors.Join(l.o.keepTypes(), os.WriteFile(regionFile(l.o.dataDir), []byte(l.o.region+"\n"), 0o600)); err != nil {
		_ = r.Close()
		return fmt.Errorf("region: %w", err)
	}
	l.region = r
	l.stops = append(l.stops, func() { _ = r.Close() })
	err = r.SetCluster(region.ClusterInfo{
		Name: clusterName, Version: minor(l.plane.Version()), Endpoint: l.plane.APIServerURL(),
		CA: string(l.plane.CABundle()), ServiceCIDR: l.plane.ServiceCIDR(),
	})
	if err != nil {
		return fmt.Errorf("region: name the cluster to EKS: %w", err)
	}
	if err := l.serveRegion(run, start); err != nil {
		return err
	}
	l.p.Done("%s", l.regionURL)
	return nil
}

// serveRegion listens where it listened before, so that AWS_ENDPOINT_URL stays good over restarts; on another free port
// if that one was taken meanwhile.
func (l *local) serveRegion(run, start context.Context) error {
	portFile := filepath.Join(l.o.dataDir, "region", "address")
	addr := "127.0.0.1:0"
	if kept, err := os.ReadFile(portFile); err == nil && portIsFree(start, string(kept)) {
		addr = string(kept)
	}
	listening := make(chan net.Addr, 1)
	l.spawn(run, "region", func(ctx context.Context) error {
		return ec2api.Serve(ctx, addr, l.region, ec2api.Options{Log: l.log}, func(a net.Addr) { listening <- a })
	})
	select {
	case a := <-listening:
		l.regionURL = "http://" + a.String()
		return os.WriteFile(portFile, []byte(a.String()), 0o600)
	case err := <-l.failed:
		return err
	case <-start.Done():
		return context.Cause(start)
	}
}

// minor is "1.36" of "v1.36.2", as EKS writes versions.
func minor(version string) string {
	f := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(f[:min(2, len(f))], ".")
}

func portIsFree(ctx context.Context, addr string) bool {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func (l *local) installObjects(_, start context.Context) error {
	l.p.Begin("Node pool general-purpose")
	cfg := l.restConfig("nodeless-setup")
	if err := crds.Install(start, cfg); err != nil {
		return err
	}
	var err error
	if l.client, err = newClient(cfg); err != nil {
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
		l.p.Done("on-demand machines of your %d types, amd64", len(l.o.types.Types))
		return nil
	}
	l.p.Done("on-demand c, m and r machines, amd64")
	return nil
}

func (l *local) startNodes(run, _ context.Context) error {
	l.spawn(run, "node simulator", func(ctx context.Context) error {
		return nodesim.Run(ctx, nodesim.Options{
			REST: l.plane.RESTConfig(), Machines: regional.Machines(l.region), Clock: clock.Real{}, Log: l.log,
		})
	})
	return nil
}

func (l *local) startController(run, start context.Context) error {
	if !l.o.controller || !l.o.fargate {
		// An earlier run may have left them: nobody answers, and no pod could be created.
		if err := admission.Uninstall(start, l.client); err != nil {
			return err
		}
	}
	if !l.o.controller {
		l.p.Line("   Without the controller. Run it: AWS_ENDPOINT_URL=%s nodeless run --kubeconfig %s", l.regionURL, l.plane.Kubeconfig())
		return nil
	}
	l.p.Begin("Controller")
	profiles, err := l.fargate(start)
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	var once sync.Once
	l.spawn(run, "controller", func(ctx context.Context) error {
		o := l.controllerOptions(func() { once.Do(func() { close(ready) }) })
		o.Fargate = profiles
		return controller.Run(ctx, o)
	})
	select {
	case <-ready:
		l.p.Done("")
		return nil
	case err := <-l.failed:
		return err
	case <-start.Done():
		return fmt.Errorf("controller: %w", context.Cause(start))
	}
}

// fargate is what the controller needs to act upon FargateProfiles; nil if it is not to. Its webhook is on loopback, as all else.
func (l *local) fargate(ctx context.Context) (*controller.Fargate, error) {
	if !l.o.fargate {
		return nil, nil
	}
	f, err := listenForPods(ctx, "127.0.0.1:0", "")
	if err == nil && l.microVMs != nil {
		f.Hosts = []podnode.Host{l.microVMs}
	}
	return f, err
}

// startPage serves the page. Nothing is watched for it before somebody looks.
func (l *local) startPage(run, start context.Context) error {
	if l.o.page == "" {
		return nil
	}
	listener, err := listenPage(start, l.o.page, l.o.pageAsked)
	if err != nil {
		return fmt.Errorf("--page: %w", err)
	}
	l.pageURL = pageURL(listener)
	t := &target{rest: l.restConfig("nodeless-page"), of: `the cluster of "nodeless up"`}
	t.askSession(&session{Region: l.o.region, RegionURL: l.regionURL}, l.o.dataDir)
	l.spawn(run, "page", func(ctx context.Context) error {
		return (&page{t: t, policy: l.policy}).run(ctx, listener)
	})
	return nil
}

// publish makes the running cluster known: kubeconfig context and session file.
func (l *local) publish(_, _ context.Context) error {
	if l.o.kubeconfig {
		if err := kubeconfig.Merge(contextName, l.plane.Kubeconfig()); err != nil {
			l.p.Line("   The context %q was not added to your kubeconfig: %v", contextName, err)
		} else {
			l.merged = true
			l.stops = append(l.stops, func() { _ = kubeconfig.Remove(contextName) })
		}
	}
	s := session{
		PID: os.Getpid(), Started: time.Now(), Version: version, Kubeconfig: l.plane.Kubeconfig(),
		APIServer: l.plane.RESTConfig().Host, Region: l.o.region, RegionURL: l.regionURL,
		BootTime: l.o.bootTime, Context: contextName, Page: l.pageURL,
	}
	if err := s.save(l.o.dataDir); err != nil {
		return err
	}
	l.stops = append(l.stops, func() { _ = os.Remove(sessionFile(l.o.dataDir)) })
	return nil
}

// restConfig is a client configuration of one's own name and generous limits: the API server is ours alone.
func (l *local) restConfig(name string) *rest.Config {
	cfg := rest.CopyConfig(l.plane.RESTConfig())
	cfg.UserAgent = name
	cfg.QPS, cfg.Burst = 1000, 2000
	return cfg
}

// controllerOptions is the controller inside `nodeless up`: it reaches the region over the wire, like any AWS client.
func (l *local) controllerOptions(ready func()) controller.Options {
	ui := launchUI{l.p}
	return controller.Options{
		REST: l.restConfig("nodeless-controller"), Policy: l.policy, Gates: l.gates, Version: version, Log: l.log, Clock: clock.Real{}, DataDir: l.o.dataDir, OnReady: ready,
		OnDecision: func(d loop.Decision) {
			if l.o.demo {
				ui.show(d)
			}
		},
		Provider: awsProvider(aws.Options{
			AWS: awssdk.Config{
				Region: l.o.region, BaseEndpoint: &l.regionURL,
				Credentials: credentials.NewStaticCredentialsProvider("nodeless", "nodeless", ""),
			},
			ClusterName: clusterName, ClusterEndpoint: l.plane.APIServerURL(), ClusterCA: l.plane.CABundle(),
			ServiceCIDR: l.plane.ServiceCIDR(), InterruptionQueue: clusterName, TypeLabels: typeLabels(l.o.types), Log: l.log,
		}),
	}
}
