// Package controller assembles the controller of a cluster from its components: one cache, one cluster state, one
// decision cycle, and the controllers of NodeClaims, NodePools and node classes, all in one process.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/vpccni"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller/apply"
	"github.com/nodeless/nodeless/controller/automode"
	"github.com/nodeless/nodeless/controller/buffers"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/controller/nodeclaim"
	"github.com/nodeless/nodeless/controller/status"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/internal/kit/events"
	"k8s.io/client-go/tools/record"
)

// Run controls a cluster until ctx is done, then returns nil. An error says why it cannot go on.
func Run(ctx context.Context, o Options) error {
	o, err := o.defaults()
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(o.REST)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	h := &health{clock: o.Clock}
	stopServers, err := serve(o, h)
	if err != nil {
		return err
	}
	defer stopServers()
	if err := awaitCRDs(ctx, kube.Discovery(), neededFor(o)); err != nil {
		return stopped(ctx, o.Log, err)
	}
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	r, err := build(life, o, kube)
	if err != nil {
		return stopped(ctx, o.Log, err)
	}
	defer r.events.Shutdown()
	h.registry.Store(r.registry)
	r.progress = h.progressed
	return stopped(ctx, o.Log, r.run(life, end, o, h))
}

// stopped returns the error with which a run ended. Once ctx is done it returns nil: an error at that point, such as
// an informer refusing another handler, is a consequence of the shutdown and is only logged.
func stopped(ctx context.Context, log *slog.Logger, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Warn("failed while it was being stopped", "error", err)
	}
	return nil
}

func build(ctx context.Context, o Options, kube kubernetes.Interface) (*components, error) {
	version, err := kubernetesVersion(kube.Discovery())
	if err != nil {
		return nil, err
	}
	r := &components{registry: newRegistry(o.Version), events: events.Broadcast(ctx, kube), gates: supported(o, version)}
	if err := r.openCache(o, kube); err != nil {
		return nil, err
	}
	api, err := client.New(o.REST, client.Options{Scheme: scheme()}) // built-in kinds use protobuf by default
	if err != nil {
		return nil, fmt.Errorf("controller: client: %w", err)
	}
	r.api = api
	recorder := r.events.NewRecorder(scheme(), corev1.EventSource{Component: "karpenter"})
	classes, groups, err := newClasses(ctx, o, kube.Discovery(), r.cache)
	if err != nil {
		return nil, err
	}
	r.state = cluster.New(cluster.Options{
		Clock: o.Clock, Scheduler: o.Scheduler, Overlays: r.gates.NodeOverlay, BuiltInCNI: o.AutoMode.HasCNI(),
		NoStatic: !r.gates.StaticCapacity, NoDevices: o.IgnoreDRA, Readable: readable(api, o.Log), Networks: r.networks,
		ClassKinds: classes.Kinds, Apart: func(pod *corev1.Pod) bool { return r.apart(ctx, pod) },
	})
	r.counters = metrics.New(r.registry)
	r.applier = apply.New(apply.Options{
		Client: api, State: r.state, Recorder: recorder, Clock: o.Clock, Log: o.Log, Metrics: r.counters,
		Parallel: 16 * o.Parallel,
	})
	r.records = store.New(store.Options{
		Client: api, Cache: r.cache, State: r.state, Clock: o.Clock, Log: o.Log, Metrics: r.counters,
	})
	if o.AutoMode != nil {
		r.autoMode, err = automode.New(ctx, automode.Options{
			Settings: *o.AutoMode, Cache: r.cache, Client: api, Recorder: recorder, Clock: o.Clock, Log: o.Log,
		})
		if err != nil {
			return nil, fmt.Errorf("controller: %w", err)
		}
	}
	provider, err := r.newProvider(ctx, o, classes, version, kube.Discovery())
	if err != nil {
		return nil, err
	}
	if err := r.buildNodeGroups(ctx, o, groups, provider, api, recorder); err != nil {
		return nil, err
	}
	instances := provider
	if o.Fargate != nil {
		if r.fargate, err = r.buildFargate(ctx, o, kube, api); err != nil {
			return nil, fmt.Errorf("controller: %w", err)
		}
		instances = r.fargate.scheduler.Multiplex(provider)
	}
	return r, r.buildControllers(ctx, o, api, recorder, classes, provider, instances)
}

// newClasses returns the node classes of all kinds that this controller manages. groups reports whether NodeGroups are
// among them.
func newClasses(ctx context.Context, o Options, d discovery.ServerResourcesInterface, c cache.Cache,
) (classes *status.Classes, groups bool, err error) {
	kinds, err := servedKinds(d, o.ClassKinds)
	if err != nil {
		return nil, false, err
	}
	classes = status.NewClasses(ctx, c, kinds...)
	if o.AutoMode != nil {
		classes.AddNodeClass()
	}
	groups, err = addNodeGroup(d, classes)
	return classes, groups, err
}

