package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// takeover returns the time from the last renewal by a leader that dies until a standby, which began to watch the
// Lease earlier, leads. The leader's Lease lasts as long as it says.
func takeover(t *testing.T, standby, lasts time.Duration) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: DefaultLease}
		renew := func() {
			now := metav1.NowMicro()
			l := &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("leader"), LeaseDurationSeconds: new(int32(lasts.Seconds())), RenewTime: &now,
			}}
			leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
			if err := kube.Tracker().Update(leases, l, meta.Namespace); err != nil {
				t.Fatal(err)
			}
		}
		if err := kube.Tracker().Add(&coordinationv1.Lease{ObjectMeta: meta}); err != nil {
			t.Fatal(err)
		}
		renew()
		lock := &resourcelock.LeaseLock{
			LeaseMeta: meta, Client: kube.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "standby"},
		}
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		leads := make(chan struct{})
		elector, err := newElector(lock, func(context.Context) { close(leads) })
		if err != nil {
			t.Fatal(err)
		}
		go elector.Run(ctx)
		time.Sleep(standby)
		renew()
		last := time.Now()
		<-leads
		took = time.Since(last)
		stop()
		synctest.Wait()
	})
	return took
}

// The time is virtual. The standby's jitter is random, and so are the moments at which it looks. Renewals within a
// second would look the same to it.
func TestAStandbyTakesOverWithin15Seconds(t *testing.T) {
	for standby := time.Second; standby < 9*time.Second; standby += 97 * time.Millisecond {
		if took := takeover(t, standby, leaseDuration); took < leaseDuration || took > 15*time.Second {
			t.Errorf("a standby takes over %s after the last renewal, want %s to 15 s", took, leaseDuration)
		}
	}
}

// Karpenter renews its Lease less often.
func TestAStandbyWaitsForKarpentersLongerLease(t *testing.T) {
	if took := takeover(t, time.Second, 15*time.Second); took < 15*time.Second {
		t.Errorf("it takes over after %s", took)
	}
}

// A leader that cannot renew its Lease gives up three seconds before a standby may take over.
func TestALeaderThatCannotRenewStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var renewed time.Time
		broken := false
		kube.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if broken {
				return true, nil, errors.New("the API server is away")
			}
			if a.GetVerb() == "update" {
				renewed = time.Now()
			}
			return false, nil, nil
		})
		lock := &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: DefaultLease},
			Client:    kube.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "leader"},
		}
		stopped := make(chan time.Time, 1)
		elector, err := newElector(lock, func(leading context.Context) {
			<-leading.Done()
			stopped <- time.Now()
		})
		if err != nil {
			t.Fatal(err)
		}
		go elector.Run(klog.NewContext(t.Context(), klog.Logger{}))
		time.Sleep(5500 * time.Millisecond)
		broken = true
		if took := (<-stopped).Sub(renewed); took > leaseDuration-3*time.Second {
			t.Errorf("it stops %s after its last renewal", took)
		}
		synctest.Wait()
	})
}
