package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// pod brings one pod a step further. The key is namespace/name, or the UID of a pod that is no more.
func (s *Scheduler) pod(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return 0, s.dropClaim(ctx, types.UID(key))
	}
	pod := &corev1.Pod{}
	err := s.o.Cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		s.settled(key)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read pod %s: %w", key, err)
	}
	if !isOurs(pod) {
		return 0, nil
	}
	pod = s.wrotePods.Newest(pod).DeepCopy()
	switch {
	case pod.DeletionTimestamp != nil:
		s.settled(key)
		return s.end(ctx, pod)
	case pod.Spec.NodeName != "":
		s.settled(key)
		return s.report(ctx, pod)
	case len(pod.Spec.SchedulingGates) > 0 || terminal(pod):
		return 0, nil
	}
	return s.schedule(ctx, pod)
}

// settled takes a pod off those that wait for a host.
func (s *Scheduler) settled(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, key)
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// schedule gives a pod its microVM: a host and a claim, then a Node, then the binding.
func (s *Scheduler) schedule(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	key := client.ObjectKeyFromObject(pod).String()
	s.mu.Lock()
	h, held := s.held[pod.UID]
	f := s.failed[pod.UID]
	s.mu.Unlock()
	if held {
		s.settled(key)
		return 0, s.join(ctx, pod, h)
	}
	if left := f.until.Sub(s.o.Clock.Now()); left > 0 {
		return left, nil
	}
	s.mu.Lock()
	s.waiting[key] = pod.UID // before anything is looked up: what changes from here on wakes it
	s.mu.Unlock()
	profile, refusal, err := s.judge(ctx, pod)
	if err != nil {
		return 0, err
	}
	if refusal != (fargate.Refusal{}) {
		return 0, s.refuse(ctx, pod, refusal)
	}
	size, _ := fargate.Provision(&profile.Spec, pod, s.Abilities().GuestOverhead)
	host, why := s.hold(profile, pod, size)
	if why != "" {
		return 0, s.refuse(ctx, pod, fargate.Refusal{Reason: corev1.PodReasonUnschedulable, Message: why})
	}
	s.settled(key)
	s.tellLogging(ctx, pod, profile)
	err = s.o.Client.Create(ctx, newClaim(pod, profile.Name, host, size))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.mu.Lock()
		delete(s.held, pod.UID)
		s.mu.Unlock()
		return 0, fmt.Errorf("create the NodeClaim of pod %s: %w", key, err)
	}
	return 0, nil // the claim's launch is an event
}

// judge finds a pod's profile and says whether the pod is refused.
func (s *Scheduler) judge(ctx context.Context, pod *corev1.Pod) (*v1alpha1.FargateProfile, fargate.Refusal, error) {
	name := pod.Labels[fargate.ProfileLabel]
	profile := &v1alpha1.FargateProfile{}
	err := s.o.Cache.Get(ctx, client.ObjectKey{Name: name}, profile)
	if name == "" || apierrors.IsNotFound(err) {
		return nil, fargate.Refusal{Reason: misconfigured, Message: fmt.Sprintf(
			"Misconfigured Fargate Profile: fargate profile %s blocked for new launches due to: there is no such FargateProfile.", name)}, nil
	}
	if err != nil {
		return nil, fargate.Refusal{}, fmt.Errorf("read FargateProfile %s: %w", name, err)
	}
	return profile, fargate.Refuse(&profile.Spec, pod, volumes{ctx, s.o.Cache}, s.Abilities()), nil
}

// misconfigured is the reason of PodScheduled=False for a pod whose profile is not there.
const misconfigured = "MISCONFIGURED_FARGATE_PROFILE"

