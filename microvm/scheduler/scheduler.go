// Package scheduler is fargate-scheduler: it gives each pod of a FargateProfile a microVM on a registered host, with
// its own NodeClaim and Node. Three roles share one record per pod (records):
//
//   - placer schedules: it chooses a host, creates the NodeClaim and binds the pod.
//   - nodes and podStatus act as the kubelet of each such Node: they create it, maintain its lease, conditions and
//     kubelet endpoint, write the pod's status and terminate the pod.
//   - provider is the cloud.Provider of the NodeClaims: controller/nodeclaim launches, registers, drains and terminates
//     them like those of instances.
//
// # States of a pod
//
// The state of a pod is derived from the API server alone, so that another process can continue where this one
// stopped. The pod's worker takes one step for each event that may make a step possible.
//
//	State        Seen by                              Next step                            Taken by
//	waiting      no NodeClaim                         reserve capacity, create NodeClaim   placer
//	claimed      NodeClaim without provider ID        start the microVM on its host        provider
//	launched     NodeClaim with provider ID, no Node  create the Node                      placer, nodes
//	registering  Node without the label "registered"  register the Node                    controller/nodeclaim
//	registered   Node with the label                  bind the pod                         placer
//	bound        spec.nodeName                        copy the host's status to the pod    podStatus
//	ending       deletionTimestamp                    stop the containers, delete the pod  podStatus
//	gone         no pod                               delete the NodeClaim                 Scheduler
package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/lease"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// Options configure a Scheduler.
type Options struct {
	// Cache is required. It holds complete pods of fargate-scheduler. It must not have been started, since New adds an
	// index.
	Cache    cache.Cache
	Client   client.Client        // required; reads from the API server, not from a cache
	Kube     kubernetes.Interface // required; for leases
	Names    *translate.Names     // required
	Recorder events.Recorder      // required; its source is fargate-scheduler
	Hosts    []microvm.Host       // registered from the start
	// HostGrace is how long a host may be lost before its pods are given up. It defaults to 50 s, after which
	// Kubernetes marks any node unknown (kube-controller-manager --node-monitor-grace-period).
	HostGrace time.Duration
	// Logging returns whether the logs of a profile's new pod are routed. If nil, nothing is reported about logging.
	Logging func(context.Context, *v1alpha1.FargateProfileSpec) fargate.LogState
	Clock   clock.Clock  // default: the real one
	Log     *slog.Logger // default: slog.Default
}

// workers is the number of pods processed concurrently. The work consists of requests to the API server.
const workers = 16

// Scheduler assigns pods to microVMs and maintains their Nodes.
type Scheduler struct {
	o        *Options
	pods     *records
	api      *api
	hosts    *hosts
	work     *work
	placer   *placer
	nodes    *nodes
	status   *podStatus
	provider *provider
	profiles *profiles
	monitor  *hostMonitor
}

// New returns a Scheduler. It registers an index and event handlers on the cache.
func New(ctx context.Context, o Options) (*Scheduler, error) {
	o.Clock, o.Log = cmp.Or[clock.Clock](o.Clock, clock.Real{}), cmp.Or(o.Log, slog.Default())
	if o.HostGrace <= 0 {
		o.HostGrace = 50 * time.Second
	}
	s := &Scheduler{o: &o, pods: newRecords(), api: &api{o: &o}}
	s.hosts = &hosts{o: &o, pods: s.pods, byName: map[string]*hostRecord{}, changed: s.hostChanged}
	s.work = newWork(&o, s.pods)
	s.nodes = &nodes{&o, s.pods, s.hosts}
	s.placer = &placer{&o, s.pods, s.hosts, s.api, s.nodes}
	s.status = &podStatus{&o, s.pods, s.hosts, s.api, s.nodes}
	s.provider = &provider{&o, s.pods, s.hosts}
	s.profiles = &profiles{&o, s.pods, s.hosts}
	s.monitor = &hostMonitor{&o, s.pods, s.hosts, s.api, s.nodes, s.work, signal.New()}
	for _, h := range o.Hosts {
		s.AddHost(h)
	}
	if err := s.watch(ctx); err != nil {
		return nil, fmt.Errorf("microVM scheduler: %w", err)
	}
	return s, nil
}

// AddHost registers a host, replacing an earlier one of the same name.
func (s *Scheduler) AddHost(h microvm.Host) { s.hosts.add(h) }

// RemoveHost forgets a host. Its pods are given up like those of a lost host.
func (s *Scheduler) RemoveHost(name string) {
	if s.hosts.remove(name) {
		s.hostChanged("")
	}
}

// Abilities returns the features that pods can rely on: those of the first ready host by name, else of the first host
// that has reported any, else the defaults.
func (s *Scheduler) Abilities() fargate.Abilities { return s.hosts.abilities() }

// Run works until ctx is done. The cache must be synced.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.resume(ctx); err != nil {
		return fmt.Errorf("microVM scheduler: %w", err)
	}
	s.hosts.watch(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.work.pods.Run(ctx, workers, s.pod) })
	wg.Go(func() { s.work.profiles.Run(ctx, 1, s.profiles.update) })
	wg.Go(func() { s.monitor.run(ctx) })
	wg.Go(func() {
		lease.Renewer{Client: s.o.Kube, Clock: s.o.Clock, Log: s.o.Log, Nodes: s.nodes.leases}.Run(ctx)
	})
	wg.Wait()
	return nil
}

// resume takes over the pods and NodeClaims of an earlier process.
func (s *Scheduler) resume(ctx context.Context) error {
	s.work.leads.Store(true) // before the lists: later changes are events
	var claims karpv1.NodeClaimList
	if err := s.o.Cache.List(ctx, &claims, client.HasLabels{labelPod}); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	for i := range claims.Items {
		s.pods.claimed(&claims.Items[i])
	}
	var pods corev1.PodList
	if err := s.o.Cache.List(ctx, &pods, client.MatchingFields{byProfile: ours}); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	exists := map[types.UID]bool{}
	for i := range pods.Items {
		exists[pods.Items[i].UID] = true
		s.podChanged(nil, &pods.Items[i])
	}
	for i := range claims.Items {
		if uid := podUID(&claims.Items[i]); !exists[uid] {
			if err := s.api.deleteClaim(ctx, uid); err != nil {
				return err
			}
		}
	}
	var profiles v1alpha1.FargateProfileList
	if err := s.o.Cache.List(ctx, &profiles); err != nil {
		return fmt.Errorf("list FargateProfiles: %w", err)
	}
	for i := range profiles.Items {
		s.work.profiles.Add(profiles.Items[i].Name)
	}
	return nil
}

// pod advances one pod by a step. It returns the delay after which to process it again, 0 to wait for the next event.
// The key is namespace/name, or the UID of a pod that no longer exists.
func (s *Scheduler) pod(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return 0, s.api.deleteClaim(ctx, types.UID(key))
	}
	pod := &corev1.Pod{}
	err := s.o.Cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read pod %s: %w", key, err)
	}
	if !isOurs(pod) {
		return 0, nil
	}
	pod = s.api.latest(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		s.pods.stopWaiting(pod.UID)
		return s.status.end(ctx, pod)
	case pod.Spec.NodeName != "":
		s.pods.stopWaiting(pod.UID)
		return s.status.report(ctx, pod)
	case len(pod.Spec.SchedulingGates) > 0 || terminal(pod):
		return 0, nil
	}
	return s.placer.schedule(ctx, pod)
}

func isOurs(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == fargate.SchedulerName }

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
