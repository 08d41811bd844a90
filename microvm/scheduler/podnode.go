package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// Options are what a Scheduler needs.
type Options struct {
	Cache    cache.Cache          // required; pods of SchedulerName whole; New adds an index, so it must not be started before
	Client   client.Client        // required; reads from the API server itself
	Kube     kubernetes.Interface // required; for leases
	Names    *translate.Names     // required
	Recorder events.Recorder      // required; its source is fargate-scheduler
	Hosts    []Host               // those that are there from the beginning
	// HostGrace is how long a host may be away before its pods are given up; default 50 s, when a Node of any kind is called
	// unknown (kube-controller-manager --node-monitor-grace-period).
	HostGrace time.Duration
	// Logging says whether the logs of a profile's new pod are routed; nil = nothing is told of it.
	Logging func(context.Context, *v1alpha1.FargateProfileSpec) fargate.LogState
	Clock   clock.Clock  // default the real one
	Log     *slog.Logger // default slog.Default
}

// How many pods are worked on at the same time: the work is requests to the API server.
const workers = 16

// Scheduler is the scheduler of pods in microVMs, and what a kubelet is for their Nodes.
type Scheduler struct {
	o        Options
	queue    *workqueue.Queue // pods, as namespace/name
	profiles *workqueue.Queue // names of profiles whose status may have changed

	wrotePods mutationcache.Cache[*corev1.Pod]
	leads     atomic.Bool   // Run was called
	hostNews  chan struct{} // a host may have gone or come back

	mu      sync.Mutex // guards all below
	hosts   map[string]registered
	started context.Context // of Run; nil before
	pods    map[types.UID]types.NamespacedName
	held    map[types.UID]hold
	waiting map[string]types.UID // pods that have no host, by their key in the queue
	failed  map[types.UID]failure
	stopped map[types.UID]int64 // the grace in seconds that Stop was called with
	nodes   map[types.UID]string
	addrs   map[types.UID]netip.Addr
	lost    map[string]time.Time // hosts that are not ready: since when
}

// hold is what a pod has of a host, from the moment it is chosen until the NodeClaim is gone.
type hold struct {
	host, profile string
	size          fargate.Size
}

// failure is of a microVM that could not be started.
type failure struct {
	times int
	until time.Time
}

// New is a Scheduler. It registers an index and handlers on the cache.
func New(ctx context.Context, o Options) (*Scheduler, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.HostGrace <= 0 {
		o.HostGrace = 50 * time.Second
	}
	s := &Scheduler{
		o: o, hostNews: make(chan struct{}, 1), hosts: map[string]registered{},
		queue: workqueue.New("microVM pod", o.Clock, o.Log), profiles: workqueue.New("FargateProfile", o.Clock, o.Log),
		pods: map[types.UID]types.NamespacedName{}, held: map[types.UID]hold{}, waiting: map[string]types.UID{}, failed: map[types.UID]failure{},
		stopped: map[types.UID]int64{}, nodes: map[types.UID]string{}, addrs: map[types.UID]netip.Addr{}, lost: map[string]time.Time{},
	}
	for _, h := range o.Hosts {
		s.AddHost(h)
	}
	if err := s.watch(ctx); err != nil {
		return nil, fmt.Errorf("microVM scheduler: %w", err)
	}
	return s, nil
}

// Run works until ctx is done. The cache must be synced.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.inherit(ctx); err != nil {
		return fmt.Errorf("microVM scheduler: %w", err)
	}
	var wg sync.WaitGroup
	s.watchAll(ctx)
	wg.Go(func() { s.queue.Run(ctx, workers, s.pod) })
	wg.Go(func() { s.profiles.Run(ctx, 1, s.profile) })
	wg.Go(func() { s.watchHosts(ctx) })
	wg.Go(func() {
		lease.Renewer{Client: s.o.Kube, Clock: s.o.Clock, Log: s.o.Log, Nodes: s.beating}.Run(ctx)
	})
	wg.Wait()
	return nil
}

// inherit takes over what is there: an earlier process may have begun it.
func (s *Scheduler) inherit(ctx context.Context) error {
	s.leads.Store(true) // before the lists: what changes from here on is an event
	var claims karpv1.NodeClaimList
	if err := s.o.Cache.List(ctx, &claims, client.HasLabels{labelPod}); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	for i := range claims.Items {
		s.take(&claims.Items[i])
	}
	var pods corev1.PodList
	if err := s.o.Cache.List(ctx, &pods, client.MatchingFields{byProfile: ours}); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range pods.Items {
		there[pods.Items[i].UID] = true
		s.sawPod(nil, &pods.Items[i])
	}
	for i := range claims.Items {
		if uid := types.UID(claims.Items[i].Labels[labelPod]); !there[uid] {
			if err := s.dropClaim(ctx, uid); err != nil {
				return err
			}
		}
	}
	var profiles v1alpha1.FargateProfileList
	if err := s.o.Cache.List(ctx, &profiles); err != nil {
		return fmt.Errorf("list FargateProfiles: %w", err)
	}
	for i := range profiles.Items {
		s.profiles.Add(profiles.Items[i].Name)
	}
	return nil
}

// take notes what a claim holds of a host.
func (s *Scheduler) take(claim *karpv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[types.UID(claim.Labels[labelPod])] = hold{host: claim.Labels[labelHost], profile: claim.Labels[fargate.ProfileLabel], size: sizeOf(claim)}
}

// dropClaim asks for the end of a pod's claim; lifecycle does the rest.
func (s *Scheduler) dropClaim(ctx context.Context, uid types.UID) error {
	claim := &karpv1.NodeClaim{}
	claim.Name = fargate.ClaimName(uid)
	if err := s.o.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete NodeClaim %s, whose pod is gone: %w", claim.Name, err)
	}
	return nil
}
