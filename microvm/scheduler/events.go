package scheduler

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// byProfile is the cache's index of pods by profile. The value ours, which cannot be a profile's name, finds all pods
// of fargate-scheduler.
const (
	byProfile = "nodeless.sh/fargate-profile"
	ours      = "*"
)

// watch registers the index and the event handlers. A handler gets an object's states before and after a change; nil
// means that the object did not or does not exist.
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
		seen   func(old, now client.Object)
	}{
		{&corev1.Pod{}, s.podChanged},
		{&karpv1.NodeClaim{}, s.claimChanged},
		{&corev1.Node{}, s.nodeChanged},
		{&v1alpha1.FargateProfile{}, s.profileChanged},
		{&corev1.PersistentVolumeClaim{}, s.volumeChanged},
		{&corev1.PersistentVolume{}, s.volumeChanged},
	} {
		if err := informer.Watch(ctx, s.o.Cache, h.object, h.seen); err != nil {
			return err
		}
	}
	return nil
}

// newest returns the newest state of an object: its last one if it is gone.
func newest(old, now client.Object) client.Object {
	if now == nil {
		return old
	}
	return now
}

// podUID returns the UID of the pod to which a NodeClaim or Node belongs, "" if the object is not
// fargate-scheduler's.
func podUID(o client.Object) types.UID { return types.UID(o.GetLabels()[labelPod]) }

func (s *Scheduler) podChanged(old, now client.Object) {
	pod, ok := newest(old, now).(*corev1.Pod)
	if !ok || !isOurs(pod) {
		return
	}
	if now != nil {
		if s.pods.podSeen(pod) {
			s.work.addWaiting(nil) // its host has room for others
		}
	} else {
		s.api.wrote.Forget(pod.UID)
		if s.pods.podGone(pod.UID) { // delete its NodeClaim by UID: another pod may have the name
			s.work.add(string(pod.UID))
		}
	}
	s.work.add(client.ObjectKeyFromObject(pod).String())
	s.work.addProfile(pod.Labels[fargate.ProfileLabel])
}

func (s *Scheduler) claimChanged(old, now client.Object) {
	claim, ok := newest(old, now).(*karpv1.NodeClaim)
	if !ok || podUID(claim) == "" {
		return
	}
	if now == nil {
		s.pods.update(podUID(claim), func(p *record) { p.claim, p.address = nil, netip.Addr{} })
		s.work.addWaiting(nil)
	} else {
		s.pods.claimed(claim)
	}
	s.work.addPod(podUID(claim))
	s.work.addProfile(claim.Labels[fargate.ProfileLabel])
}

func (s *Scheduler) nodeChanged(old, now client.Object) {
	uid, name := podUID(newest(old, now)), ""
	if uid == "" {
		return
	}
	if now != nil {
		name = now.GetName()
	}
	s.pods.update(uid, func(p *record) { p.node = name })
	s.work.addPod(uid)
}

// profileChanged queues the waiting pods of a profile whose spec has changed. Fargate's profiles never change.
func (s *Scheduler) profileChanged(old, now client.Object) {
	if old != nil && now != nil && old.GetGeneration() == now.GetGeneration() {
		return // only the status changed
	}
	name := newest(old, now).GetName()
	s.work.addProfile(name)
	s.work.addWaiting(func(pod *corev1.Pod) bool { return pod.Labels[fargate.ProfileLabel] == name })
}

// volumeChanged queues the waiting pods that have volumes.
func (s *Scheduler) volumeChanged(old, now client.Object) {
	before, ok1 := old.(*corev1.PersistentVolumeClaim)
	after, ok2 := now.(*corev1.PersistentVolumeClaim)
	if ok1 && ok2 && before.Spec.VolumeName == after.Spec.VolumeName && before.Status.Phase == after.Status.Phase {
		return
	}
	s.work.addWaiting(func(pod *corev1.Pod) bool { return len(pod.Spec.Volumes) > 0 })
}

// hostChanged is called by hosts with the ID of a microVM that changes, and with "" when a host changes.
func (s *Scheduler) hostChanged(id string) {
	if id != "" {
		s.work.addPod(podOf(id))
		return
	}
	s.monitor.news.Set()
	s.work.addWaiting(nil)
	s.work.addProfiles()
}

// work queues the pods and profiles to process. It queues nothing before Run, since a standby replica would otherwise
// collect the name of every pod that ever existed.
type work struct {
	o       *Options
	records *records
	leads   atomic.Bool // Run was called

	pods     *workqueue.Queue // as namespace/name; the UID of a pod that is gone
	profiles *workqueue.Queue // as namespace/name, or the UID of a pod that is gone
}

func newWork(o *Options, pods *records) *work {
	return &work{
		o: o, records: pods,
		pods: workqueue.New("microVM pod", o.Clock, o.Log), profiles: workqueue.New("FargateProfile", o.Clock, o.Log),
	}
}

// add queues a pod by its key.
func (w *work) add(key string) {
	if w.leads.Load() {
		w.pods.Add(key)
	}
}

// addPod queues a pod by its UID, if it exists.
func (w *work) addPod(uid types.UID) {
	if p := w.records.get(uid); p.key != (types.NamespacedName{}) {
		w.add(p.key.String())
	}
}

// addWaiting queues the pods that wait for a host: all of them, or those for which want is true.
func (w *work) addWaiting(want func(*corev1.Pod) bool) {
	for _, p := range w.records.each(func(p record) bool { return p.waiting }) {
		pod := &corev1.Pod{}
		if want != nil {
			err := w.o.Cache.Get(context.Background(), p.key, pod, client.UnsafeDisableDeepCopy)
			if err != nil || !want(pod) {
				continue
			}
		}
		w.add(p.key.String())
	}
}

// profilePause is how long changes to a profile's pods are batched before its status is written.
const profilePause = 250 * time.Millisecond

func (w *work) addProfile(name string) {
	if name != "" && w.leads.Load() {
		w.profiles.After(name, profilePause)
	}
}

func (w *work) addProfiles() {
	var profiles v1alpha1.FargateProfileList
	if err := w.o.Cache.List(context.Background(), &profiles, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has stopped
	}
	for i := range profiles.Items {
		w.addProfile(profiles.Items[i].Name)
	}
}
