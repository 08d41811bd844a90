package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/lease"
)

// hostsEvery is how often hosts are looked at that say nothing of themselves.
const hostsEvery = 5 * time.Second

// makeNode creates the Node of a microVM. While a Node of the same name is there, of an earlier pod with the address, it is
// tried again.
func (s *Scheduler) makeNode(ctx context.Context, claim *karpv1.NodeClaim, h hold, ip netip.Addr) error {
	host := s.host(h.host)
	if host == nil {
		return fmt.Errorf("host %s of NodeClaim %s is not registered", h.host, claim.Name)
	}
	uid := types.UID(claim.Labels[labelPod])
	s.mu.Lock()
	s.addrs[uid] = ip
	s.mu.Unlock()
	node := newNode(claim, host.Describe(), ip, metav1.NewTime(s.o.Clock.Now()))
	err := s.o.Client.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		have := &corev1.Node{}
		if err := s.o.Client.Get(ctx, client.ObjectKeyFromObject(node), have); err == nil && have.Labels[labelPod] == string(uid) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("create Node %s: %w", node.Name, err)
	}
	return nil
}

// beating are the Nodes whose leases are to be kept: those of hosts that are ready, or start again beside microVMs that never ended.
func (s *Scheduler) beating() []lease.Node {
	ready := map[string]bool{}
	for name, h := range s.allHosts() {
		d := h.Describe()
		ready[name] = d.Ready || d.Starting
	}
	s.mu.Lock()
	names := make([]string, 0, len(s.nodes))
	for uid, name := range s.nodes {
		if ready[s.held[uid].host] {
			names = append(names, name)
		}
	}
	s.mu.Unlock()
	out := make([]lease.Node, 0, len(names))
	for _, name := range names {
		node := &corev1.Node{}
		if err := s.o.Cache.Get(context.Background(), client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy); err == nil {
			out = append(out, lease.Node{Name: name, UID: node.UID})
		}
	}
	return out
}

// watchHosts looks at hosts again and again: one that is lost has its Nodes called unknown, and later its pods given up.
func (s *Scheduler) watchHosts(ctx context.Context) {
	for ctx.Err() == nil {
		for name, h := range s.allHosts() {
			if err := s.lookAtHost(ctx, name, h.Describe()); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("a microVM host's Nodes are not up to date; it is tried again", "host", name, "error", err)
			}
		}
		_ = clock.SleepOr(ctx, s.o.Clock, min(hostsEvery, s.o.HostGrace/2), s.hostNews)
	}
}

func (s *Scheduler) lookAtHost(ctx context.Context, name string, d Description) error {
	if d.Starting {
		return nil
	}
	now := s.o.Clock.Now()
	s.mu.Lock()
	since, wasLost := s.lost[name]
	switch {
	case d.Ready && wasLost:
		delete(s.lost, name)
	case !d.Ready && !wasLost:
		s.lost[name], since = now, now
	}
	var pods []types.UID
	for uid, h := range s.held {
		if h.host == name {
			pods = append(pods, uid)
		}
	}
	s.mu.Unlock()
	if d.Ready && !wasLost {
		return nil
	}
	if d.Ready == wasLost { // it has just gone, or come back
		s.allProfilesChanged()
	}
	if d.Ready {
		s.wakeWaiting(nil)
	}
	why := fmt.Sprintf("host %s is lost: %s", name, d.Message)
	var failed []error
	for _, uid := range pods {
		failed = append(failed, s.setReady(ctx, uid, d.Ready, why))
		if !d.Ready && now.Sub(since) >= s.o.HostGrace {
			failed = append(failed, s.giveUp(ctx, uid, why))
		}
	}
	return errors.Join(failed...)
}

// setReady writes on a pod's Node whether its host is there.
func (s *Scheduler) setReady(ctx context.Context, uid types.UID, there bool, why string) error {
	s.mu.Lock()
	name := s.nodes[uid]
	s.mu.Unlock()
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	if err := s.o.Cache.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	want := nodeConditions(there, why, metav1.NewTime(s.o.Clock.Now()))[0]
	before := node.DeepCopy()
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == want.Status && c.Reason == want.Reason {
			return nil
		}
		*c = want
	}
	if err := s.o.Client.Status().Patch(ctx, node, client.StrategicMergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of Node %s: %w", name, err)
	}
	return nil
}

// address is that of a bound pod's microVM: as its host has said or, of one that an earlier process has started, as its Node says.
func (s *Scheduler) address(ctx context.Context, pod *corev1.Pod) netip.Addr {
	s.mu.Lock()
	ip := s.addrs[pod.UID]
	s.mu.Unlock()
	if ip.IsValid() {
		return ip
	}
	node := &corev1.Node{}
	if err := s.o.Cache.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node, client.UnsafeDisableDeepCopy); err != nil {
		return ip
	}
	if said, err := netip.ParseAddr(node.Annotations[annotationIP]); err == nil {
		return said
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			ip, _ = netip.ParseAddr(a.Address) // the zero address says that there is none
		}
	}
	return ip
}

// keepKubelet keeps what a pod's Node says of its kubelet API true: a host that was started again may serve it elsewhere.
func (s *Scheduler) keepKubelet(ctx context.Context, pod *corev1.Pod, d Description) error {
	ip := s.address(ctx, pod)
	if d.Kubelet == nil || !ip.IsValid() {
		return nil
	}
	node := &corev1.Node{}
	if err := s.o.Cache.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if node.Status.DaemonEndpoints.KubeletEndpoint.Port == int32(d.Kubelet(ip).Port()) {
		return nil
	}
	before := node.DeepCopy()
	setKubelet(&node.Status, d, ip)
	if err := s.o.Client.Status().Patch(ctx, node, client.StrategicMergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write where the kubelet API of Node %s is: %w", node.Name, err)
	}
	return nil
}

// giveUp ends a pod whose host is lost, so that whoever made it makes another one: nobody is left who could stop it.
func (s *Scheduler) giveUp(ctx context.Context, uid types.UID, why string) error {
	s.mu.Lock()
	key, ok := s.pods[uid]
	s.mu.Unlock()
	var failed []error
	if ok {
		pod := &corev1.Pod{}
		err := s.o.Cache.Get(ctx, key, pod)
		if err == nil && pod.UID == uid && pod.Spec.NodeName != "" {
			s.o.Recorder.Event(pod, corev1.EventTypeWarning, "NodeLost", "The pod is deleted: "+why)
			failed = append(failed, s.letGo(ctx, pod))
		}
		failed = append(failed, client.IgnoreNotFound(err))
	}
	return errors.Join(append(failed, s.dropClaim(ctx, uid))...)
}
