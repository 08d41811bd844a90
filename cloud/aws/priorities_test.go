package aws

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

// EC2 does not know the request's own prices: the fleet gets priorities instead, and for spot only offerings of about
// the same price are in one fleet.
func TestPricesOfOurOwnAreTheOrderOfTheFleet(t *testing.T) {
	for kind, strategy := range map[string]string{
		model.Spot:     "capacity-optimized-prioritized",
		model.OnDemand: `"prioritized"`,
	} {
		a, p, _ := stage(t)
		req := requestFor("c1", model.OneOf(model.LabelInstanceType, "m5.large", "m7g.large"),
			model.OneOf(model.LabelCapacityType, kind))
		req.Prices = map[model.OfferingKey]model.Price{}
		for i, zone := range fakeZones {
			req.Prices[model.OfferingKey{Type: "m5.large", Zone: zone, CapacityType: kind}] = model.Price(1000 + i)
		}
		if m := mustLaunch(t, p, req).Instance; m.Type != "m5.large" {
			t.Errorf("%s: launched %s; m5.large is cheaper by far", kind, m.Type)
		}
		for _, f := range a.fleets {
			if !strings.Contains(f.params, strategy) || !strings.Contains(f.params, `"Priority":0,`) ||
				!strings.Contains(f.params, `"Priority":2,`) {
				t.Errorf("%s: the fleet does not know the order: %s", kind, f.params)
			}
			if kind == model.Spot && strings.Contains(f.params, "m7g.large") {
				t.Errorf("spot that costs much more may be chosen: %s", f.params)
			}
		}
	}
}

func TestOnlyChoicesOfAboutTheSamePriceAreNear(t *testing.T) {
	choices := []choice{{price: 100}, {price: 110}, {price: 111}, {price: 500}}
	if got := closeInPrice(choices); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestPricesAreMillionthsOfADollar(t *testing.T) {
	for text, want := range map[string]model.Price{
		"0.0416": 41_600, "13.0000005": 13_000_001, "0": 0, "-1": 0,
		"free": 0,
	} {
		if got, ok := parsePrice(text); got != want || ok != (want > 0) {
			t.Errorf("%q is %d (%t), want %d", text, got, ok, want)
		}
	}
}
