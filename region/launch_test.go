package region_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

func TestAPoolThatRunsDryLeavesTheRestToTheNextOverride(t *testing.T) {
	p := seeded(t, region.Config{})
	for zone, n := range []int{2, 1} {
		if err := p.SetCapacity(region.Pool{Type: "m5.large", Zone: p.zone(zone), CapacityType: region.OnDemand},
			n); err != nil {
			t.Fatal(err)
		}
	}
	ids, result := p.launch(fleet(region.OnDemand, 5, p.override("m5.large", 0), p.override("m5.large", 1),
		p.override("m5.xlarge", 0)))
	if len(ids) != 5 || len(result.Launched) != 3 {
		t.Fatalf("launched %+v", result.Launched)
	}
	for n, want := range []int{2, 1, 2} {
		if got := len(result.Launched[n].IDs); got != want {
			t.Errorf("override %d gave %d instances, want %d", n, got, want)
		}
	}
	if len(result.Errors) != 2 || result.Errors[0].Code != "InsufficientInstanceCapacity" ||
		result.Errors[0].Override.Zone != p.zone(0) {
		t.Errorf("errors %+v", result.Errors)
	}
	pool := region.Pool{Type: "m5.large", Zone: p.zone(0), CapacityType: region.OnDemand}
	if _, err := p.TerminateInstances(result.Launched[0].IDs[:1]); err != nil || p.Capacity(pool) != 1 {
		t.Errorf("after one instance ended the pool gives %d, %v", p.Capacity(pool), err)
	}
}

func TestASubnetThatIsFullSaysSo(t *testing.T) {
	p := seeded(t, region.Config{SubnetBits: 28}) // 16 addresses, 5 of which AWS reserves
	ids, result := p.launch(fleet(region.OnDemand, 20, p.override("m5.large", 0)))
	if len(ids) != 11 || len(result.Errors) != 1 || result.Errors[0].Code != "InsufficientFreeAddressesInSubnet" {
		t.Fatalf("%d instances, errors %+v", len(ids), result.Errors)
	}
	seen := map[string]bool{}
	for _, i := range p.Instances() {
		seen[i.PrivateIP.String()] = true
	}
	if len(seen) != 11 || p.Subnets()[0].Free != 0 {
		t.Errorf("addresses %v, %d free", seen, p.Subnets()[0].Free)
	}
	if _, err := p.TerminateInstances(ids[:1]); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	if again, _ := p.launch(fleet(region.OnDemand, 2, p.override("m5.large", 0))); len(again) != 1 {
		t.Errorf("%d instances into one free address", len(again))
	}
}

func TestTheSameTokenGivesTheSameFleet(t *testing.T) {
	p := seeded(t, region.Config{})
	q := fleet(region.OnDemand, 2, p.override("m5.large", 0))
	q.ClientToken = "claim-1"
	first, result := p.launch(q)
	again, same := p.launch(q)
	if !slices.Equal(first, again) || result.FleetID != same.FleetID || len(p.Instances()) != 2 {
		t.Errorf("%v, then %v; %d instances", first, again, len(p.Instances()))
	}
	q.Total = 3
	_, err := p.CreateFleet(q)
	wantCode(t, err, "IdempotentParameterMismatch")
	q.ClientToken = "claim-2"
	if other, _ := p.launch(q); len(other) != 3 || slices.Contains(other, first[0]) {
		t.Errorf("another token gave %v", other)
	}
}

func TestTheSameCallsAtTheSameTimeGiveTheSameIDs(t *testing.T) {
	story := func() []region.Instance {
		p := seeded(t, region.Config{Seed: 7})
		p.launch(fleet(region.Spot, 3, p.override("m5.large", 0), p.override("c5.large", 1)))
		p.clock.Advance(time.Minute)
		p.one(region.OnDemand)
		return p.Instances()
	}
	a, b := story(), story()
	if len(a) != 4 || len(b) != 4 {
		t.Fatalf("%d and %d instances", len(a), len(b))
	}
	for n := range a {
		if a[n].ID != b[n].ID || a[n].PrivateIP != b[n].PrivateIP || !a[n].BootAt.Equal(b[n].BootAt) ||
			a[n].PriceMicros != b[n].PriceMicros {
			t.Errorf("instance %d: %+v and %+v", n, a[n], b[n])
		}
	}
}

