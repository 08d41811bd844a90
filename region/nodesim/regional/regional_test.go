package regional

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/nodesim"
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

// Of the subnets in an instance's zone that a NodeClass selects for pods, the one with most free addresses counts.
func TestThePodNetworkIsInTheInstancesZone(t *testing.T) {
	r, err := region.Open(region.Config{Name: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	first, second := r.Subnets()[0], r.Subnets()[1]
	tags := map[string]string{"pods": "yes"}
	create := func(zone, cidr string, tags map[string]string) string {
		s, err := r.CreateSubnet(region.SubnetRequest{Zone: zone, CIDR: netip.MustParsePrefix(cidr), Tags: tags})
		if err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	create(first.Zone, "10.200.0.0/26", tags)
	want := create(first.Zone, "10.200.1.0/24", tags)
	create(first.Zone, "10.200.2.0/23", map[string]string{"pods": "no"})
	create(second.Zone, "10.200.4.0/23", tags)
	group, err := r.CreateSecurityGroup(region.SecurityGroupRequest{Name: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	yes := []nodesim.Selector{{ID: "subnet-1"}, {Tags: tags}}
	all := []nodesim.Selector{{Tags: map[string]string{"pods": "*"}}}
	groups := []nodesim.Selector{{ID: group.ID}}
	got, err := podNetworkIn(r, first.Zone, yes, groups)
	if err != nil || got.SubnetID != want || !slices.Equal(got.SecurityGroups, []string{group.ID}) {
		t.Errorf("pod network %+v, %v; want %s", got, err, want)
	}
	if _, err := podNetworkIn(r, "us-west-2z", all, groups); err == nil || !strings.Contains(err.Error(), "no subnet in") {
		t.Errorf("in a zone without one: %v", err)
	}
	if _, err := podNetworkIn(r, first.Zone, all, yes); err == nil || !strings.Contains(err.Error(), "no security group") {
		t.Errorf("without a security group: %v", err)
	}
}
