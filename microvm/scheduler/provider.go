package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// provider launches and terminates microVMs as cloud.Provider does for instances.
type provider struct {
	o     *Options
	pods  *records
	hosts *hosts
}

// The delay before a failed start of a microVM is retried; it doubles each time.
const (
	firstRetry = time.Second
	maxRetry   = time.Minute
)

// launch starts the microVM of a NodeClaim. Its image and kernel are fetched and booted while the Node is created.
func (p *provider) launch(ctx context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	uid := types.UID(req.Labels[labelPod])
	if uid == "" {
		return cloud.LaunchResult{}, fmt.Errorf("%w: NodeClaims of a FargateProfile are made for pods, by %s alone",
			cloud.ErrClassNotReady, fargate.SchedulerName)
	}
	r, host := p.pods.get(uid), p.hosts.get(req.Labels[labelHost])
	if r.claim == nil || r.key == (types.NamespacedName{}) || host == nil {
		return cloud.LaunchResult{}, fmt.Errorf("%w: the pod or its host is gone", cloud.ErrNoCapacity)
	}
	pod := &corev1.Pod{}
	err := p.o.Cache.Get(ctx, r.key, pod)
	if apierrors.IsNotFound(err) || err == nil && (pod.UID != uid || pod.DeletionTimestamp != nil) {
		return cloud.LaunchResult{}, fmt.Errorf("%w: pod %s is gone", cloud.ErrNoCapacity, r.key)
	}
	if err != nil {
		return cloud.LaunchResult{}, fmt.Errorf("read pod %s: %w", r.key, err)
	}
	ip, err := host.Start(ctx, r.claim.spec(pod))
	if err != nil {
		p.delay(pod, err)
		return cloud.LaunchResult{}, fmt.Errorf("%w: start the microVM of pod %s on host %s: %w",
			cloud.ErrNoCapacity, r.key, r.claim.host, err)
	}
	p.pods.update(uid, func(r *record) { r.address, r.failures, r.retryAt = ip, 0, time.Time{} })
	m := p.instance(uid, host.Describe())
	m.Labels, m.Launched = hostLabels(host.Describe(), r.claim.size), p.o.Clock.Now()
	if m.Capacity, err = p.o.Names.Resources(r.claim.size.List()); err != nil {
		return cloud.LaunchResult{}, fmt.Errorf("size of pod %s: %w", r.key, err)
	}
	m.Allocatable = m.Capacity
	m.Capacity[model.Pods] = 1 // for its own pod; none are left for others
	return cloud.LaunchResult{Instance: m}, nil
}

// delay delays the retry of a pod whose microVM could not be started.
func (p *provider) delay(pod *corev1.Pod, why error) {
	p.pods.update(pod.UID, func(r *record) {
		r.retryAt = p.o.Clock.Now().Add(min(firstRetry<<min(r.failures, 10), maxRetry))
		r.failures++
	})
	p.o.Recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling",
		fmt.Sprintf("Pod provisioning failed (will retry) for pod: %s/%s: %v", pod.Namespace, pod.Name, why))
}

func (p *provider) instance(uid types.UID, d microvm.Description) cloud.Instance {
	id := vmID(uid)
	return cloud.Instance{
		ID: id, ProviderID: providerID(d.Name, id), Claim: fargate.ClaimName(uid), Zone: d.Zone, State: cloud.Running,
	}
}

// terminate removes a microVM. It returns ErrNotFound once the microVM is gone.
func (p *provider) terminate(ctx context.Context, id string) error {
	for name, h := range p.hosts.registered() {
		err := h.Remove(ctx, id)
		if err != nil && !errors.Is(err, microvm.ErrUnknown) && !p.hosts.givenUp(name) {
			return fmt.Errorf("remove %s from host %s: %w", id, name, err)
		}
	}
	return fmt.Errorf("%s: %w", id, cloud.ErrNotFound)
}

func (p *provider) get(ctx context.Context, id string) (cloud.Instance, error) {
	for name, h := range p.hosts.registered() {
		_, err := h.Status(ctx, id)
		switch {
		case err == nil:
			return p.instance(podOf(id), h.Describe()), nil
		case !errors.Is(err, microvm.ErrUnknown) && !p.hosts.givenUp(name):
			return cloud.Instance{}, fmt.Errorf("look for %s on host %s: %w", id, name, err)
		}
	}
	return cloud.Instance{}, fmt.Errorf("%s: %w", id, cloud.ErrNotFound)
}

