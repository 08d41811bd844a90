package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// A snapshot has the free capacity of a class's reservations, less what unlaunched claims will take, and types with
// the offering. Without reservations it has neither.
func TestASnapshotKnowsCapacityReservations(t *testing.T) {
	w, c := fresh()
	w.Update(poolOf("p", 1))
	w.SetCatalog(class, m5Large(), "")
	reservation := func(free int64) []model.Reservation {
		return []model.Reservation{{
			ID: "cr-1", Type: "m5.large", Zone: "z", Free: free,
			Labels: model.Requirements{model.OneOf("example.com/reservation", "cr-1")},
		}}
	}
	wantFree := func(free int64) {
		t.Helper()
		s := w.Snapshot()
		if r := s.Pools[0].Reservations; len(r) != 1 || r[0].Free != free {
			t.Errorf("reservations %+v, want one with %d free", r, free)
		}
		if kinds, _ := s.Pools[0].Types[0].Requirements.Get("example.com/reservation"); !kinds.IsDoesNotExist() {
			t.Errorf("the type does not say that its other nodes lack the label: %s", kinds.String())
		}
	}
	w.SetReservations(class, reservation(3))
	wantFree(3)
	claim := inFlight("5")
	for key, value := range map[string]string{
		model.LabelCapacityType: model.Reserved, "example.com/reservation": "cr-1",
	} {
		claim.Spec.Requirements = append(claim.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		})
	}
	w.Update(claim)
	wantFree(2)
	launched := claim.DeepCopy()
	launched.ResourceVersion, launched.Status.ProviderID = "9", "aws:///z/i-1"
	launched.CreationTimestamp = metav1.NewTime(c.Now())
	w.Update(launched)
	wantFree(2)
	c.Advance(time.Second)
	w.SetReservations(class, reservation(2)) // includes the launch
	wantFree(2)
	w.SetReservations(class, nil)
	if p := w.Snapshot().Pools[0]; p.Reservations != nil || len(p.Types[0].Requirements) != len(m5Large()[0].Requirements) {
		t.Errorf("without reservations there are still %v, and the type says %s", p.Reservations, p.Types[0].Requirements)
	}
}
