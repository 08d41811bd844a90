package scheduler

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// described is a host of which only its description is asked.
type described struct {
	microvm.Host
	d microvm.Description
}

func (h described) Describe() microvm.Description { return h.d }

func ourPod(name types.UID, phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(name), UID: name}}
	pod.Spec.SchedulerName, pod.Status.Phase = fargate.SchedulerName, phase
	return pod
}

// kube-scheduler counts no pod that has ended.
func TestAPodThatHasEndedLeavesRoomForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Options{Clock: clock.NewVirtual(time.Unix(0, 0)), Log: slog.New(slog.DiscardHandler)}
		s := &Scheduler{o: o, pods: newRecords(), api: &api{o: o}}
		s.work = newWork(o, s.pods)
		s.work.leads.Store(true)
		var worked []string
		ctx, stop := context.WithCancel(t.Context())
		go s.work.pods.Run(ctx, 1, func(_ context.Context, key string) (time.Duration, error) {
			worked = append(worked, key)
			return 0, nil
		})
		size := fargate.Size{MilliCPU: 250, MemoryBytes: gib / 2}
		only := described{d: microvm.Description{
			Name: "h", Engine: "KVM", Arch: "amd64", Ready: true, Capacity: size, MaxPods: 2,
		}}
		p := &placer{o: o, pods: s.pods, hosts: &hosts{pods: s.pods, byName: map[string]*hostRecord{"h": {Host: only}}}}
		profile := &v1alpha1.FargateProfile{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}
		profile.Spec.Limits = &v1alpha1.FargateProfileLimits{Pods: ptr.To[int32](1)}
		place := func(name types.UID) string {
			s.podChanged(nil, ourPod(name, corev1.PodPending))
			_, why := p.reserve(profile, ourPod(name, corev1.PodPending), size)
			s.pods.update(name, func(r *record) { r.waiting = why != "" })
			return why
		}
		if why := place("first"); why != "" {
			t.Fatal(why)
		}
		if place("second") == "" {
			t.Fatal("a host with room for one pod, whose profile allows one, takes two")
		}
		synctest.Wait()
		worked = nil
		s.podChanged(ourPod("first", corev1.PodRunning), ourPod("first", corev1.PodSucceeded))
		synctest.Wait()
		if !slices.Contains(worked, "shop/second") {
			t.Errorf("the first has ended: the queue is %v, without the second", worked)
		}
		if why := place("second"); why != "" {
			t.Errorf("the first has ended, the second does not run: %s", why)
		}
		s.podChanged(ourPod("second", corev1.PodRunning), ourPod("second", corev1.PodFailed))
		if place("third") == "" {
			t.Error("each keeps its address: a host of two pods takes a third")
		}
		stop()
		synctest.Wait()
	})
}
