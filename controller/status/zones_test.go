package status

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// shifts is a cloud that reports which zones are shifted.
type shifts struct{ zones []cloud.ShiftedZone }

func (s *shifts) ShiftedZones(context.Context) ([]cloud.ShiftedZone, error) { return s.zones, nil }

func (*shifts) Catalog(context.Context, cloud.ClassRef) ([]model.InstanceType, error) {
	return nil, nil
}

// told collects events.
type told []string

func (r *told) Event(o runtime.Object, kind, reason, message string) {
	*r = append(*r, fmt.Sprint(o.(metav1.Object).GetName(), " ", kind, " ", reason, ": ", message))
}

func poolIn(name string, zones ...string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", ResourceVersion: "1"}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	if len(zones) > 0 {
		p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: model.LabelZone, Operator: corev1.NodeSelectorOpIn, Values: zones},
		}
	}
	return p
}

// During a zonal shift the zone's offerings are unavailable, and pools that may launch there get one event at its
// start and one at its end.
func TestShiftedZonesAreOut(t *testing.T) {
	source, heard := &shifts{}, &told{}
	state := cluster.New(cluster.Options{Clock: clock.NewVirtual(time.Now())})
	state.SetCatalog(cloud.ClassRef{Name: "default"}, []model.InstanceType{{Name: "t", Offerings: []model.Offering{
		{Zone: "a", CapacityType: model.Spot, Available: true}, {Zone: "b", CapacityType: model.Spot, Available: true},
	}}}, "")
	state.SetReservations(cloud.ClassRef{Name: "default"}, []model.Reservation{
		{ID: "cr-a", Type: "t", Zone: "a", Free: 1}, {ID: "cr-b", Type: "t", Zone: "b", Free: 1},
	})
	state.Update(poolIn("any"))
	state.Update(poolIn("only-b", "b"))
	z := newZoneReconciler(&Options{
		Provider: source, Cluster: state, Recorder: heard, Clock: clock.NewVirtual(time.Now()), Log: slog.New(slog.DiscardHandler),
	})
	look := func() []string {
		t.Helper()
		if again, err := z.reconcile(t.Context(), ""); again != shiftInterval || err != nil {
			t.Fatalf("again in %s, %v", again, err)
		}
		var out []string
		pool := state.Snapshot().Pools[0]
		for _, o := range pool.Types[0].Offerings {
			if o.CapacityType == model.Spot {
				out = append(out, fmt.Sprint(o.Zone, " ", o.Available, " ", o.Shifted, " ", o.RetryAt.IsZero()))
			}
		}
		for _, r := range pool.Reservations {
			out = append(out, r.ID)
		}
		slices.Sort(*heard)
		return out
	}
	both := []string{"a true false true", "b true false true", "cr-a", "cr-b"}
	source.zones = []cloud.ShiftedZone{{Zone: "a", ID: "az1", Until: time.Now().Add(time.Hour)}}
	for range 2 {
		if got, want := look(), []string{"a false true false", "b true false true", "cr-b"}; !slices.Equal(got, want) {
			t.Errorf("offered %q, want %q", got, want)
		}
	}
	want := told{
		"any Warning ZonalShiftActive: Zonal shift detected: offerings in zone a (az1) are unavailable for this NodePool",
	}
	if !slices.Equal(*heard, want) {
		t.Errorf("events %q, want %q", *heard, want)
	}
	*heard, source.zones = nil, []cloud.ShiftedZone{{Zone: "b", ID: "az2"}}
	look()
	want = told{
		"any Normal ZonalShiftCleared: Zonal shift cleared: offerings in zone a (az1) are restored for this NodePool",
		"any Warning ZonalShiftActive: Zonal shift detected: offerings in zone b (az2) are unavailable for this NodePool",
		"only-b Warning ZonalShiftActive: Zonal shift detected: offerings in zone b (az2) are unavailable for this NodePool",
	}
	if !slices.Equal(*heard, want) {
		t.Errorf("events %q, want %q", *heard, want)
	}
	source.zones = nil
	if got := look(); !slices.Equal(got, both) {
		t.Errorf("afterwards offered %q, want %q", got, both)
	}
}
