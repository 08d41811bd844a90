package wiretest

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region"
)

// scatter takes single addresses of a subnet until it has no free /28 block left.
func (p *place) scatter(t *testing.T, subnet string) {
	t.Helper()
	for {
		e, err := p.region.CreateNetworkInterface(region.InterfaceRequest{SubnetID: subnet, Prefixes: 1})
		if err != nil {
			if !strings.Contains(err.Error(), "InsufficientCidrBlocks") {
				t.Fatal(err)
			}
			return
		}
		must(t, p.region.DeleteNetworkInterface(e.ID))
		_, err = p.region.CreateNetworkInterface(region.InterfaceRequest{SubnetID: subnet, Addresses: 9})
		must(t, err)
	}
}

// prefixesLeft returns how many prefixes an interface of a subnet can get. It takes them.
func (p *place) prefixesLeft(t *testing.T, subnet string) (n int64) {
	t.Helper()
	e, err := p.region.CreateNetworkInterface(region.InterfaceRequest{SubnetID: subnet})
	must(t, err)
	for {
		if _, _, err := p.region.AssignPrivateIPAddresses(e.ID, 0, 1); err != nil {
			return n
		}
		n++
	}
}

// smallSubnets is a place whose initial subnets have 251 addresses.
func smallSubnets(t *testing.T) *place {
	return newPlaceWith(t, func(c *region.Config) { c.SubnetBits = 24 })
}

// subnetsOf resolves the default class and returns its subnets, by zone. The calls for it are among calls.
func (p *place) subnetsOf(t *testing.T, provider *aws.Provider) (list []cloud.Subnet, calls []string) {
	t.Helper()
	calls = p.callsOf(func() { must(t, provider.Resolve(t.Context(), p.classes["default"])) })
	list = provider.Subnets(requestFor("any", "general").Class)
	if len(list) != len(p.region.Subnets()) {
		t.Fatalf("subnets %+v", list)
	}
	slices.SortFunc(list, func(a, b cloud.Subnet) int { return strings.Compare(a.CIDR, b.CIDR) })
	return list, calls
}

// What is counted as usable is what EC2 gives: whole blocks, of which no address is in use or in a reservation of type
// explicit. It is counted only if pods get prefixes.
func TestUsableAddressesAreThoseOfPrefixesThatEC2Gives(t *testing.T) {
	p := smallSubnets(t)
	provider := p.connect(t)
	all := p.region.Subnets()
	for n, count := range []int{1, 4} { // the others have no interface
		for range count {
			_, err := p.region.CreateNetworkInterface(region.InterfaceRequest{SubnetID: all[n].ID, Addresses: 3})
			must(t, err)
		}
		_, err := p.region.CreateNetworkInterface(region.InterfaceRequest{SubnetID: all[n].ID, Prefixes: 2})
		must(t, err)
		for kind, cidr := range map[string]string{
			region.ReserveExplicit: "10.%.0.72/30", region.ReservePrefix: "10.%.0.128/26",
		} {
			_, err := p.region.CreateSubnetCIDRReservation(region.Reservation{
				SubnetID: all[n].ID, Type: kind,
				CIDR: netip.MustParsePrefix(strings.Replace(cidr, "%", string(rune('0'+n)), 1)),
			})
			must(t, err)
		}
	}
	list, calls := p.subnetsOf(t, provider)
	if slices.Contains(calls, "DescribeNetworkInterfaces") || slices.Contains(calls, "GetSubnetCidrReservations") {
		t.Errorf("without prefixes: calls %v", calls)
	}
	for _, s := range list {
		if s.Scattered != 0 {
			t.Errorf("without prefixes: %+v", s)
		}
	}
	provider.DelegatePrefixes(true)
	if list, calls = p.subnetsOf(t, provider); !slices.Contains(calls, "DescribeNetworkInterfaces") {
		t.Errorf("with prefixes: calls %v", calls)
	}
	for _, s := range list[:3] {
		usable := s.Free - s.Scattered
		// The interface that takes the prefixes has an address of its own, which may break a block.
		if got := p.prefixesLeft(t, s.ID); usable%catalog.PrefixSize != 0 || got > usable/catalog.PrefixSize ||
			got < usable/catalog.PrefixSize-1 || got == 0 {
			t.Errorf("subnet %s: %d of %d free addresses are usable, and EC2 has given %d prefixes", s.CIDR, usable, s.Free, got)
		}
	}
	provider.DelegatePrefixes(false)
	if list, _ = p.subnetsOf(t, provider); list[0].Scattered != 0 {
		t.Errorf("without prefixes again: %+v", list[0])
	}
}

