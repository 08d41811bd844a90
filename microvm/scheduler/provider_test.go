package scheduler

import (
	"context"
	"testing"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// reserved is a cloud with a capacity reservation.
type reserved struct{ cloud.Provider }

func (reserved) Reservations(_ context.Context, class cloud.ClassRef) ([]model.Reservation, error) {
	return []model.Reservation{{ID: "cr-" + class.Name, Free: 1}}, nil
}

// A cloud beside microVMs keeps its capacity reservations; one without them has none.
func TestReservationsOfTheCloudAreKnown(t *testing.T) {
	for name, c := range map[string]struct {
		base cloud.Provider
		want int
	}{
		"with reservations":    {reserved{}, 1},
		"without reservations": {struct{ cloud.Provider }{}, 0},
	} {
		source, ok := (&Scheduler{}).Multiplex(c.base).(cloud.Reserver)
		if !ok {
			t.Fatalf("%s: nobody can ask for them", name)
		}
		got, err := source.Reservations(t.Context(), cloud.ClassRef{Name: "web"})
		if err != nil || len(got) != c.want || c.want > 0 && (got[0].ID != "cr-web" || got[0].Free != 1) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
