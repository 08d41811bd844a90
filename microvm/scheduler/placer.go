package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// placer schedules pods: it reserves capacity on a host, creates the NodeClaim and, when the Node is registered,
// binds the pod.
type placer struct {
	o     *Options
	pods  *records
	hosts *hosts
	api   *api
	nodes *nodes
}

// schedule takes the next step of a pod that is not bound yet.
func (p *placer) schedule(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	r := p.pods.get(pod.UID)
	if r.claim != nil {
		p.pods.stopWaiting(pod.UID)
		return 0, p.join(ctx, pod, r)
	}
	if left := r.retryAt.Sub(p.o.Clock.Now()); left > 0 {
		return left, nil
	}
	// Mark the pod as waiting before any look-up, so that every later change queues it again.
	p.pods.update(pod.UID, func(r *record) { r.waiting = r.key != types.NamespacedName{} })
	profile, refusal, err := p.judge(ctx, pod)
	if err != nil {
		return 0, err
	}
	if refusal != (fargate.Refusal{}) {
		return 0, p.refuse(ctx, pod, refusal)
	}
	if reason, message := fargate.Rejection(pod); reason != "" {
		return 0, p.reject(ctx, pod, reason, message)
	}
	size, _ := fargate.Provision(&profile.Spec, pod, p.hosts.abilities().GuestOverhead)
	host, why := p.reserve(profile, pod, size)
	if why != "" {
		return 0, p.refuse(ctx, pod, fargate.Refusal{Reason: corev1.PodReasonUnschedulable, Message: why})
	}
	p.pods.stopWaiting(pod.UID)
	p.reportLogging(ctx, pod, profile)
	err = p.o.Client.Create(ctx, newClaim(pod, profile.Name, host, size))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		p.pods.update(pod.UID, func(r *record) { r.claim = nil })
		return 0, fmt.Errorf("create the NodeClaim of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return 0, nil // the launch of the NodeClaim triggers an event
}

// misconfigured is the reason of PodScheduled=False for a pod whose profile does not exist.
const misconfigured = "MISCONFIGURED_FARGATE_PROFILE"

// judge finds a pod's profile and returns the refusal if the pod is refused.
func (p *placer) judge(ctx context.Context, pod *corev1.Pod) (*v1alpha1.FargateProfile, fargate.Refusal, error) {
	name := pod.Labels[fargate.ProfileLabel]
	profile := &v1alpha1.FargateProfile{}
	err := p.o.Cache.Get(ctx, client.ObjectKey{Name: name}, profile)
	if name == "" || apierrors.IsNotFound(err) {
		return nil, fargate.Refusal{Reason: misconfigured, Message: fmt.Sprintf("Misconfigured Fargate Profile: "+
			"fargate profile %s blocked for new launches due to: there is no such FargateProfile.", name)}, nil
	}
	if err != nil {
		return nil, fargate.Refusal{}, fmt.Errorf("read FargateProfile %s: %w", name, err)
	}
	return profile, fargate.Refuse(&profile.Spec, pod, volumes{ctx, p.o.Cache}, p.hosts.abilities()), nil
}

// reserve chooses a host for a pod and reserves capacity on it. If it cannot, why is the reason.
func (p *placer) reserve(
	profile *v1alpha1.FargateProfile, pod *corev1.Pod, size fargate.Size,
) (host microvm.Description, why string) {
	described := p.hosts.describe()
	p.pods.reserve(pod.UID, func(others []reservation) *reservation {
		if why = overLimit(profile, others, size); why != "" {
			return nil
		}
		var candidates []candidate
		for name, d := range described {
			c := candidate{Description: d}
			c.used, c.pods = used(others, func(r reservation) bool { return r.host == name })
			candidates = append(candidates, c)
		}
		var name string
		if name, why = choose(candidates, &profile.Spec, pod, size); why != "" {
			return nil
		}
		host = described[name]
		return &reservation{host: name, profile: profile.Name, size: size}
	})
	return host, why
}

// overLimit returns which limit of a profile another microVM would exceed, "" if none.
func overLimit(profile *v1alpha1.FargateProfile, others []reservation, size fargate.Size) string {
	l := profile.Spec.Limits
	if l == nil {
		return ""
	}
	sum, pods := used(others, func(r reservation) bool { return r.profile == profile.Name && !r.over })
	sum = sum.Add(size)
	over := func(what, limit string) string {
		return fmt.Sprintf("FargateProfile %s: its limit of %s %s would be exceeded; delete pods of the profile or raise "+
			"its spec.limits", profile.Name, limit, what)
	}
	switch {
	case l.CPU != nil && sum.MilliCPU > l.CPU.MilliValue():
		return over("CPU", l.CPU.String())
	case l.Memory != nil && sum.MemoryBytes > l.Memory.Value():
		return over("memory", l.Memory.String())
	case l.Pods != nil && pods+1 > int(*l.Pods):
		return over("pods", fmt.Sprint(*l.Pods))
	}
	return ""
}

// refuse reports, once, why a pod gets no microVM now: as an event and as PodScheduled=False, like Fargate. A change
// that may resolve the cause queues the pod again.
func (p *placer) refuse(ctx context.Context, pod *corev1.Pod, r fargate.Refusal) error {
	c := conditions.OfPod(pod, corev1.PodScheduled)
	if c != nil && c.Status == corev1.ConditionFalse && c.Reason == r.Reason && c.Message == r.Message {
		return nil
	}
	before := pod.DeepCopy()
	setCondition(pod, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: r.Reason, Message: r.Message,
	}, metav1.NewTime(p.o.Clock.Now()))
	if err := p.api.patchPod(ctx, before, pod); err != nil {
		return err
	}
	p.o.Recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling", r.Message)
	return nil
}