func TestAnInstanceRunsBootsAndEnds(t *testing.T) {
	p := seeded(t, region.Config{})
	id := p.one(region.OnDemand)
	if p.state(id) != region.Pending {
		t.Errorf("just launched it is %s", p.state(id))
	}
	p.clock.Advance(5 * time.Second)
	if i, _ := p.Instance(id); i.State != region.Running || i.Booted {
		t.Errorf("after 5 s it is %s, booted %v", i.State, i.Booted)
	}
	p.clock.Advance(5 * time.Minute)
	if i, _ := p.Instance(id); !i.Booted {
		t.Error("after 5 minutes it has not booted")
	}
	if _, err := p.TerminateInstances([]string{id, "i-0"}); err == nil || p.state(id) != region.Running {
		t.Errorf("an unknown id beside it: %v, state %s", err, p.state(id))
	}
	if _, err := p.TerminateInstances([]string{id}); err != nil || p.state(id) != region.ShuttingDown {
		t.Errorf("%v, state %s", err, p.state(id))
	}
	p.clock.Advance(time.Minute)
	if p.state(id) != region.Terminated {
		t.Errorf("a minute later it is %s", p.state(id))
	}
	p.clock.Advance(2 * time.Hour)
	if n := len(p.Instances()); n != 0 {
		t.Errorf("hours later %d instances are shown", n)
	}
}

func TestATypeThatIsNotThereIsRefused(t *testing.T) {
	p := seeded(t, region.Config{})
	_, err := p.CreateFleet(fleet(region.OnDemand, 1, p.override("m5.tiny", 0)))
	wantCode(t, err, "InvalidInstanceType")
	_, err = p.CreateFleet(fleet(region.OnDemand, 0, p.override("m5.large", 0)))
	wantCode(t, err, "InvalidTargetCapacitySpecification")
	_, result := p.launch(fleet(region.OnDemand, 1, p.override("m7g.large", 0))) // an arm64 type with an x86_64 image
	if len(result.Errors) != 1 || result.Errors[0].Code != "InvalidParameterValue" {
		t.Errorf("a wrong architecture: %+v", result.Errors)
	}
}

func TestWhatWasDoneToAFolderIsThereAfterAKill(t *testing.T) {
	dir, v := t.TempDir(), clock.NewVirtual(monday)
	p := seeded(t, region.Config{Dir: dir, Clock: v})
	q := fleet(region.Spot, 2, p.override("m5.large", 0))
	q.ClientToken = "claim-1"
	ids, result := p.launch(q)
	if _, err := p.AssignPodIP(ids[0], "pod-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.SendMessage("prod", "hello"); err != nil {
		t.Fatal(err)
	}
	pods := p.PodAddresses()

	p = open(t, region.Config{Dir: copyOf(t, dir), Clock: v}) // without Close: the file as a kill leaves it
	again, same := p.launch(q)
	if !slices.Equal(again, ids) || same.FleetID != result.FleetID || len(p.Instances()) != 2 {
		t.Errorf("the token gave %v, before %v; %d instances", again, ids, len(p.Instances()))
	}
	if got := p.PodAddresses(); got["pod-1"] != pods["pod-1"] || len(got) != 1 {
		t.Errorf("pod addresses %v, before %v", got, pods)
	}
	if n, err := p.Queue("prod"); n != 1 || err != nil {
		t.Errorf("%d messages, %v", n, err)
	}
	if p.Clusters()[0] != "prod" {
		t.Errorf("clusters %v", p.Clusters())
	}
	next := p.one(region.OnDemand)
	addresses := map[string]bool{pods["pod-1"].IP.String(): true}
	for _, i := range p.Instances() {
		addresses[i.PrivateIP.String()] = true
	}
	if slices.Contains(ids, next) || len(addresses) != 4 {
		t.Errorf("new instance %s; addresses %v", next, addresses)
	}
	v.Advance(5 * time.Minute)
	for _, id := range ids {
		if i, _ := p.Instance(id); !i.Booted || i.State != region.Running {
			t.Errorf("%s: %s, booted %v", id, i.State, i.Booted)
		}
	}
}
