package controller

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/admission"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/remote"
	"github.com/nodeless/nodeless/microvm/scheduler"
)

// Fargate holds the options for pods in microVMs.
type Fargate struct {
	Hosts     []microvm.Host
	HostGrace time.Duration // scheduler.Options.HostGrace
	HostAway  time.Duration // remote.Options.Away
	// At is where API servers reach the Listener. The controller closes the Listener.
	At       admission.Place
	Listener net.Listener
	// Namespace is that of the Secret with the webhook's certificates; default kube-system.
	Namespace string
}

// fargateComponents are the webhook, which every replica serves, and the scheduler, which only the leader runs.
type fargateComponents struct {
	webhook   *admission.Server
	scheduler *scheduler.Scheduler
	hosts     *remote.Hosts
	ready     chan struct{} // closed when the webhook is registered
}

func (r *components) buildFargate(ctx context.Context, o Options, kube kubernetes.Interface,
	api client.Client,
) (*fargateComponents, error) {
	f := &fargateComponents{ready: make(chan struct{})}
	f.webhook = admission.New(admission.Options{
		Client: api, At: o.Fargate.At, Listener: o.Fargate.Listener, Namespace: cmp.Or(o.Fargate.Namespace, "kube-system"),
		Profiles: func() []*v1alpha1.FargateProfile { return r.fargateProfiles(ctx) },
		Able:     func() fargate.Abilities { return f.scheduler.Abilities() }, Clock: o.Clock, Log: o.Log,
	})
	if err := informer.Watch(ctx, r.cache, &v1alpha1.FargateProfile{},
		func(_, _ client.Object) { f.webhook.ProfilesChanged() }); err != nil {
		return nil, err
	}
	var err error
	f.scheduler, err = scheduler.New(ctx, scheduler.Options{
		Cache: r.cache, Client: api, Kube: kube, Names: r.state.Names(), Hosts: o.Fargate.Hosts,
		HostGrace: o.Fargate.HostGrace, Clock: o.Clock, Log: o.Log,
		Recorder: r.events.NewRecorder(scheme(), corev1.EventSource{Component: fargate.SchedulerName}),
		Logging:  f.webhook.Logging,
	})
	if err != nil {
		return nil, err
	}
	f.hosts, err = remote.New(ctx, remote.Options{
		Cache: r.cache, Client: api, Kube: kube, Registry: f.scheduler, Own: names(o.Fargate.Hosts),
		Away: o.Fargate.HostAway, Clock: o.Clock, Log: o.Log,
	})
	return f, err
}

func names(hosts []microvm.Host) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Describe().Name)
	}
	return out
}

// fargateProfiles returns all FargateProfiles. They must not be modified.
func (r *components) fargateProfiles(ctx context.Context) []*v1alpha1.FargateProfile {
	var list v1alpha1.FargateProfileList
	if err := r.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has stopped
	}
	out := make([]*v1alpha1.FargateProfile, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out
}

func (f *fargateComponents) serve(ctx context.Context) error {
	if err := f.webhook.Run(ctx, func() { close(f.ready) }); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// lead runs what only the leader does.
func (f *fargateComponents) lead(ctx context.Context, group *errgroup.Group) {
	f.webhook.ProfilesChanged() // writes it again: a former leader without Fargate may have deleted it, see retireWebhook
	group.Go(func() error { return f.scheduler.Run(ctx) })
	group.Go(func() error { return f.hosts.Run(ctx) })
}

// retireWebhook keeps the webhook deleted that this controller's Service served while Fargate was on: API servers would
// refuse pods because nobody answers. Replicas that are being replaced may still write it, so it is read again.
func (r *components) retireWebhook(ctx context.Context, o Options) error {
	for ctx.Err() == nil {
		if err := admission.Retire(ctx, r.api, o.Service); err != nil && ctx.Err() == nil {
			o.Log.Warn("cannot delete the webhook of FargateProfiles, which are off; trying again", "error", err)
		}
		_ = clock.Sleep(ctx, o.Clock, time.Minute) // or until ctx is done
	}
	return nil
}

// webhookWait is how long the controller waits for the webhook before it acts. A cluster that refuses the webhook
// still gets nodes.
const webhookWait = 10 * time.Second

func (f *fargateComponents) awaitWebhook(ctx context.Context, c clock.Clock) {
	_ = clock.SleepOr(ctx, c, webhookWait, f.ready)
}
