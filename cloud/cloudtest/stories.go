package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

func (t *teller) catalogue() {
	types := t.types()
	if !slices.IsSortedFunc(types, func(a, b model.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("types are not sorted by name")
	}
	for _, it := range types {
		if !it.Allocatable.Fits(it.Capacity) || it.Allocatable[model.CPU] <= 0 {
			t.Errorf("%s: allocatable %v is no proper part of capacity %v", it.Name, it.Allocatable, it.Capacity)
		}
		if len(it.Offerings) == 0 {
			t.Errorf("%s: no offerings", it.Name)
		}
		if r, _ := it.Requirements.Get(model.LabelInstanceType); !slices.Equal(r.Values, []string{it.Name}) {
			t.Errorf("%s: its label says %v", it.Name, r)
		}
		for _, o := range it.Offerings {
			if o.Price <= 0 || o.Zone == "" {
				t.Errorf("%s: offering %+v without price or zone", it.Name, o)
			}
		}
	}
	// Prices may still arrive, which is a change.
	again := t.types()
	if &again[0] != &types[0] && reflect.DeepEqual(again, types) {
		t.Error("nothing changed, but the slice is another one")
	}
}

func (t *teller) obeys() {
	want := t.offers()[3]
	m := t.launch(t.request("obeys", exactly(want)...)).Instance
	if keyOf(m) != want.OfferingKey {
		t.Errorf("launched %v, required %v", keyOf(m), want.OfferingKey)
	}
	for label, value := range map[string]string{
		model.LabelInstanceType: want.Type, model.LabelZone: want.Zone,
		model.LabelCapacityType: want.CapacityType,
	} {
		if m.Labels[label] != value {
			t.Errorf("label %s is %q, want %q", label, m.Labels[label], value)
		}
	}
	if !pod().Fits(m.Allocatable) || m.ID == "" || !strings.HasSuffix(m.ProviderID, m.ID) || m.ImageID == "" {
		t.Errorf("instance is incomplete: %+v", m)
	}
	t.alive(1)
}

func (t *teller) cheapest() {
	offers := t.offers()
	m := t.launch(t.request("cheap", model.OneOf(model.LabelCapacityType, model.OnDemand))).Instance
	i := slices.IndexFunc(offers, func(o offer) bool { return o.OfferingKey == keyOf(m) })
	if i < 0 || offers[i].price != offers[0].price {
		t.Errorf("launched %v; %v costs %v", keyOf(m), offers[0].OfferingKey, offers[0].price)
	}
}

func (t *teller) sameToken() {
	req := t.request("twin", model.OneOf(model.LabelCapacityType, model.OnDemand))
	first, second := t.launch(req).Instance, t.launch(req).Instance
	if first.ID != second.ID {
		t.Errorf("one token gave %s and %s", first.ID, second.ID)
	}
	t.alive(1)
}

func (t *teller) sameTokenAfterRestart() {
	offers := t.offers()
	first := t.launch(t.request("phoenix", exactly(offers[0])...)).Instance
	for _, rs := range [][]model.Requirement{
		exactly(offers[0]), exactly(offers[1]),
		{model.OneOf(model.LabelCapacityType, model.Spot, model.OnDemand)},
	} {
		t.p = t.cloud.Connect(t.T)
		if again := t.launch(t.request("phoenix", rs...)).Instance; again.ID != first.ID || keyOf(again) != keyOf(first) {
			t.Errorf("after a restart, asked for %v: instance %s %v, before %s %v", rs, again.ID, keyOf(again), first.ID,
				keyOf(first))
		}
	}
	t.alive(1)
}

// fresh applies to providers that detect drift.
func (t *teller) fresh() {
	drifter, ok := t.p.(cloud.Drifter)
	if !ok {
		t.Skip("the provider knows nothing of drift")
	}
	m := t.launch(t.request("fresh")).Instance
	about := cloud.Launched{InstanceID: m.ID, Class: t.cloud.Ready, Type: m.Type, ImageID: m.ImageID}
	if got, err := drifter.Drifted(context.Background(), about); err != nil || got != "" {
		t.Errorf("an instance that was just launched has drifted: %q, %v", got, err)
	}
	about.Class = t.cloud.NotReady
	if got, err := drifter.Drifted(context.Background(), about); !errors.Is(err, cloud.ErrClassNotReady) {
		t.Errorf("drift of a class that is not ready: %q, %v, want ErrClassNotReady", got, err)
	}
}

func (t *teller) many() {
	const n = 40
	ids := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			result, err := t.p.Launch(context.Background(), t.request(fmt.Sprintf("many-%d", i)))
			if err != nil {
				t.Errorf("launch %d: %v", i, err)
			}
			ids[i] = result.Instance.ID
		})
	}
	all.Wait()
	slices.Sort(ids)
	if len(slices.Compact(ids)) != n {
		t.Errorf("%d launches gave %d instances", n, len(slices.Compact(ids)))
	}
	t.alive(n)
}

func (t *teller) oneToken() {
	req := t.request("sole", model.OneOf(model.LabelCapacityType, model.OnDemand))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := t.p.Launch(context.Background(), req); err != nil {
				t.Errorf("launch: %v", err)
			}
		})
	}
	all.Wait()
	t.alive(1)
}

func (t *teller) notReady() {
	for _, class := range []cloud.ClassRef{t.cloud.NotReady, t.cloud.Missing} {
		req := t.request("early")
		req.Class = class
		if _, err := t.p.Launch(context.Background(), req); !errors.Is(err, cloud.ErrClassNotReady) {
			t.Errorf("launch under %s: %v, want ErrClassNotReady", class.Name, err)
		}
		if _, err := t.p.Catalog(context.Background(), class); !errors.Is(err, cloud.ErrClassNotReady) {
			t.Errorf("catalogue of %s: %v, want ErrClassNotReady", class.Name, err)
		}
	}
	t.alive(0)
}

func (t *teller) cancelled() {
	t.types()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := t.p.Launch(ctx, t.request("never")); !errors.Is(err, context.Canceled) {
		t.Errorf("launch: %v, want context.Canceled", err)
	}
	if _, err := t.p.Get(ctx, "i-0123456789abcdef0"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v, want context.Canceled", err)
	}
	t.alive(0)
}