// Blocks that are reserved for prefixes leave single addresses elsewhere: a subnet has room for the nodes' own, too.
func TestReservedBlocksAreUsableWithSingleAddressesElsewhere(t *testing.T) {
	p := smallSubnets(t)
	provider := p.connect(t)
	subnet := p.region.Subnets()[0]
	_, err := p.region.CreateSubnetCIDRReservation(region.Reservation{
		SubnetID: subnet.ID, Type: region.ReservePrefix, CIDR: netip.MustParsePrefix("10.0.0.32/27"),
	})
	must(t, err)
	for {
		_, err := p.region.CreateNetworkInterface(region.InterfaceRequest{SubnetID: subnet.ID, Addresses: 9})
		must(t, err)
		provider.DelegatePrefixes(true)
		list, _ := p.subnetsOf(t, provider)
		if list[0].Free < 150 {
			if usable := list[0].Free - list[0].Scattered; usable != 2*catalog.PrefixSize+15 {
				t.Errorf("%d addresses are usable of %d, want two blocks and 15 single ones", usable, list[0].Free)
			}
			break
		}
	}
}

// In a zone with two subnets a launch goes to the one with free blocks, even if the other one has more free addresses.
func TestALaunchGoesToTheSubnetWithFreeBlocks(t *testing.T) {
	p := smallSubnets(t)
	old := p.region.Subnets()[0]
	p.scatter(t, old.ID)
	fresh, err := p.region.CreateSubnet(region.SubnetRequest{
		Zone: old.Zone, CIDR: netip.MustParsePrefix("10.200.0.0/26"),
		Tags: map[string]string{"karpenter.sh/discovery": "demo"},
	})
	must(t, err)
	p.resolve(t, "default")
	for _, on := range []bool{false, true} {
		provider := p.connect(t)
		provider.DelegatePrefixes(on)
		must(t, provider.Resolve(t.Context(), p.classes["default"]))
		req := pinned(map[bool]string{false: "single", true: "prefixes"}[on], "general")
		req.Requirements = req.Requirements.And(model.Requirements{model.OneOf(model.LabelZone, old.Zone)})
		m := launch(t, provider, req)
		i, _ := p.region.Instance(m.ID)
		if want := map[bool]string{false: old.ID, true: fresh.ID}[on]; i.SubnetID != want {
			t.Errorf("with prefixes %t: launched in %s, want %s", on, i.SubnetID, want)
		}
	}
}

// Without the permission to count blocks the class is ready all the same, and the log says once what it costs.
func TestBlocksThatMayNotBeCountedCountAsUsable(t *testing.T) {
	for _, action := range []string{"ec2:DescribeNetworkInterfaces", "ec2:GetSubnetCidrReservations"} {
		policy := demoPolicy(t)
		for i := range policy.Statement {
			s := &policy.Statement[i]
			s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return a == action })
		}
		p := newOffice(t, policy)
		var log bytes.Buffer
		provider := p.connectWith(t, func(o *aws.Options) {
			o.AWS.Credentials, o.Log = p.role, slog.New(slog.NewTextHandler(&log, nil))
		})
		provider.DelegatePrefixes(true)
		for range 2 {
			list, _ := p.subnetsOf(t, provider)
			if list[0].Scattered != 0 || list[0].Free == 0 {
				t.Errorf("without %s: %+v", action, list[0])
			}
		}
		if got := log.String(); strings.Count(got, "free /28 blocks") != 1 || !strings.Contains(got, "allow "+action) {
			t.Errorf("without %s: log %s", action, got)
		}
	}
}
