package controller

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

func TestAnotherControllerLeadsAsLongAsItRenewsItsLease(t *testing.T) {
	now := clock.NewVirtual(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	kube := fake.NewClientset()
	o := &otherLeaders{
		kube: kube, own: types.NamespacedName{Namespace: "kube-system", Name: DefaultLease}, clock: now,
		log: slog.Default(), seen: map[string]sighting{},
	}
	put := func(namespace, name, holder string, renewed time.Time) {
		t.Helper()
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, new(metav1.NewMicroTime(renewed))
		l.Spec.LeaseDurationSeconds = new(int32(15))
		_ = kube.Tracker().Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace, name)
		if err := kube.Tracker().Add(l); err != nil {
			t.Fatal(err)
		}
	}
	leads := func(want bool, when string) {
		t.Helper()
		if who, _, err := o.active(t.Context()); err != nil || (who != "") != want {
			t.Errorf("%s: another one that leads is %q, error %v", when, who, err)
		}
	}
	leads(false, "nobody")
	put("kube-system", DefaultLease, "we", now.Now())
	put("karpenter", "another-lease", "somebody", now.Now())
	leads(false, "our own, and a Lease of something else")

	hourBehind := now.Now().Add(-time.Hour) // the other process's clock is behind
	put("karpenter", DefaultLease, "karpenter", hourBehind)
	leads(true, "seen for the first time")
	now.Advance(14 * time.Second)
	leads(true, "not seen for as long as the Lease lasts")
	now.Advance(time.Second)
	leads(false, "not renewed")
	put("karpenter", DefaultLease, "karpenter", hourBehind.Add(time.Minute))
	leads(true, "renewed again")
	put("karpenter", DefaultLease, "", hourBehind.Add(time.Minute))
	leads(false, "given back")
}

// Controllers that awaited their turn get their Leases at once. The first stays as soon as the others have given way,
// but not beside one that goes on, such as Karpenter.
func TestOfControllersThatBeginAtOnceTheFirstStays(t *testing.T) {
	const karpenter = "karpenter"
	for name, c := range map[string]struct {
		acquired map[string]time.Duration // by namespace, after the start
		stays    string
	}{
		"of two":                  {map[string]time.Duration{"b": 0, "a": time.Second}, "b"},
		"of two at the same time": {map[string]time.Duration{"b": 0, "a": 0}, "a"},
		"of three":                {map[string]time.Duration{"c": time.Second, "b": 0, "a": 2 * time.Second}, "b"},
		"beside Karpenter":        {map[string]time.Duration{"a": 0, karpenter: time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 4*leaseDuration)
				defer cancel()
				kube, start := fake.NewClientset(), time.Now()
				acted := make(chan string, len(c.acquired))
				for namespace, after := range c.acquired {
					holdLease(t, kube, namespace, start.Add(after))
				}
				var all sync.WaitGroup
				for namespace := range c.acquired {
					if namespace != karpenter {
						all.Go(func() { actOrRelease(ctx, t, kube, namespace, acted) })
					}
				}
				for clock.Sleep(ctx, clock.Real{}, retryPeriod) == nil {
					if after, ok := c.acquired[karpenter]; ok {
						holdLease(t, kube, karpenter, start.Add(after))
					}
				}
				all.Wait()
				close(acted)
				got := ""
				for namespace := range acted {
					got += namespace
				}
				if got != c.stays {
					t.Errorf("%q acted, want %q", got, c.stays)
				}
			})
		})
	}
}

// actOrRelease is what a controller does that has just got its Lease.
func actOrRelease(ctx context.Context, t *testing.T, kube *fake.Clientset, namespace string, acted chan<- string) {
	o := &otherLeaders{
		kube: kube, own: types.NamespacedName{Namespace: namespace, Name: DefaultLease}, clock: clock.Real{},
		log: slog.New(slog.DiscardHandler), seen: map[string]sighting{},
	}
	err := o.alone(ctx, func(ctx context.Context) error {
		acted <- namespace
		<-ctx.Done()
		return nil
	})
	if err == nil {
		return
	}
	err = kube.CoordinationV1().Leases(namespace).Delete(ctx, DefaultLease, metav1.DeleteOptions{})
	if err != nil {
		t.Error(err)
	}
}

// holdLease makes a controller hold its Lease, renewed just now.
func holdLease(t *testing.T, kube *fake.Clientset, namespace string, acquired time.Time) {
	t.Helper()
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: DefaultLease},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &namespace, AcquireTime: new(metav1.NewMicroTime(acquired)), RenewTime: new(metav1.NowMicro()),
		},
	}
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	if kube.Tracker().Update(leases, l, namespace) == nil {
		return
	}
	if err := kube.Tracker().Add(l); err != nil {
		t.Fatal(err)
	}
}
