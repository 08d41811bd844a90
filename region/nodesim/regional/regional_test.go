package regional

import (
	"testing"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/region"
)

// eks-node-viewer knows the prices of AWS's types; those of other types are on the Node.
func TestAnInstanceOfOnesOwnTypeTellsItsPrice(t *testing.T) {
	own := catalog.Own{
		Zones: []string{"lab"},
		Types: []catalog.OwnType{{Name: "small", VCPU: 2, MemoryMiB: 4096, OnDemand: 0.05}},
	}
	offers, err := own.Region()
	if err != nil {
		t.Fatal(err)
	}
	r, err := region.Open(region.Config{Name: "us-west-2", Offers: offers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if got := instanceOf(r, region.Instance{Type: "small", PriceMicros: 50_000}).Labels[labelPrice]; got != "0.05" {
		t.Errorf("price %q, want 0.05", got)
	}
	if got := instanceOf(r, region.Instance{Type: "m5.large", PriceMicros: 96_000}).Labels; len(got) > 0 {
		t.Errorf("labels %v of a type of AWS", got)
	}
}

// If EC2 refuses, the result is an error and nothing else.
func TestARefusedBranchIsNone(t *testing.T) {
	r, err := region.Open(region.Config{Name: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if b, err := Instances(r).AssignBranch("i-missing", "pod", nil); err == nil || b.ID != "" {
		t.Errorf("%+v, %v", b, err)
	}
	if err := Instances(r).AttachTrunk("i-missing"); err == nil {
		t.Error("an instance that is not there gets a trunk")
	}
}