func (p *provider) list(ctx context.Context) ([]cloud.Instance, error) {
	var out []cloud.Instance
	for name, h := range p.hosts.registered() {
		ids, err := h.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("list microVMs of host %s: %w", name, err)
		}
		for _, id := range ids {
			if uid := podOf(id); uid != "" {
				out = append(out, p.instance(uid, h.Describe()))
			}
		}
	}
	return out, nil
}

// Multiplex returns a cloud in which NodeClaims of FargateProfiles are microVMs of s and all others are instances of
// base. It has the abilities of base.
func (s *Scheduler) Multiplex(base cloud.Provider) cloud.Provider {
	return multiplexer{base, s.provider}
}

// multiplexer delegates everything but microVMs to the base.
type multiplexer struct {
	cloud.Provider
	vms *provider
}

func isMicroVM(id string) bool { return strings.HasPrefix(id, idPrefix) }

// Launch implements cloud.Provider.
func (m multiplexer) Launch(ctx context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	if req.Class.Group == v1alpha1.GroupVersion.Group && req.Class.Kind == classKind {
		return m.vms.launch(ctx, req)
	}
	return m.Provider.Launch(ctx, req)
}

// Terminate implements cloud.Provider.
func (m multiplexer) Terminate(ctx context.Context, id string) error {
	if isMicroVM(id) {
		return m.vms.terminate(ctx, id)
	}
	return m.Provider.Terminate(ctx, id)
}

// Get implements cloud.Provider.
func (m multiplexer) Get(ctx context.Context, id string) (cloud.Instance, error) {
	if isMicroVM(id) {
		return m.vms.get(ctx, id)
	}
	return m.Provider.Get(ctx, id)
}

// List implements cloud.Provider.
func (m multiplexer) List(ctx context.Context) ([]cloud.Instance, error) {
	instances, err := m.Provider.List(ctx)
	if err != nil {
		return nil, err
	}
	vms, err := m.vms.list(ctx)
	return append(instances, vms...), err
}

// Interruptions returns the base's interruptions. If the base has none, it blocks until ctx is done.
func (m multiplexer) Interruptions(ctx context.Context) ([]cloud.Interruption, error) {
	if source, ok := m.Provider.(cloud.Interrupter); ok {
		return source.Interruptions(ctx)
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Done implements cloud.Interrupter.
func (m multiplexer) Done(ctx context.Context, notices ...cloud.Interruption) error {
	if source, ok := m.Provider.(cloud.Interrupter); ok {
		return source.Done(ctx, notices...)
	}
	return nil
}

// Unhealthy implements cloud.HealthChecker.
func (m multiplexer) Unhealthy(ctx context.Context) ([]cloud.Interruption, error) {
	if source, ok := m.Provider.(cloud.HealthChecker); ok {
		return source.Unhealthy(ctx)
	}
	return nil, nil
}

// Drifted implements cloud.Drifter.
func (m multiplexer) Drifted(ctx context.Context, instance cloud.Launched) (string, error) {
	if source, ok := m.Provider.(cloud.Drifter); ok && !isMicroVM(instance.InstanceID) {
		return source.Drifted(ctx, instance)
	}
	return "", nil
}

// Ended implements cloud.Ender.
func (m multiplexer) Ended(ctx context.Context, id string) (cloud.Ending, error) {
	if source, ok := m.Provider.(cloud.Ender); ok && !isMicroVM(id) {
		return source.Ended(ctx, id)
	}
	return cloud.Ending{}, nil
}

// Reservations implements cloud.Reserver.
func (m multiplexer) Reservations(ctx context.Context, class cloud.ClassRef) ([]model.Reservation, error) {
	if source, ok := m.Provider.(cloud.Reserver); ok {
		return source.Reservations(ctx, class)
	}
	return nil, nil
}

// RepairPolicies implements cloud.Repairer.
func (m multiplexer) RepairPolicies() []cloud.RepairPolicy {
	if source, ok := m.Provider.(cloud.Repairer); ok {
		return source.RepairPolicies()
	}
	return nil
}
