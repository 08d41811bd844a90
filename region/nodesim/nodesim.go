// Package nodesim does for simulated instances what a kubelet, a CNI plugin, a cloud controller and EKS's VPC
// resource controller do for real ones. A booted instance registers its Node with the labels and taints in its user
// data, renews its lease, assigns addresses or interfaces to pods, runs them, and stops them within their grace
// periods. When the instance is terminated, its Node is deleted.
//
// No container runs: processes are simulated. A pod that ends on its own (restartPolicy Never or OnFailure) succeeds
// after the time in its annotation nodeless.sh/run-for, after that of a `sleep` in its command, or after two seconds.
//
// Own code instead of kwok's packages: see docs/adr/0004-own-node-simulator.md.
package nodesim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/lease"
)

// Options configures a simulator.
type Options struct {
	REST      *rest.Config
	Instances Instances
	Clock     clock.Clock
	Log       *slog.Logger
	// Kubelets serves the API of the nodes' kubelets until its context ends; nil = it is not served. See package
	// kubelet.
	Kubelets func(context.Context, *Simulator) error
}

const (
	// Retries back off up to the interval between a kubelet's attempts to register (Kubernetes 1.36,
	// pkg/kubelet/kubelet_node_status.go).
	firstRetry, lastRetry = 20 * time.Millisecond, 7 * time.Second

	workers = 16 // concurrent API writes; the API server on two cores is saturated with fewer
)

// Simulator runs the instances of one region as Nodes of one cluster.
type Simulator struct {
	o       Options
	client  kubernetes.Interface
	events  record.EventBroadcaster
	pods    listers.PodLister
	byNode  cache.Indexer
	nodes   listers.NodeLister
	daemons daemonSets

	gpus *gpuDriver

	controller *resourceController

	queue  workqueue.TypedRateLimitingInterface[string]
	mu     sync.Mutex
	booted map[string]*instance // by node name
	gone   map[string]string    // by node name: provider ID of a terminated instance whose Node may still exist
	fakes  map[string]bool      // nodes that have no instance; see fakeInstance
	timers map[string]time.Time // by key: when it is queued next
}

type instance struct {
	Instance
	ending     bool
	published  bool // its devices are published
	registered bool // a kubelet creates its Node once; if the Node is deleted, it stays deleted
	cni        cniState
	cniPod     string          // UID of the aws-node pod that ran last
	cniNetwork *waitingNetwork // nil = the CNI is not waiting for an ENIConfig
}

const indexByNode = "node"

// Run simulates until ctx is done. It resumes instances that booted earlier, so a restart loses nothing.
func Run(ctx context.Context, o Options) error {
	cfg := rest.CopyConfig(o.REST)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cfg.UserAgent = "nodeless-nodesim"
	cfg.QPS, cfg.Burst = 2000, 4000
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("node simulator: client: %w", err)
	}
	s := &Simulator{
		o: o, client: client, events: events.Broadcast(ctx, client), booted: map[string]*instance{},
		gone: map[string]string{}, fakes: map[string]bool{}, timers: map[string]time.Time{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry,
			lastRetry)),
	}
	defer s.events.Shutdown()
	return s.run(ctx)
}

func (s *Simulator) run(ctx context.Context) error {
	defer s.queue.ShutDown()
	if err := s.watch(ctx); err != nil {
		return err
	}
	s.releaseLost()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { s.work(ctx) })
	}
	wg.Go(func() { lease.Renewer{Client: s.client, Clock: s.o.Clock, Log: s.o.Log, Nodes: s.leaseNodes}.Run(ctx) })
	if s.o.Kubelets != nil {
		wg.Go(func() {
			if err := s.o.Kubelets(ctx, s); err != nil && ctx.Err() == nil {
				s.o.Log.Error("node simulator: cannot serve the kubelet API of simulated nodes", "error", err)
			}
		})
	}
	for e := range s.o.Instances.Watch(ctx) {
		s.apply(e)
	}
	s.queue.ShutDown()
	wg.Wait()
	return context.Cause(ctx)
}

// watch starts the informers of bound pods and of nodes, and waits until both have synced.
func (s *Simulator) watch(ctx context.Context) error {
	slim := informers.WithTransform(func(o any) (any, error) {
		if m, ok := o.(metav1.Object); ok {
			m.SetManagedFields(nil)
		}
		return o, nil
	})
	bound := informers.NewSharedInformerFactoryWithOptions(s.client, 0, slim,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}))
	all := informers.NewSharedInformerFactoryWithOptions(s.client, 0, slim)
	system := informers.NewSharedInformerFactoryWithOptions(s.client, 0, slim, informers.WithNamespace(cniNamespace))
	settings := informers.NewSharedInformerFactoryWithOptions(s.client, 0, slim, informers.WithNamespace(cniNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", cniSettings).String()
		}))
	pods, nodes, daemons := bound.Core().V1().Pods(), all.Core().V1().Nodes(), system.Apps().V1().DaemonSets()
	s.pods, s.nodes, s.byNode = pods.Lister(), nodes.Lister(), pods.Informer().GetIndexer()
	s.daemons = daemonSets{daemons.Lister().DaemonSets(cniNamespace)}
	synced := []cache.InformerSynced{pods.Informer().HasSynced, nodes.Informer().HasSynced, daemons.Informer().HasSynced}
	s.controller = newResourceController(s)
	read, err := settings.Core().V1().ConfigMaps().Informer().AddEventHandler(s.controller.settingsHandler())
	if err != nil {
		return fmt.Errorf("node simulator: watch the VPC CNI's settings: %w", err)
	}
	synced = append(synced, read.HasSynced) // without them Windows nodes would stop to offer addresses
	err = pods.Informer().AddIndexers(cache.Indexers{indexByNode: func(o any) ([]string, error) {
		return []string{o.(*corev1.Pod).Spec.NodeName}, nil
	}})
	if err != nil {
		return fmt.Errorf("node simulator: %w", err)
	}
	if _, err := pods.Informer().AddEventHandler(s.handler("pod/")); err != nil {
		return fmt.Errorf("node simulator: watch pods: %w", err)
	}
	if _, err := nodes.Informer().AddEventHandler(s.handler("node/")); err != nil {
		return fmt.Errorf("node simulator: watch nodes: %w", err)
	}
	classes := all.Resource().V1().DeviceClasses()
	s.gpus = &gpuDriver{sim: s, classes: classes.Lister()}
	came := cache.ResourceEventHandlerFuncs{AddFunc: s.gpus.classCame}
	if _, err := classes.Informer().AddEventHandler(came); err != nil {
		return fmt.Errorf("node simulator: watch device classes: %w", err)
	}
	bound.Start(ctx.Done())
	all.Start(ctx.Done())
	system.Start(ctx.Done())
	settings.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("node simulator: stopped before pods and nodes were read")
	}
	return nil
}

// releaseLost releases the addresses of pods that were deleted while the simulator was not running.
func (s *Simulator) releaseLost() {
	alive := map[string]bool{}
	for _, o := range s.byNode.List() {
		alive[string(o.(*corev1.Pod).UID)] = true
	}
	for _, uid := range s.o.Instances.PodsWithIP() {
		if !alive[uid] {
			s.o.Instances.ReleasePodIP(uid)
		}
	}
}

// instance returns the running instance of a node, real or fake, or nil.
func (s *Simulator) instance(node string) *Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.booted[node]
	switch {
	case m == nil:
		return s.fakeInstance(node)
	case m.ending:
		return nil
	}
	return &m.Instance
}
