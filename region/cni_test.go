package region_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// node launches an instance of a type in the first zone, with a CNI and a kubelet that takes maxPods pods.
func (p place) node(typeName string, c catalog.CNI, maxPods int) string {
	p.t.Helper()
	ids, result := p.launch(fleet(region.OnDemand, 1, p.override(typeName, 0)))
	if len(ids) != 1 {
		p.t.Fatalf("no %s: %+v", typeName, result.Errors)
	}
	p.SetCNI(ids[0], c, maxPods)
	return ids[0]
}

// held returns the interfaces of an instance, and how many of its subnet's addresses they hold.
func (p place) held(instance string) (list []region.NetworkInterface, addresses int) {
	for _, e := range p.NetworkInterfaces() {
		if e.InstanceID == instance {
			list = append(list, e)
			addresses += 1 + len(e.Addresses) + catalog.PrefixSize*len(e.Prefixes)
		}
	}
	return list, addresses
}

func (p place) start(instance string, from, to int) (failed int) {
	for n := from; n < to; n++ {
		if _, err := p.AssignPodIP(instance, fmt.Sprintf("%s/%d", instance, n)); err != nil {
			failed++
		}
	}
	return failed
}

func TestANodeHoldsWhatItsWarmTargetsAskFor(t *testing.T) {
	prefixes := catalog.CNI{PrefixDelegation: true, WarmPrefix: 1}
	for _, x := range []struct {
		name    string
		cni     catalog.CNI
		maxPods int
	}{
		{"t3.medium", catalog.DefaultCNI(), 17},
		{"m5.large", catalog.CNI{}, 29},
		{"m5.large", catalog.CNI{WarmIP: 2, MinimumIP: 10}, 29},
		{"m5.4xlarge", catalog.DefaultCNI(), 234},
		{"t3.medium", prefixes, 110},
		{"m5.large", catalog.CNI{PrefixDelegation: true, WarmIP: 5, MinimumIP: 1}, 110},
	} {
		p := seeded(t, region.Config{})
		free := p.Subnets()[0].Free
		id := p.node(x.name, x.cni, x.maxPods)
		typ, before := p.Type(x.name), 0
		for _, n := range []int{0, 1, 5, 10, 15} {
			if failed := p.start(id, before, n); failed > 0 {
				t.Errorf("%s under %+v: %d of %d pods have no address", x.name, x.cni, failed, n)
			}
			before = n
			want := x.cni.Holding(typ, n, x.maxPods)
			list, got := p.held(id)
			if got != want.Total() || len(list) != want.ENIs || free-p.Subnets()[0].Free != got {
				t.Errorf("%s with %d pods under %+v: %d interfaces, %d addresses, %d gone from the subnet; want %+v",
					x.name, n, x.cni, len(list), got, free-p.Subnets()[0].Free, want)
			}
		}
	}
}

// A kubelet that takes 110 pods before its VPC CNI delegates prefixes accepts pods without having addresses for them.
// After `kubectl set env daemonset aws-node ENABLE_PREFIX_DELEGATION=true` the node gets prefixes on the interfaces
// that it can still attach, and its existing interfaces keep their addresses.
func TestPrefixesComeToARunningNode(t *testing.T) {
	p := seeded(t, region.Config{})
	id := p.node("t3.medium", catalog.DefaultCNI(), 110)
	if failed := p.start(id, 0, 108); failed != 108-15 {
		t.Errorf("%d of 108 pods have no address, want all but 15", failed)
	}
	q := p.node("t3.medium", catalog.DefaultCNI(), 110)
	p.start(q, 0, 4) // two of three interfaces
	p.SetCNI(q, catalog.CNI{PrefixDelegation: true, WarmPrefix: 1}, 110)
	if failed := p.start(q, 4, 90); failed != 0 {
		t.Errorf("%d pods have no address", failed)
	}
	list, _ := p.held(q)
	if len(list) != 3 || len(list[0].Prefixes)+len(list[1].Prefixes) != 0 || len(list[2].Prefixes) != 5 {
		t.Errorf("interfaces %+v", list)
	}
}

