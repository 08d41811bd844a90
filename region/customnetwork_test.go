package region_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// With custom networking a node's first interface holds no pod addresses; the others are in the subnet and the
// security groups of the node's ENIConfig. Without an ENIConfig no pod gets an address.
func TestPodsOfACustomNetwork(t *testing.T) {
	dir, v := t.TempDir(), clock.NewVirtual(monday)
	p := seeded(t, region.Config{Dir: dir, Clock: v})
	own := p.Subnets()[0]
	pods, err := p.CreateSubnet(region.SubnetRequest{Zone: own.Zone, CIDR: netip.MustParsePrefix("10.200.0.0/24")})
	if err != nil || pods.Free != 251 || pods.Zone != own.Zone {
		t.Fatalf("%+v, %v", pods, err)
	}
	free := func(id string) int {
		for _, s := range p.Subnets() {
			if s.ID == id {
				return s.Free
			}
		}
		return -1
	}
	c := catalog.CNI{WarmENI: 1, CustomNetwork: true}
	id := p.node("m5.large", c, 20) // 3 interfaces of 10 addresses
	if failed := p.start(id, 0, 1); failed != 1 || free(own.ID) != own.Free-1 {
		t.Errorf("without an ENIConfig %d of 1 pods have no address, %d addresses gone", failed, own.Free-free(own.ID))
	}
	for subnet, code := range map[string]string{
		"subnet-1": "InvalidSubnetID.NotFound", p.Subnets()[1].ID: "InvalidParameterValue",
	} {
		if err := p.SetPodNetwork(id, region.PodNetwork{SubnetID: subnet}); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("a pod network in %s: %v, want %s", subnet, err, code)
		}
	}
	if err := p.SetPodNetwork(id, region.PodNetwork{SubnetID: pods.ID, SecurityGroups: []string{"sg-pods"}}); err != nil {
		t.Fatal(err)
	}
	p.SetCNI(id, c, 20)
	if failed := p.start(id, 0, 20); failed != 2 {
		t.Errorf("%d of 20 pods have no address, want 2", failed)
	}
	list, _ := p.held(id)
	if len(list) != 3 || list[0].DeviceIndex == 0 && len(list[0].Addresses) > 0 {
		t.Errorf("interfaces %+v", list)
	}
	for _, e := range list {
		if e.DeviceIndex > 0 && (e.SubnetID != pods.ID || e.SecurityGroups[0] != "sg-pods") {
			t.Errorf("interface %+v is not of the ENIConfig", e)
		}
	}
	for uid, a := range p.PodAddresses() {
		if !pods.CIDR.Contains(a.IP) {
			t.Errorf("pod %s has %s", uid, a.IP)
		}
	}
	if own.Free-free(own.ID) != 1 || pods.Free-free(pods.ID) != 20 {
		t.Errorf("%d addresses gone from the subnet of the node, %d from that of the pods; want 1 and 20",
			own.Free-free(own.ID), pods.Free-free(pods.ID))
	}

	p = open(t, region.Config{Dir: copyOf(t, dir), Clock: v})
	if free(pods.ID) != pods.Free-20 {
		t.Errorf("after a restart %d addresses are free", free(pods.ID))
	}
}

func TestSubnetsOfOnesOwn(t *testing.T) {
	p := seeded(t, region.Config{})
	first := p.Subnets()[0]
	create := func(zone, cidr string) (region.Subnet, error) {
		return p.CreateSubnet(region.SubnetRequest{Zone: zone, CIDR: netip.MustParsePrefix(cidr)})
	}
	for _, x := range []struct{ zone, cidr, code string }{
		{"mars-1a", "10.200.0.0/24", "InvalidParameterValue"},
		{first.ZoneID, "10.200.0.1/24", "InvalidSubnet.Range"},
		{first.Zone, "10.200.0.0/29", "InvalidSubnet.Range"},
		{first.Zone, "192.168.0.0/24", "InvalidSubnet.Range"},
		{"", first.CIDR.String(), "InvalidSubnet.Conflict"},
	} {
		if _, err := create(x.zone, x.cidr); err == nil || !strings.Contains(err.Error(), x.code) {
			t.Errorf("%s in %q: %v, want %s", x.cidr, x.zone, err, x.code)
		}
	}
	s, err := create(first.ZoneID, "10.200.0.0/28")
	if err != nil || s.Zone != first.Zone || s.Free != 11 {
		t.Fatalf("%+v, %v", s, err)
	}
	e, err := p.CreateNetworkInterface(region.InterfaceRequest{SubnetID: s.ID})
	if err != nil {
		t.Fatal(err)
	}
	for id, code := range map[string]string{
		s.ID: "DependencyViolation", first.ID: "OperationNotPermitted", "subnet-1": "InvalidSubnetID.NotFound",
	} {
		if err := p.DeleteSubnet(id); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("delete %s: %v, want %s", id, err, code)
		}
	}
	if err := p.DeleteNetworkInterface(e.ID); err != nil {
		t.Fatal(err)
	}
	if err := p.DeleteSubnet(s.ID); err != nil || len(p.Subnets()) != len(p.Zones()) {
		t.Errorf("%v, %d subnets", err, len(p.Subnets()))
	}
}
