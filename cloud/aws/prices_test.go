package aws

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

// Regions that the built-in catalogue lacks have on-demand offerings even if the price list cannot be read: as in
// Karpenter, at the prices of us-east-1. The price list refuses credentials of GovCloud.
func TestRegionsWithoutAPriceListHavePrices(t *testing.T) {
	want, _ := catalog.Of("us-east-1").OnDemand("m5.large")
	for _, c := range []struct {
		region   string
		isolated bool
	}{{"us-gov-west-1", false}, {"eu-south-1", true}} {
		a, p, _ := stage(t, func(o *Options) { o.AWS.Region, o.IsolatedVPC = c.region, c.isolated })
		denied := apiError("UnrecognizedClientException", "The security token included in the request is invalid")
		a.fail["GetProducts"] = []error{denied, denied}
		types, err := p.Catalog(t.Context(), classRef)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, x := range types {
			for _, o := range x.Offerings {
				if x.Name == "m5.large" && o.CapacityType == model.OnDemand {
					found++
					if got := o.Price - o.SidePrice; got != model.Price(want) {
						t.Errorf("%s: m5.large costs %v, want %v as in us-east-1", c.region, got, want)
					}
				}
			}
		}
		if found != len(fakeZones) || a.count("GetProducts") > 0 {
			t.Errorf("%s: %d offerings, %d calls of the price list", c.region, found, a.count("GetProducts"))
		}
		if got := p.PriceNote(); !strings.Contains(got, "us-east-1") {
			t.Errorf("%s: note %q", c.region, got)
		}
	}
	_, p, _ := stage(t)
	if _, err := p.Catalog(t.Context(), classRef); err != nil || p.PriceNote() != "" {
		t.Errorf("a region with prices: %q, %v", p.PriceNote(), err)
	}
}
