package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// A microVM that cannot be started is tried again, later each time.
const (
	firstAgain = time.Second
	mostAgain  = time.Minute
)

// launch starts the microVM of a claim: image and kernel are fetched and booted while the Node is being made.
func (s *Scheduler) launch(ctx context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	uid := types.UID(req.Labels[labelPod])
	if uid == "" {
		return cloud.LaunchResult{}, fmt.Errorf("%w: NodeClaims of a FargateProfile are made for pods, by %s alone", cloud.ErrClassNotReady, fargate.SchedulerName)
	}
	s.mu.Lock()
	h, held := s.held[uid]
	key, there := s.pods[uid]
	s.mu.Unlock()
	host := s.host(req.Labels[labelHost])
	if !held || !there || host == nil {
		return cloud.LaunchResult{}, fmt.Errorf("%w: the pod or its host is gone", cloud.ErrNoCapacity)
	}
	pod := &corev1.Pod{}
	err := s.o.Cache.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) || err == nil && (pod.UID != uid || pod.DeletionTimestamp != nil) {
		return cloud.LaunchResult{}, fmt.Errorf("%w: pod %s is gone", cloud.ErrNoCapacity, key)
	}
	if err != nil {
		return cloud.LaunchResult{}, fmt.Errorf("read pod %s: %w", key, err)
	}
	ip, err := host.Start(ctx, Spec{ID: machineID(uid), Pod: pod, Size: h.size, Profile: h.profile})
	if err != nil {
		s.again(pod, err)
		return cloud.LaunchResult{}, fmt.Errorf("%w: start the microVM of pod %s on host %s: %w", cloud.ErrNoCapacity, key, h.host, err)
	}
	s.mu.Lock()
	s.addrs[uid] = ip
	delete(s.failed, uid)
	s.mu.Unlock()
	m := s.machine(uid, host.Describe())
	m.Labels, m.Launched = hostLabels(host.Describe(), h.size), s.o.Clock.Now()
	list := h.size.List()
	if m.Capacity, err = s.o.Names.Resources(list); err != nil {
		return cloud.LaunchResult{}, fmt.Errorf("size of pod %s: %w", key, err)
	}
	m.Allocatable = m.Capacity
	m.Capacity[model.Pods] = 1 // for its own; for others there is no room
	return cloud.LaunchResult{Instance: m}, nil
}

// again has a pod wait a while after its microVM could not be started.
func (s *Scheduler) again(pod *corev1.Pod, why error) {
	s.mu.Lock()
	f := s.failed[pod.UID]
	wait := min(firstAgain<<min(f.times, 10), mostAgain)
	s.failed[pod.UID] = failure{times: f.times + 1, until: s.o.Clock.Now().Add(wait)}
	s.mu.Unlock()
	s.o.Recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling",
		fmt.Sprintf("Pod provisioning failed (will retry) for pod: %s/%s: %v", pod.Namespace, pod.Name, why))
}

func (s *Scheduler) machine(uid types.UID, d Description) cloud.Instance {
	id := machineID(uid)
	return cloud.Instance{ID: id, ProviderID: providerID(d.Name, id), Claim: fargate.ClaimName(uid), Zone: d.Zone, State: cloud.Running}
}

// terminate takes a microVM away; ErrNotFound when that is done.
func (s *Scheduler) terminate(ctx context.Context, id string) error {
	for name, h := range s.allHosts() {
		err := h.Remove(ctx, id)
		if err != nil && !errors.Is(err, ErrUnknown) && !s.isLost(name) {
			return fmt.Errorf("remove %s from host %s: %w", id, name, err)
		}
	}
	return fmt.Errorf("%s: %w", id, cloud.ErrNotFound)
}

// isLost reports whether a host has been away for so long that its pods were given up.
func (s *Scheduler) isLost(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, lost := s.lost[host]
	return lost && s.o.Clock.Now().Sub(since) >= s.o.HostGrace
}

func (s *Scheduler) get(ctx context.Context, id string) (cloud.Instance, error) {
	for name, h := range s.allHosts() {
		_, err := h.Status(ctx, id)
		switch {
		case err == nil:
			return s.machine(podOf(id), h.Describe()), nil
		case !errors.Is(err, ErrUnknown) && !s.isLost(name):
			return cloud.Instance{}, fmt.Errorf("look for %s on host %s: %w", id, name, err)
		}
	}
	return cloud.Instance{}, fmt.Errorf("%s: %w", id, cloud.ErrNotFound)
}

func (s *Scheduler) list(ctx context.Context) ([]cloud.Instance, error) {
	var out []cloud.Instance
	for name, h := range s.allHosts() {
		ids, err := h.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("list microVMs of host %s: %w", name, err)
		}
		for _, id := range ids {
			if uid := podOf(id); uid != "" {
				out = append(out, s.machine(uid, h.Describe()))
			}
		}
	}
	return out, nil
}
