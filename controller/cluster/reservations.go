package cluster

import (
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// reservations are the reservations that a node class selects, by ID, as of a time.
type reservations struct {
	list []model.Reservation
	at   time.Time
}

// SetReservations sets the capacity reservations that a node class selects, and what they have free. The slice is
// kept: do not change it.
func (pl *pools) SetReservations(class cloud.ClassRef, list []model.Reservation) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	old := pl.reservations[class].list
	if pl.reservations == nil {
		pl.reservations = map[cloud.ClassRef]reservations{}
	}
	pl.reservations[class] = reservations{list, pl.clock.Now()}
	if !slices.EqualFunc(old, list, sameOffer) {
		pl.recomplete(class)
	}
	if !slices.EqualFunc(old, list, func(a, b model.Reservation) bool { return a.Free == b.Free }) {
		pl.poke()
	}
}

// sameOffer compares two reservations in what instance types show of them.
func sameOffer(a, b model.Reservation) bool {
	return a.ID == b.ID && a.Type == b.Type && a.Zone == b.Zone && a.Price == b.Price &&
		a.Labels.String() == b.Labels.String()
}

// free returns the reservations of a class in zones that are in use, less the claims that the cloud's numbers cannot
// include yet: those that are not launched, and those that were created since.
func (pl *pools) free(class cloud.ClassRef) []model.Reservation {
	known := pl.reservations[class]
	if len(known.list) == 0 {
		return nil
	}
	out := slices.DeleteFunc(slices.Clone(known.list), func(r model.Reservation) bool {
		_, shifted := pl.offerings.shifted[r.Zone]
		return shifted
	})
	for _, claim := range pl.objects.claims.live {
		if claim.Status.ProviderID != "" && claim.CreationTimestamp.Time.Before(known.at) || claim.DeletionTimestamp != nil {
			continue
		}
		if r := reservationOf(claim, out); r != nil {
			r.Free = max(r.Free-1, 0)
		}
	}
	return out
}

// reservationOf returns the reservation into which a claim is launched; nil if none of them.
func reservationOf(claim *karpv1.NodeClaim, reservations []model.Reservation) *model.Reservation {
	wants, err := translate.Requirements(claim.Spec.Requirements)
	if err != nil {
		return nil // the launch reports why
	}
	i := slices.IndexFunc(reservations, func(r model.Reservation) bool { return r.Holds(wants) })
	if i < 0 {
		return nil
	}
	return &reservations[i]
}
