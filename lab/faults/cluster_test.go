package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
	"github.com/nodeless/nodeless/region/nodesim"
	"github.com/nodeless/nodeless/region/nodesim/regional"
)

const (
	regionName  = "us-west-2"
	clusterName = "nodeless"
)

var (
	podsGVR   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodesGVR  = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	claimsGVR = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
)

// machines are the instance types that the region offers.
var machines = &catalog.Own{
	Zones: []string{"us-west-2a", "us-west-2b"},
	Types: []catalog.OwnType{
		{Name: "two", VCPU: 2, MemoryMiB: 4096, OnDemand: 0.10, Spot: 0.04},
		{Name: "four", VCPU: 4, MemoryMiB: 8192, OnDemand: 0.19, Spot: 0.07},
		{Name: "eight", VCPU: 8, MemoryMiB: 16384, OnDemand: 0.36, Spot: 0.15},
	},
}

// cluster is everything but the controller under test. It has no faults.
type cluster struct {
	api    *apisim.Server
	region *region.Region
	aws    http.Handler
	client client.Client
	log    *slog.Logger
	labels func(instanceType string) map[string]string // of types that are not AWS's; may be nil

	ctx    context.Context
	cancel func()
	wg     sync.WaitGroup

	touches atomic.Int64
}

// start starts a cluster that runs until stop.
func start(t *testing.T, seed uint64, lag time.Duration) *cluster {
	t.Helper()
	offers, err := machines.Region()
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, region.Config{Offers: offers, Seed: seed, DescribeLag: lag})
	c.labels = machines.Labels
	c.run(t, "node simulator", func(ctx context.Context) error {
		return nodesim.Run(ctx, nodesim.Options{
			REST:      c.api.Config("nodesim", nil),
			Instances: regional.Instances(c.region), Clock: clock.Real{}, Log: c.log,
		})
	})
	c.runScheduler(t)
	c.runControllers(t)
	return c
}

// open returns a cluster with an API server and a region, but without anything that acts in them.
func open(t *testing.T, config region.Config) *cluster {
	t.Helper()
	c := &cluster{api: apisim.New(), log: slog.New(slog.DiscardHandler)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	config.Name, config.Clock, config.Boot = regionName, clock.Real{}, region.BootTime{Median: 20 * time.Second}
	var err error
	if c.region, err = region.Open(config); err != nil {
		t.Fatal(err)
	}
	err = c.region.SetCluster(region.ClusterInfo{
		Name: clusterName, Version: "1.36", Endpoint: "https://10.0.0.1", CA: "ca", ServiceCIDR: "10.96.0.0/16",
	})
	if err != nil {
		t.Fatal(err)
	}
	c.aws = awsapi.New(c.region, awsapi.Options{Log: c.log})
	if c.client, err = client.New(c.api.Config("story", nil),
		client.Options{Scheme: scheme(), HTTPClient: &http.Client{Transport: c.api}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// stop ends everything and waits for it.
func (c *cluster) stop() {
	c.cancel()
	c.wg.Wait()
	_ = c.region.Close()
	time.Sleep(10 * time.Second) // the scheduler's metrics recorders notice the end when they wake up
}

func (c *cluster) run(t *testing.T, what string, f func(context.Context) error) {
	c.wg.Go(func() {
		if err := f(c.ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the %s ended with %v", what, err)
		}
	})
}

func (c *cluster) kube(t *testing.T, agent string) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(c.api.Config(agent, nil))
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// runScheduler runs kube-scheduler itself, with its default profile.
func (c *cluster) runScheduler(t *testing.T) {
	t.Helper()
	kube := c.kube(t, "kube-scheduler")
	factory := scheduler.NewInformerFactory(kube, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kube.EventsV1()})
	s, err := scheduler.New(c.ctx, kube, factory, nil, profile.NewRecorderFactory(broadcaster))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(c.ctx.Done())
	c.run(t, "scheduler", func(ctx context.Context) error {
		defer factory.Shutdown()
		defer broadcaster.Shutdown()
		factory.WaitForCacheSync(ctx.Done())
		if err := s.WaitForHandlersSync(ctx); err != nil {
			return err
		}
		s.Run(ctx)
		return nil
	})
}

// runControllers runs those controllers of kube-controller-manager that the story needs.
func (c *cluster) runControllers(t *testing.T) {
	t.Helper()
	kube := c.kube(t, "kube-controller-manager")
	factory := informers.NewSharedInformerFactory(kube, 0)
	core, apps := factory.Core().V1(), factory.Apps().V1()
	sets := replicaset.NewReplicaSetController(c.ctx, apps.ReplicaSets(), core.Pods(), kube, replicaset.BurstReplicas)
	budgets := disruption.NewDisruptionController(c.ctx, core.Pods(), factory.Policy().V1().PodDisruptionBudgets(),
		core.ReplicationControllers(),
		apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), kube, nil, nil, kube.Discovery())
	orphans := podgc.NewPodGC(c.ctx, kube, core.Pods(), core.Nodes(), 1000)
	factory.Start(c.ctx.Done())
	for name, f := range map[string]func(context.Context){
		"ReplicaSet controller": func(ctx context.Context) { sets.Run(ctx, 2) }, "PDB controller": budgets.Run,
		"pod collector": orphans.Run,
	} {
		c.run(t, name, func(ctx context.Context) error {
			f(ctx)
			return nil
		})
	}
	c.run(t, "informers", func(ctx context.Context) error {
		<-ctx.Done()
		factory.Shutdown()
		return nil
	})
}

// RoundTrip responds to an AWS call.
func (c *cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	in := req.Clone(req.Context())
	in.Host = req.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	c.aws.ServeHTTP(w, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// touch changes an object behind the controller's back.
func (c *cluster) touch(objectPath string) {
	if last := path.Base(objectPath); last == "status" || last == "eviction" {
		objectPath = path.Dir(objectPath)
	}
	body := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, c.touches.Add(1))
	req, err := http.NewRequest(http.MethodPatch, "http://apisim"+objectPath, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", string(types.MergePatchType))
	req.Header.Set("User-Agent", "somebody")
	_, _ = c.api.RoundTrip(req) // if it exists
}