// Single addresses are scattered over a subnet, which then has many free addresses but no free prefix, unless a part
// of it is reserved for prefixes.
func TestAScatteredSubnetHasNoPrefix(t *testing.T) {
	for _, reserve := range []bool{false, true} {
		p := seeded(t, region.Config{SubnetBits: 24})
		subnet := p.Subnets()[0]
		if reserve {
			if _, err := p.CreateSubnetCIDRReservation(region.Reservation{
				SubnetID: subnet.ID, Type: region.ReservePrefix, CIDR: netip.MustParsePrefix("10.0.0.128/25"),
			}); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 {
			p.start(p.node("m5.large", catalog.DefaultCNI(), 29), 0, 9)
		}
		id := p.node("m5.large", catalog.CNI{PrefixDelegation: true}, 110)
		_, err := p.AssignPodIP(id, "pod")
		if left := p.Subnets()[0].Free; left < 100 {
			t.Fatalf("only %d addresses are left", left)
		}
		if reserve {
			if err != nil {
				t.Errorf("with a reservation: %v", err)
			}
			continue
		}
		wantCode(t, err, "InsufficientCidrBlocks")
	}
}

// A block that a reservation of type explicit touches is nobody's prefix, though all its addresses are free.
func TestAPrefixAvoidsPartOfABlockThatIsReserved(t *testing.T) {
	p := seeded(t, region.Config{})
	subnet, err := p.CreateSubnet(region.SubnetRequest{CIDR: netip.MustParsePrefix("10.200.0.0/26")})
	if err != nil {
		t.Fatal(err)
	}
	prefix := region.InterfaceRequest{SubnetID: subnet.ID, Prefixes: 1}
	for _, cidr := range []string{"10.200.0.24/29", "10.200.0.47/32"} { // in the second block and the third
		if _, err := p.CreateSubnetCIDRReservation(region.Reservation{
			SubnetID: subnet.ID, Type: region.ReserveExplicit, CIDR: netip.MustParsePrefix(cidr),
		}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = p.CreateNetworkInterface(prefix)
	wantCode(t, err, "InsufficientCidrBlocks")
	list, err := p.SubnetCIDRReservations(subnet.ID)
	if err != nil || len(list) != 2 {
		t.Fatalf("reservations %v, %v", list, err)
	}
	if _, err := p.DeleteSubnetCIDRReservation(list[1].ID); err != nil {
		t.Fatal(err)
	}
	e, err := p.CreateNetworkInterface(prefix)
	if err != nil || e.Prefixes[0] != netip.MustParsePrefix("10.200.0.32/28") {
		t.Errorf("without the second reservation: %v, %v", e.Prefixes, err)
	}
}

func TestADrySubnetIsAskedAgainLater(t *testing.T) {
	p := seeded(t, region.Config{SubnetBits: 27}) // 27 addresses
	a, b := p.node("m5.large", catalog.DefaultCNI(), 29), p.node("m5.large", catalog.DefaultCNI(), 29)
	p.start(a, 0, 9) // no room for its warm interface
	if left := p.Subnets()[0].Free; left != 7 {
		t.Fatalf("%d addresses are left", left)
	}
	if failed := p.start(a, 9, 10); failed != 1 {
		t.Error("a pod has an address that the subnet does not have")
	}
	if _, err := p.TerminateInstances([]string{b}); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	if failed := p.start(a, 9, 10); failed != 1 {
		t.Error("the subnet was asked again within two minutes")
	}
	p.clock.Advance(time.Minute)
	if failed := p.start(a, 9, 10); failed != 0 {
		t.Error("two minutes later the pod still has no address")
	}
}

func TestSpareAddressesAreGivenBack(t *testing.T) {
	p := seeded(t, region.Config{})
	free := p.Subnets()[0].Free
	inENIs, inAddresses := p.node("m5.large", catalog.DefaultCNI(), 29), p.node("m5.large", catalog.CNI{WarmIP: 1}, 29)
	for _, id := range []string{inENIs, inAddresses} {
		p.start(id, 0, 12)
		for n := range 12 {
			p.ReleasePodIP(fmt.Sprintf("%s/%d", id, n))
		}
	}
	_, before := p.held(inENIs)
	p.clock.Advance(31 * time.Second)
	list, after := p.held(inENIs)
	if before != 30 || after != 10 || len(list) != 1 {
		t.Errorf("%d addresses, after its pods ended %d on %d interfaces; want 30, and 10 on one", before, after, len(list))
	}
	if list, n := p.held(inAddresses); n != 2 || len(list) != 1 || free-p.Subnets()[0].Free != 12 {
		t.Errorf("with a target of one address it holds %d on %d interfaces; %d gone", n, len(list), free-p.Subnets()[0].Free)
	}
	if _, err := p.TerminateInstances([]string{inENIs, inAddresses}); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	if left := p.Subnets()[0].Free; left != free {
		t.Errorf("after both instances ended %d addresses are free, before %d", left, free)
	}
}

func TestInterfacesSurviveAKill(t *testing.T) {
	dir, v := t.TempDir(), clock.NewVirtual(monday)
	p := seeded(t, region.Config{Dir: dir, Clock: v})
	plain, prefixed := p.node("m5.large", catalog.DefaultCNI(), 29), p.node("m5.large", catalog.CNI{PrefixDelegation: true}, 110)
	p.start(plain, 0, 12)
	p.start(prefixed, 0, 20)
	reservation, err := p.CreateSubnetCIDRReservation(region.Reservation{
		SubnetID: p.Subnets()[0].ID, Type: region.ReserveExplicit, CIDR: netip.MustParsePrefix("10.0.32.0/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	before, pods, free := p.NetworkInterfaces(), p.PodAddresses(), p.Subnets()[0].Free

	p = open(t, region.Config{Dir: copyOf(t, dir), Clock: v})
	if got := fmt.Sprint(p.NetworkInterfaces()); got != fmt.Sprint(before) {
		t.Errorf("interfaces %s\nbefore %v", got, before)
	}
	if got := p.PodAddresses(); len(got) != 32 || fmt.Sprint(got) != fmt.Sprint(pods) || p.Subnets()[0].Free != free {
		t.Errorf("addresses %v, %d free; before %v, %d", got, p.Subnets()[0].Free, pods, free)
	}
	if list, err := p.SubnetCIDRReservations(p.Subnets()[0].ID); err != nil || len(list) != 1 || list[0].ID != reservation.ID {
		t.Errorf("reservations %v, %v", list, err)
	}
}

func TestAnInterfaceOfSomebodysOwn(t *testing.T) {
	p := seeded(t, region.Config{})
	subnet, free := p.Subnets()[0], p.Subnets()[0].Free
	id := p.node("t3.small", catalog.DefaultCNI(), 11) // 3 interfaces of 4 addresses
	own, err := p.CreateNetworkInterface(region.InterfaceRequest{SubnetID: subnet.ID, Addresses: 2})
	if err != nil || len(own.Addresses) != 2 || !subnet.CIDR.Contains(own.PrivateIP) {
		t.Fatalf("%+v, %v", own, err)
	}
	attachment, err := p.AttachNetworkInterface(own.ID, id, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = p.AssignPrivateIPAddresses(own.ID, 2, 0)
	wantCode(t, err, "PrivateIpAddressLimitExceeded")
	more, _, err := p.AssignPrivateIPAddresses(own.ID, 1, 0)
	if err != nil || len(more) != 1 || slices.Contains(own.Addresses, more[0]) {
		t.Errorf("%v, %v", more, err)
	}
	_, err = p.AttachNetworkInterface(own.ID, id, 2)
	wantCode(t, err, "InvalidNetworkInterface.InUse")
	wantCode(t, p.DeleteNetworkInterface(own.ID), "InvalidParameterValue")
	elsewhere, err := p.CreateNetworkInterface(region.InterfaceRequest{SubnetID: p.Subnets()[1].ID, Prefixes: 1})
	if err != nil || len(elsewhere.Prefixes) != 1 {
		t.Fatalf("%+v, %v", elsewhere, err)
	}
	_, err = p.AttachNetworkInterface(elsewhere.ID, id, 2)
	wantCode(t, err, "InvalidParameterValue")
	wantCode(t, p.UnassignPrivateIPAddresses(own.ID, []netip.Addr{own.PrivateIP}, nil), "InvalidParameterValue")
	if err := p.UnassignPrivateIPAddresses(own.ID, more, nil); err != nil {
		t.Error(err)
	}
	wantCode(t, p.DetachNetworkInterface("eni-attach-0"), "InvalidAttachmentID.NotFound")
	if err := p.DetachNetworkInterface(attachment); err != nil {
		t.Error(err)
	}
	if err := p.DeleteNetworkInterface(own.ID); err != nil {
		t.Error(err)
	}
	if left := p.Subnets()[0].Free; left != free-4 { // held by the node's first interface
		t.Errorf("%d addresses are free, before %d", left, free)
	}
	_, err = p.CreateNetworkInterface(region.InterfaceRequest{SubnetID: "subnet-0"})
	wantCode(t, err, "InvalidSubnetID.NotFound")
	_, err = p.CreateNetworkInterface(region.InterfaceRequest{SubnetID: subnet.ID, Addresses: 1, Prefixes: 1})
	wantCode(t, err, "InvalidParameterCombination")
}

func TestAReservationThatCannotBe(t *testing.T) {
	p := seeded(t, region.Config{})
	id := p.Subnets()[0].ID
	for _, x := range []struct {
		subnet, kind, cidr, code string
	}{
		{"subnet-0", region.ReservePrefix, "10.0.32.0/24", "InvalidSubnetID.NotFound"},
		{id, "whole", "10.0.32.0/24", "InvalidParameterValue"},
		{id, region.ReservePrefix, "10.1.0.0/24", "InvalidParameterValue"},
		{id, region.ReservePrefix, "10.0.32.1/24", "InvalidParameterValue"},
		{id, region.ReservePrefix, "10.0.32.0/29", "InvalidParameterValue"},
	} {
		_, err := p.CreateSubnetCIDRReservation(region.Reservation{
			SubnetID: x.subnet, Type: x.kind, CIDR: netip.MustParsePrefix(x.cidr),
		})
		wantCode(t, err, x.code)
	}
	q := region.Reservation{SubnetID: id, Type: region.ReservePrefix, CIDR: netip.MustParsePrefix("10.0.32.0/24")}
	have, err := p.CreateSubnetCIDRReservation(q)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.CreateSubnetCIDRReservation(q)
	wantCode(t, err, "InvalidSubnetCidrReservation.Conflict")
	if _, err := p.DeleteSubnetCIDRReservation(have.ID); err != nil {
		t.Error(err)
	}
	_, err = p.DeleteSubnetCIDRReservation(have.ID)
	wantCode(t, err, "InvalidSubnetCidrReservationID.NotFound")
}
