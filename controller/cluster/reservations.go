package cluster

import (
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// SetReservations says which capacity reservations a node class selects, and what they have free. The slice is kept:
// do not change it.
func (pl *pools) SetReservations(class cloud.ClassRef, reservations []model.Reservation) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	old := pl.reservations[class]
	if pl.reservations == nil {
		pl.reservations = map[cloud.ClassRef][]model.Reservation{}
	}
	pl.reservations[class] = reservations
	if !slices.EqualFunc(old, reservations, sameOffer) {
		if c, known := pl.catalogs[class]; known {
			c.types, c.marked = pl.complete(class, c.given), nil
			pl.catalogs[class] = c
		}
		pl.nodes.touchAll()
		pl.overlaid.invalidate()
	}
	if !slices.EqualFunc(old, reservations, func(a, b model.Reservation) bool { return a.Free == b.Free }) {
		pl.poke()
	}
}

// sameOffer compares what types say of two reservations.
func sameOffer(a, b model.Reservation) bool {
	return a.ID == b.ID && a.Type == b.Type && a.Zone == b.Zone && a.Price == b.Price &&
		a.Labels.String() == b.Labels.String()
}

// free returns the reservations of a class less what claims that are not launched yet will take of them.
func (pl *pools) free(class cloud.ClassRef) []model.Reservation {
	if len(pl.reservations[class]) == 0 {
		return nil
	}
	out := slices.Clone(pl.reservations[class])
	for _, claim := range pl.objects.claims.live {
		if claim.Status.ProviderID != "" || claim.DeletionTimestamp != nil {
			continue
		}
		if r := reservationOf(claim, out); r != nil {
			r.Free = max(r.Free-1, 0)
		}
	}
	return out
}

// reservationOf returns the reservation from which a claim is launched; nil if from none of them.
func reservationOf(claim *karpv1.NodeClaim, reservations []model.Reservation) *model.Reservation {
	wants, err := translate.Requirements(claim.Spec.Requirements)
	if err != nil {
		return nil // the launch will say why
	}
	i := slices.IndexFunc(reservations, func(r model.Reservation) bool { return r.Holds(wants) })
	if i < 0 {
		return nil
	}
	return &reservations[i]
}
