package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// The cache finds by byProfile the pods of a profile, and all of ours by the value ours, which no profile can have as its name.
const (
	byProfile = "nodeless.sh/fargate-profile"
	ours      = "*"
)

func isOurs(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == fargate.SchedulerName }

func (s *Scheduler) watch(ctx context.Context) error {
	err := s.o.Cache.IndexField(ctx, &corev1.Pod{}, byProfile, func(o client.Object) []string {
		pod, ok := o.(*corev1.Pod)
		if !ok || !isOurs(pod) {
			return nil
		}
		return []string{ours, pod.Labels[fargate.ProfileLabel]}
	})
	if err != nil {
		return fmt.Errorf("index pods: %w", err)
	}
	for _, h := range []struct {
		object client.Object
		seen   func(old, now client.Object) // one of them nil if it came or went
	}{
		{&corev1.Pod{}, s.sawPod},
		{&karpv1.NodeClaim{}, s.sawClaim},
		{&corev1.Node{}, s.sawNode},
		{&v1alpha1.FargateProfile{}, s.sawProfile},
		{&corev1.PersistentVolumeClaim{}, s.sawVolume},
		{&corev1.PersistentVolume{}, s.sawVolume},
	} {
		if err := informer.Watch(ctx, s.o.Cache, h.object, h.seen); err != nil {
			return err
		}
	}
	return nil
}

// add has a key worked on, once this process acts: one that stands by would gather the name of every pod there ever was.
func (s *Scheduler) add(key string) {
	if s.leads.Load() {
		s.queue.Add(key)
	}
}

func (s *Scheduler) sawPod(old, now client.Object) {
	any := now
	if any == nil {
		any = old
	}
	pod, ok := any.(*corev1.Pod)
	if !ok || !isOurs(pod) {
		return
	}
	key := client.ObjectKeyFromObject(pod)
	s.mu.Lock()
	if now != nil {
		s.pods[pod.UID] = key
	}
	s.mu.Unlock()
	if now == nil {
		s.wrotePods.Forget(pod.UID)
		s.gone(pod.UID)
	}
	s.add(key.String())
	s.profileChanged(pod.Labels[fargate.ProfileLabel])
}

// gone has the claim of a pod that is no more ended. It goes by the name of the pod's UID, since another pod may have its name.
func (s *Scheduler) gone(uid types.UID) {
	s.mu.Lock()
	delete(s.pods, uid)
	delete(s.failed, uid)
	delete(s.stopped, uid)
	_, held := s.held[uid]
	s.mu.Unlock()
	if held {
		s.add(string(uid))
	}
}

func (s *Scheduler) sawClaim(old, now client.Object) {
	any := now
	if any == nil {
		any = old
	}
	claim, ok := any.(*karpv1.NodeClaim)
	if !ok || claim.Labels[labelPod] == "" {
		return
	}
	uid := types.UID(claim.Labels[labelPod])
	if now == nil {
		s.mu.Lock()
		delete(s.held, uid)
		delete(s.addrs, uid)
		s.mu.Unlock()
		s.wakeWaiting(nil)
	} else {
		s.take(claim)
	}
	s.addPod(uid)
	s.profileChanged(claim.Labels[fargate.ProfileLabel])
}

// addPod has a pod looked at, if it is there.
func (s *Scheduler) addPod(uid types.UID) {
	s.mu.Lock()
	key, ok := s.pods[uid]
	s.mu.Unlock()
	if ok {
		s.add(key.String())
	}
}

func (s *Scheduler) sawNode(old, now client.Object) {
	any := now
	if any == nil {
		any = old
	}
	uid := types.UID(any.GetLabels()[labelPod])
	if uid == "" {
		return
	}
	s.mu.Lock()
	if now == nil {
		delete(s.nodes, uid)
	} else {
		s.nodes[uid] = now.GetName()
	}
	s.mu.Unlock()
	s.addPod(uid)
}

// sawProfile has the pods that wait looked at again when a profile changes: Fargate never does.
func (s *Scheduler) sawProfile(old, now client.Object) {
	if old != nil && now != nil && old.GetGeneration() == now.GetGeneration() {
		return // its status
	}
	any := now
	if any == nil {
		any = old
	}
	s.profileChanged(any.GetName())
	s.wakeWaiting(func(pod *corev1.Pod) bool { return pod.Labels[fargate.ProfileLabel] == any.GetName() })
}

// sawVolume has the pods that wait and have volumes looked at again.
func (s *Scheduler) sawVolume(old, now client.Object) {
	was, ok1 := old.(*corev1.PersistentVolumeClaim)
	is, ok2 := now.(*corev1.PersistentVolumeClaim)
	if ok1 && ok2 && was.Spec.VolumeName == is.Spec.VolumeName && equality.Semantic.DeepEqual(was.Status.Phase, is.Status.Phase) {
		return
	}
	s.wakeWaiting(func(pod *corev1.Pod) bool { return len(pod.Spec.Volumes) > 0 })
}

// wakeWaiting has pods looked at that have no host yet: those that which says; nil = all.
func (s *Scheduler) wakeWaiting(which func(*corev1.Pod) bool) {
	s.mu.Lock()
	keys := make([]types.NamespacedName, 0, len(s.waiting))
	for _, uid := range s.waiting {
		if key, ok := s.pods[uid]; ok {
			keys = append(keys, key)
		}
	}
	s.mu.Unlock()
	for _, key := range keys {
		if which != nil {
			pod := &corev1.Pod{}
			if err := s.o.Cache.Get(context.Background(), key, pod, client.UnsafeDisableDeepCopy); err != nil || !which(pod) {
				continue
			}
		}
		s.add(key.String())
	}
}

// profilePause is how long changes of a profile's pods are gathered before its status is written.
const profilePause = 250 * time.Millisecond

func (s *Scheduler) profileChanged(name string) {
	if name != "" && s.leads.Load() {
		s.profiles.After(name, profilePause)
	}
}

// hostChanged is told by a host that a microVM of it, or "" for the host itself, is no longer as it was.
func (s *Scheduler) hostChanged(id string) {
	if id != "" {
		s.addPod(podOf(id))
		return
	}
	select {
	case s.hostNews <- struct{}{}:
	default:
	}
	s.wakeWaiting(nil)
	s.allProfilesChanged()
}

func (s *Scheduler) allProfilesChanged() {
	var profiles v1alpha1.FargateProfileList
	if err := s.o.Cache.List(context.Background(), &profiles, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache ends
	}
	for i := range profiles.Items {
		s.profileChanged(profiles.Items[i].Name)
	}
}
