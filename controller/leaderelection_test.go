package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
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
