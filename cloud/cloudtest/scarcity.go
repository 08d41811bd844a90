package cloudtest

import (
	"context"
	"errors"
	"slices"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

func (t *teller) noCapacity() {
	o := t.offers()[0]
	t.cloud.Exhaust(t.T, o.OfferingKey)
	result, err := t.p.Launch(context.Background(), t.request("dry", exactly(o)...))
	if !errors.Is(err, cloud.ErrNoCapacity) {
		t.Fatalf("error %v, want ErrNoCapacity", err)
	}
	if !slices.Equal(result.Exhausted, []model.OfferingKey{o.OfferingKey}) {
		t.Errorf("exhausted %v, want %v", result.Exhausted, o.OfferingKey)
	}
	t.alive(0)
}

func (t *teller) nextBest() {
	offers := t.offers()
	best := offers[0]
	rest := slices.IndexFunc(offers, func(o offer) bool { return o.price > best.price })
	if rest < 0 {
		t.Skip("all offerings cost the same")
	}
	var dry []model.OfferingKey
	for _, o := range offers[:rest] {
		dry = append(dry, o.OfferingKey)
	}
	t.cloud.Exhaust(t.T, dry...)
	m := t.launch(t.request("second", model.OneOf(model.LabelCapacityType, model.OnDemand))).Instance
	i := slices.IndexFunc(offers, func(o offer) bool { return o.OfferingKey == keyOf(m) })
	if i < rest || offers[i].price != offers[rest].price {
		t.Errorf("launched %v, the next best is %v", keyOf(m), offers[rest].OfferingKey)
	}
	t.alive(1)
}

func (t *teller) spotFallsThrough() {
	onDemand := t.offers()[0]
	spot := onDemand.OfferingKey
	spot.CapacityType = model.Spot
	t.cloud.Exhaust(t.T, spot)
	req := t.request("faller", model.OneOf(model.LabelInstanceType, onDemand.Type),
		model.OneOf(model.LabelZone, onDemand.Zone),
		model.OneOf(model.LabelCapacityType, model.Spot, model.OnDemand))
	result := t.launch(req)
	if keyOf(result.Instance) != onDemand.OfferingKey {
		t.Errorf("launched %v, want %v", keyOf(result.Instance), onDemand.OfferingKey)
	}
	if !slices.Contains(result.Exhausted, spot) {
		t.Errorf("exhausted %v does not name %v", result.Exhausted, spot)
	}
	t.p = t.cloud.Connect(t.T)
	req.Unavailable = map[model.OfferingKey]bool{spot: true}
	if again := t.launch(req).Instance; again.ID != result.Instance.ID {
		t.Errorf("after a restart %s, before %s", again.ID, result.Instance.ID)
	}
	t.alive(1)
}

func (t *teller) triedAgain() {
	offers := t.offers()
	t.cloud.Exhaust(t.T, offers[0].OfferingKey)
	if _, err := t.p.Launch(context.Background(), t.request("stubborn", exactly(offers[0])...)); !errors.Is(err,
		cloud.ErrNoCapacity) {
		t.Fatalf("error %v, want ErrNoCapacity", err)
	}
	if m := t.launch(t.request("stubborn", exactly(offers[1])...)).Instance; keyOf(m) != offers[1].OfferingKey {
		t.Errorf("launched %v, want %v", keyOf(m), offers[1].OfferingKey)
	}
	t.alive(1)
}

func (t *teller) unavailable() {
	offers := t.offers()
	other := slices.IndexFunc(offers, func(o offer) bool { return o.Type != offers[0].Type })
	if other < 0 {
		t.Fatal("the cloud has a single type for a small pod, the story needs two")
	}
	req := t.request("picky", model.OneOf(model.LabelInstanceType, offers[0].Type, offers[other].Type),
		model.OneOf(model.LabelCapacityType, model.OnDemand))
	req.Unavailable = map[model.OfferingKey]bool{}
	for _, o := range offers {
		if o.Type == offers[0].Type {
			req.Unavailable[o.OfferingKey] = true
		}
	}
	if m := t.launch(req).Instance; m.Type != offers[other].Type {
		t.Errorf("launched %v; all of %s was said to be unavailable", keyOf(m), offers[0].Type)
	}
}
