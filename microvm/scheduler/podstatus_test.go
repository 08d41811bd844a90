package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm"
)

// oneVM is a host with one microVM, of which it notes what it is told.
type oneVM struct {
	microvm.Host
	ended bool
	told  string
}

func (h *oneVM) Status(context.Context, string) (microvm.Status, error) {
	return microvm.Status{Pod: corev1.PodStatus{Phase: corev1.PodRunning}, Ended: h.ended}, nil
}

func (h *oneVM) Stop(_ context.Context, _ string, seconds int64) error {
	h.told += fmt.Sprintf("stop in %d s", seconds)
	return nil
}

func (h *oneVM) Remove(context.Context, string) error {
	h.told += "remove"
	return nil
}

// What a guest reports cannot keep its pod from being stopped and removed.
func TestAPodEndsWhoseStatusIsRefused(t *testing.T) {
	refused := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web", nil)
	away := errors.New("the API server is away")
	for _, c := range []struct {
		err   error
		ended bool
		left  time.Duration // of the grace period
		told  string
		gone  bool
	}{
		{refused, false, 7 * time.Second, "stop in 7 s", false},
		{refused, true, 7 * time.Second, "", true},
		{refused, false, -time.Hour, "remove", true},
		{away, false, 7 * time.Second, "stop in 7 s", false},
		{away, true, 7 * time.Second, "", false}, // its final status is not lost
		{away, true, -time.Hour, "", true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
		pod.Spec.NodeName = "fargate-1"
		kube := fake.NewClientBuilder().WithObjects(pod.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
				...client.SubResourcePatchOption,
			) error {
				return c.err
			},
		}).Build()
		h := &oneVM{ended: c.ended}
		o := &Options{Client: kube, Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler)}
		pods := newRecords()
		pods.byUID["u"] = &record{claim: &reservation{host: "h"}, address: netip.MustParseAddr("10.77.1.2")}
		hosts := &hosts{byName: map[string]*hostRecord{"h": {Host: h}}}
		s := &podStatus{
			o: o, pods: pods, hosts: hosts, api: &api{o: o}, nodes: &nodes{o: o, pods: pods, hosts: hosts},
		}
		ending := pod.DeepCopy()
		ending.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(c.left)))
		ending.DeletionGracePeriodSeconds = ptr.To[int64](7)
		_, err := s.end(t.Context(), ending)
		if !errors.Is(err, c.err) || h.told != c.told {
			t.Errorf("%+v: %v, the host is told: %s", c, err, h.told)
		}
		err = kube.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{})
		if apierrors.IsNotFound(err) != c.gone {
			t.Errorf("%+v: reading the pod: %v", c, err)
		}
	}
}

// busyVM is a host whose only microVM changes its status without end.
type busyVM struct {
	microvm.Host
	restarts atomic.Int32
}

func (h *busyVM) Describe() microvm.Description { return microvm.Description{} }

func (h *busyVM) Status(context.Context, string) (microvm.Status, error) {
	c := corev1.ContainerStatus{Name: "c", RestartCount: h.restarts.Load()}
	return microvm.Status{Pod: corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{c},
	}}, nil
}

func (h *busyVM) Stop(context.Context, string, int64) error { return nil }

// directCache reads from the API server.
type directCache struct {
	cache.Cache
	reader client.Reader
}

func (c directCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o)
}

// What a guest reports becomes requests to the API server, but not as many as it likes.
func TestAGuestCannotFloodTheAPIServer(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			pod := ourPod("u", corev1.PodRunning)
			pod.Spec.NodeName = "fargate-1"
			now := clock.NewVirtual(time.Unix(1e9, 0))
			if deleted {
				pod.DeletionTimestamp, pod.Finalizers = ptr.To(metav1.NewTime(now.Now().Add(time.Hour))), []string{"a/b"}
			}
			var patches atomic.Int32
			kube := fake.NewClientBuilder().WithObjects(pod).WithStatusSubresource(pod).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
					opts ...client.SubResourcePatchOption,
				) error {
					patches.Add(1)
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				},
			}).Build()
			h := &busyVM{}
			o := &Options{
				Cache: directCache{reader: kube}, Client: kube, Clock: now, Log: slog.New(slog.DiscardHandler),
			}
			s := &Scheduler{o: o, pods: newRecords(), api: &api{o: o}}
			s.pods.update(pod.UID, func(p *record) {
				p.claim, p.address = &reservation{host: "h"}, netip.MustParseAddr("10.77.1.2")
			})
			s.hosts = &hosts{o: o, pods: s.pods, byName: map[string]*hostRecord{"h": {Host: h}}}
			s.work = newWork(o, s.pods)
			s.work.leads.Store(true)
			s.status = &podStatus{o, s.pods, s.hosts, s.api, &nodes{o, s.pods, s.hosts}}
			ctx, stop := context.WithCancel(t.Context())
			go s.work.pods.Run(ctx, 1, s.pod)
			s.podChanged(nil, pod)
			for range 10_000 {
				h.restarts.Add(1)
				s.hostChanged(vmID(pod.UID))
				synctest.Wait()
				now.Advance(200 * time.Microsecond)
			}
			if n := patches.Load(); n < 5 || n > 20 {
				t.Errorf("deleted: %t; %d patches for 10,000 changes in 2 s", deleted, n)
			}
			now.Advance(statusPause)
			synctest.Wait()
			got := &corev1.Pod{}
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(pod), got); err != nil ||
				len(got.Status.ContainerStatuses) != 1 || got.Status.ContainerStatuses[0].RestartCount != 10_000 {
				t.Errorf("deleted: %t; the last change is not written: %v, %+v", deleted, err, got.Status)
			}
			stop()
			synctest.Wait()
		})
	}
}