// openCache creates the cache and checks whether the API server serves ENIConfigs.
func (r *components) openCache(o Options, kube kubernetes.Interface) (err error) {
	if r.cache, err = newCache(o.REST); err != nil {
		return fmt.Errorf("controller: cache: %w", err)
	}
	r.networks, err = serves(kube.Discovery(), vpccni.GroupVersion.String(), "ENIConfig")
	return err
}

// buildControllers builds the controllers of NodeClaims, statuses and capacity buffers. provider launches only
// instances; instances also launches microVMs.
func (r *components) buildControllers(ctx context.Context, o Options, api client.Client, recorder record.EventRecorder,
	classes *status.Classes, provider, instances cloud.Provider,
) (err error) {
	r.nodeClaims, err = nodeclaim.New(ctx, nodeclaim.Options{
		Cloud: instances, Cache: r.cache, Client: api, Cluster: r.state, Recorder: recorder, Clock: o.Clock, Log: o.Log,
		RefreshClass: func(ctx context.Context, ref cloud.ClassRef) { classes.Refresh(ctx, api, ref) },
		Annotations:  classAnnotations(classes, provider), Metrics: r.counters, Gates: r.gates, Launches: 64 * o.Parallel,
		Registered: func(claim *karpv1.NodeClaim, yes bool) { r.status.Registered(claim, yes) }, Deleting: r.records.Deleting,
		Nominate: r.applier.Nominate, Preflight: o.Policy.Preflight == model.Enforce,
	})
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	r.status, err = status.New(ctx, status.Options{
		Provider: provider, Classes: classes, Cache: r.cache, Client: api, Cluster: r.state, Recorder: recorder,
		Refresh: o.ClassRefresh, OnClass: r.nodeClaims.ClassChanged,
		Overlays: r.gates.NodeOverlay, Networks: r.networks, Preflight: o.Policy.Preflight, Clock: o.Clock, Log: o.Log,
		WindowsIPAM: r.networks && readable(api, o.Log)(ctx, &corev1.ConfigMap{}),
	})
	if err != nil {
		return fmt.Errorf("controller: status: %w", err)
	}
	if r.ahead, err = r.newAhead(ctx, o, api, recorder); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if r.gates.CapacityBuffer {
		r.buffers, err = buffers.New(ctx, buffers.Options{
			Cache: r.cache, Client: api, Cluster: r.state, Recorder: recorder, Clock: o.Clock, Log: o.Log,
		})
		if err != nil {
			return fmt.Errorf("controller: %w", err)
		}
	}
	return nil
}

// newRegistry returns a registry with metrics of the process.
func newRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics.SetBuild(r, version)
	return r
}

// newProvider connects to the cloud and counts its calls. The cloud follows the version of the API server.
func (r *components) newProvider(ctx context.Context, o Options, classes *status.Classes, version string,
	d discovery.ServerVersionInterface,
) (cloud.Provider, error) {
	provider, err := o.Provider(ctx, classes.Get, version)
	if err != nil {
		return nil, fmt.Errorf("controller: cloud provider: %w", err)
	}
	if observed, ok := provider.(cloud.Observed); ok {
		observed.Observe(r.counters)
	}
	if follower, ok := provider.(cloud.VersionFollower); ok {
		follower.FollowVersion(func() (string, error) { return kubernetesVersion(d) })
	}
	return provider, nil
}

// classAnnotations returns a function that returns the annotations with the hash of a claim's node class, which drift
// detection compares later. That of an edited class is not written on it yet, but the launch uses the new spec.
func classAnnotations(classes *status.Classes, provider cloud.Provider) func(*karpv1.NodeClaim) map[string]string {
	hasher, _ := provider.(status.Hasher)
	return func(claim *karpv1.NodeClaim) map[string]string {
		class := classes.Get(cluster.ClassRef(claim.Spec.NodeClassRef))
		if class == nil {
			return nil
		}
		hash, version := aws.HashKeys(class)
		if class.Annotations[hash] == "" {
			return nil
		}
		if hasher != nil {
			if now := hasher.ClassHash(class); now != "" {
				return map[string]string{hash: now, version: ec2v1.EC2NodeClassHashVersion}
			}
		}
		return map[string]string{hash: class.Annotations[hash], version: class.Annotations[version]}
	}
}

// kubernetesVersion returns the API server's version as major.minor.
func kubernetesVersion(d discovery.ServerVersionInterface) (string, error) {
	v, err := d.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("controller: version of the API server: %w", err)
	}
	return v.Major + "." + strings.TrimRight(v.Minor, "+"), nil
}

// supported returns the gates of o. It closes Nominations if the API server is older than 1.35, the first version in
// which components other than kube-scheduler may nominate pods (feature gate NominatedNodeNameForExpectation) and in
// which binding a pod clears its nomination.
func supported(o Options, version string) gates.Gates {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); o.Gates.Nominations && (n < 2 || major == 1 && minor < 35) {
		o.Log.Info("pods are not nominated to the nodes launched for them: this requires Kubernetes 1.35 or newer",
			"version", version)
		o.Gates.Nominations = false
	}
	return o.Gates
}