// reject fails a pod in the words of a kubelet that rejects it (pkg/kubelet, rejectPod, Kubernetes 1.36).
func (p *placer) reject(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	before := pod.DeepCopy()
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, reason, "Pod was rejected: "+message
	if err := p.api.patchPod(ctx, before, pod); err != nil {
		return err
	}
	p.o.Recorder.Event(pod, corev1.EventTypeWarning, reason, message)
	return nil
}

// reportLogging records, when a pod gets a microVM, whether its logs are routed.
func (p *placer) reportLogging(ctx context.Context, pod *corev1.Pod, profile *v1alpha1.FargateProfile) {
	if p.o.Logging == nil {
		return
	}
	state := p.o.Logging(ctx, &profile.Spec)
	switch {
	case state.Reason == "":
	case state.Enabled:
		p.o.Recorder.Event(pod, corev1.EventTypeNormal, state.Reason, state.Message)
	default:
		p.o.Recorder.Event(pod, corev1.EventTypeWarning, state.Reason, state.Message)
	}
}

// join creates the Node of a pod whose microVM has started, and binds the pod once the Node is registered.
func (p *placer) join(ctx context.Context, pod *corev1.Pod, r record) error {
	claim := &karpv1.NodeClaim{}
	err := p.o.Cache.Get(ctx, client.ObjectKey{Name: fargate.ClaimName(pod.UID)}, claim)
	if apierrors.IsNotFound(err) || err == nil && claim.DeletionTimestamp != nil {
		return nil // its creation or deletion triggers an event
	}
	if err != nil {
		return fmt.Errorf("read NodeClaim of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	switch {
	case r.node == "" && r.address.IsValid():
		return p.nodes.create(ctx, claim, r.claim.host, r.address)
	case r.node == "" && claim.Status.ProviderID != "": // an earlier process started it
		host := p.hosts.reserved(r)
		if host == nil {
			return nil // hostMonitor gives up the pod
		}
		ip, err := host.Start(ctx, r.claim.spec(pod))
		if err != nil {
			return fmt.Errorf("address of the microVM of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return p.nodes.create(ctx, claim, r.claim.host, ip)
	case r.node == "":
		return nil
	}
	node := &corev1.Node{}
	if err := p.o.Cache.Get(ctx, client.ObjectKey{Name: r.node}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp != nil || node.Labels[karpv1.NodeRegisteredLabelKey] != "true" {
		return nil
	}
	return p.bind(ctx, pod, node.Name)
}

func (p *placer) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	err := p.o.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), binding)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // it is already bound, or gone: an event follows
	case err != nil:
		return fmt.Errorf("bind pod %s/%s to Node %s: %w", pod.Namespace, pod.Name, node, err)
	}
	p.o.Recorder.Event(pod, corev1.EventTypeNormal, "Scheduled",
		fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node))
	return nil
}

// volumes looks up in the cache the volumes that pods refer to.
type volumes struct {
	ctx    context.Context
	reader client.Reader
}

// Claim implements fargate.Storage.
func (v volumes) Claim(namespace, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{}
	if err := v.reader.Get(v.ctx, types.NamespacedName{Namespace: namespace, Name: name}, c); err != nil {
		return nil
	}
	return c
}

// Volume implements fargate.Storage.
func (v volumes) Volume(name string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{}
	if err := v.reader.Get(v.ctx, types.NamespacedName{Name: name}, pv); err != nil {
		return nil
	}
	return pv
}