// hold chooses a host for a pod and takes the room on it; why says what is in the way.
func (s *Scheduler) hold(profile *v1alpha1.FargateProfile, pod *corev1.Pod, size fargate.Size) (Description, string) {
	described := map[string]Description{}
	for name, h := range s.allHosts() {
		described[name] = h.Describe()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.overLimit(profile, size); why != "" {
		return Description{}, why
	}
	var candidates []candidate
	for name, d := range described {
		c := candidate{Description: d}
		for _, h := range s.held {
			if h.host == name {
				c.used.MilliCPU += h.size.MilliCPU
				c.used.MemoryBytes += h.size.MemoryBytes
				c.pods++
			}
		}
		candidates = append(candidates, c)
	}
	name, why := choose(candidates, &profile.Spec, pod, size)
	if why == "" {
		s.held[pod.UID] = hold{host: name, profile: profile.Name, size: size}
	}
	return described[name], why
}

// overLimit says which limit of a profile one microVM more would exceed; "" if none. s.mu is held.
func (s *Scheduler) overLimit(profile *v1alpha1.FargateProfile, size fargate.Size) string {
	l := profile.Spec.Limits
	if l == nil {
		return ""
	}
	total, pods := size, int32(1)
	for _, h := range s.held {
		if h.profile == profile.Name {
			total.MilliCPU += h.size.MilliCPU
			total.MemoryBytes += h.size.MemoryBytes
			pods++
		}
	}
	over := func(what, limit string) string {
		return fmt.Sprintf("FargateProfile %s: its limit of %s %s would be exceeded; pods go or spec.limits are raised", profile.Name, limit, what)
	}
	switch {
	case l.CPU != nil && total.MilliCPU > l.CPU.MilliValue():
		return over("CPU", l.CPU.String())
	case l.Memory != nil && total.MemoryBytes > l.Memory.Value():
		return over("memory", l.Memory.String())
	case l.Pods != nil && pods > *l.Pods:
		return over("pods", fmt.Sprint(*l.Pods))
	}
	return ""
}

// join makes the Node of a pod whose microVM has been started, and binds the pod once lifecycle has registered it.
func (s *Scheduler) join(ctx context.Context, pod *corev1.Pod, h hold) error {
	claim := &karpv1.NodeClaim{}
	err := s.o.Cache.Get(ctx, client.ObjectKey{Name: fargate.ClaimName(pod.UID)}, claim)
	if apierrors.IsNotFound(err) || err == nil && claim.DeletionTimestamp != nil {
		return nil // it comes or goes, and that is an event
	}
	if err != nil {
		return fmt.Errorf("read NodeClaim of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.mu.Lock()
	name, ip := s.nodes[pod.UID], s.addrs[pod.UID]
	s.mu.Unlock()
	switch {
	case name == "" && ip.IsValid():
		return s.makeNode(ctx, claim, h, ip)
	case name == "" && claim.Status.ProviderID != "": // an earlier process started it
		host := s.host(h.host)
		if host == nil {
			return nil // hostLost ends it
		}
		ip, err := host.Start(ctx, Spec{ID: machineID(pod.UID), Pod: pod, Size: h.size, Profile: h.profile})
		if err != nil {
			return fmt.Errorf("address of the microVM of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return s.makeNode(ctx, claim, h, ip)
	case name == "":
		return nil
	}
	node := &corev1.Node{}
	if err := s.o.Cache.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp != nil || node.Labels[karpv1.NodeRegisteredLabelKey] != "true" {
		return nil
	}
	return s.bind(ctx, pod, node)
}

func (s *Scheduler) bind(ctx context.Context, pod *corev1.Pod, node *corev1.Node) error {
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	binding.Namespace, binding.Name, binding.UID = pod.Namespace, pod.Name, pod.UID
	err := s.o.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), binding)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // it is bound already, or gone: the cache will tell
	case err != nil:
		return fmt.Errorf("bind pod %s/%s to Node %s: %w", pod.Namespace, pod.Name, node.Name, err)
	}
	s.o.Recorder.Event(pod, corev1.EventTypeNormal, "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node.Name))
	return nil
}
