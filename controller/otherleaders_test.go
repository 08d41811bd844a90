package controller

import (
	"log/slog"
	"testing"
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
		if who, err := o.active(t.Context()); err != nil || (who != "") != want {
			t.Errorf("%s: another one that leads is %q, error %v", when, who, err)
		}
	}
	leads(false, "nobody")
	put("kube-system", DefaultLease, "we", now.Now())
	put("karpenter", "another-lease", "somebody", now.Now())
	leads(false, "our own, and a Lease of something else")

	hourBehind := now.Now().Add(-time.Hour) // the clock of its machine
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
