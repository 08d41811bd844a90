package wiretest

import (
	"errors"
	"slices"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
)

// The built-in catalogue equals what the provider reads over the wire: the same types, labels, capacity, zones and
// on-demand prices. Spot prices change.
func TestTheBuiltInCatalogueIsWhatEC2Says(t *testing.T) {
	p := newPlace(t)
	provider := p.connect(t)
	class := requestFor("any", "general").Class
	asked, err := provider.Catalog(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	known, assumed, err := aws.BuiltIn(p.classes["default"], p.region.Name(), catalog.Of(p.region.Name()), 0)
	if err != nil || assumed {
		t.Fatalf("assumed: %v, error: %v", assumed, err)
	}
	if len(asked) != len(known) || len(asked) < 500 {
		t.Fatalf("EC2 has %d types, the catalogue %d", len(asked), len(known))
	}
	for i := range asked {
		a, b := &asked[i], &known[i]
		if a.Name != b.Name || a.Capacity != b.Capacity || a.Allocatable != b.Allocatable ||
			!slices.Equal(a.AttachLimits, b.AttachLimits) {
			t.Errorf("EC2 says %s %v %v %v, the catalogue %s %v %v %v", a.Name, a.Capacity, a.Allocatable, a.AttachLimits,
				b.Name, b.Capacity, b.Allocatable, b.AttachLimits)
		}
		if x, y := a.Requirements.String(), b.Requirements.String(); x != y {
			t.Errorf("%s: EC2 says %s\nthe catalogue %s", a.Name, x, y)
		}
		if !slices.EqualFunc(a.Offerings, b.Offerings, func(x, y model.Offering) bool {
			return x.Zone == y.Zone && x.CapacityType == y.CapacityType && y.Price > 0 &&
				(x.Price == y.Price || x.CapacityType == model.Spot)
		}) {
			t.Errorf("%s: EC2 offers %v, the catalogue %v", a.Name, a.Offerings, b.Offerings)
		}
		if t.Failed() {
			return
		}
	}
}

// An unresolved class may use every zone; an invalid one offers nothing.
func TestTheBuiltInCatalogueNeedsNobodyToResolveTheClass(t *testing.T) {
	p := newPlace(t)
	fresh := p.classes["default"].DeepCopy()
	fresh.Status = ec2v1.EC2NodeClassStatus{}
	region := catalog.Of("us-west-2")
	types, assumed, err := aws.BuiltIn(fresh, "us-west-2", region, 0)
	if err != nil || !assumed || len(types) < 500 {
		t.Fatalf("%d types, assumed %v, %v", len(types), assumed, err)
	}
	zones := map[string]bool{}
	for i := range types {
		for _, o := range types[i].Offerings {
			zones[o.Zone] = true
		}
	}
	if len(zones) != len(region.Zones()) {
		t.Errorf("zones %v of %v", zones, region.Zones())
	}
	if len(fresh.Status.Subnets) != 0 {
		t.Error("the caller's class was changed")
	}
	fresh.Spec.Role = ""
	if _, _, err := aws.BuiltIn(fresh, "us-west-2", region, 0); !errors.Is(err, cloud.ErrClassNotReady) {
		t.Errorf("a class without a role: %v", err)
	}
}
