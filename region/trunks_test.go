package region_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// A pod with security groups of its own has a branch interface on its node's trunk, with an address of the node's
// subnet beside those of the warm pool. When the pod ends, the branch stays for a minute.
func TestPodsHaveBranchInterfaces(t *testing.T) {
	dir, v := t.TempDir(), clock.NewVirtual(monday)
	p := seeded(t, region.Config{Dir: dir, Clock: v})
	free := p.Subnets()[0].Free
	c := catalog.DefaultCNI()
	c.PodENI = true
	id := p.node("m5.large", c, 29) // 3 interfaces of 10 addresses, 9 branches
	if _, err := p.AssignBranch(id, "early", nil); err == nil || !strings.Contains(err.Error(), "no trunk") {
		t.Errorf("a branch without a trunk: %v", err)
	}
	trunk, err := p.AttachTrunk(id)
	if err != nil || trunk.Type != region.TrunkInterface || trunk.DeviceIndex != 2 {
		t.Fatalf("%+v, %v", trunk, err)
	}
	if again, err := p.AttachTrunk(id); err != nil || again.ID != trunk.ID {
		t.Errorf("a second trunk: %+v, %v", again, err)
	}
	if failed := p.start(id, 0, 20); failed != 2 {
		t.Errorf("%d of 20 pods have no address, want 2 of those beside the trunk", failed)
	}
	group, err := p.CreateSecurityGroup(region.SecurityGroupRequest{Name: "pods", Description: "of the shop"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.AssignBranch(id, "x", []string{"sg-missing"})
	wantCode(t, err, "InvalidGroup.NotFound")
	vlans := map[int]bool{}
	for n := range 9 {
		b, err := p.AssignBranch(id, fmt.Sprintf("branch/%d", n), []string{group.ID})
		if err != nil || b.TrunkID != trunk.ID || b.SecurityGroups[0] != group.ID || !b.SubnetCIDR.Contains(b.PrivateIP) ||
			vlans[b.VLAN] || b.VLAN == 0 || !b.InUse() {
			t.Fatalf("branch %d: %+v, %v", n, b, err)
		}
		vlans[b.VLAN] = true
	}
	again, err := p.AssignBranch(id, "branch/3", nil)
	if err != nil || p.PodAddresses()["branch/3"].IP != again.PrivateIP || again.VLAN != 4 {
		t.Errorf("asked again it has %+v, %v", again, err)
	}
	_, err = p.AssignBranch(id, "branch/9", nil)
	wantCode(t, err, "AttachmentLimitExceeded")
	wantCode(t, p.DeleteSecurityGroup(group.ID), "DependencyViolation")
	wantCode(t, p.DeleteNetworkInterface(again.ID), "InvalidParameterValue")
	if gone := free - p.Subnets()[0].Free; gone != c.Holding(p.Type("m5.large"), 18, 29).Total()+9 {
		t.Errorf("%d addresses are gone from the subnet", gone)
	}

	p = open(t, region.Config{Dir: copyOf(t, dir), Clock: v})
	if got := p.PodAddresses()["branch/3"]; got.IP != again.PrivateIP || len(p.TrunkAssociations()) != 9 {
		t.Errorf("after a restart it has %+v, and there are %d branches", got, len(p.TrunkAssociations()))
	}
	p.ReleasePodIP("branch/3")
	_, err = p.AssignBranch(id, "branch/9", nil)
	wantCode(t, err, "AttachmentLimitExceeded")
	v.Advance(time.Minute)
	if b, err := p.AssignBranch(id, "branch/9", nil); err != nil || b.VLAN != 4 {
		t.Errorf("a minute later: %+v, %v", b, err)
	}
	if _, err := p.TerminateInstances([]string{id}); err != nil {
		t.Fatal(err)
	}
	v.Advance(time.Minute)
	if left := p.Subnets()[0].Free; left != free || len(p.TrunkAssociations()) != 0 || len(p.PodAddresses()) != 0 {
		t.Errorf("after its end %d addresses are free, before %d; %d branches", left, free, len(p.TrunkAssociations()))
	}
	if err := p.DeleteSecurityGroup(group.ID); err != nil {
		t.Error(err)
	}
}

// A branch in cooldown survives a restart.
func TestARestingBranchSurvivesAKill(t *testing.T) {
	dir, v := t.TempDir(), clock.NewVirtual(monday)
	p := seeded(t, region.Config{Dir: dir, Clock: v})
	c := catalog.DefaultCNI()
	c.PodENI = true
	id := p.node("m5.large", c, 29)
	if _, err := p.AttachTrunk(id); err != nil {
		t.Fatal(err)
	}
	if d := p.SetBranchCooldown(time.Second); d != region.LeastBranchCooldown {
		t.Errorf("a second is taken as %s", d)
	}
	if d := p.SetBranchCooldown(0); d != region.DefaultBranchCooldown {
		t.Errorf("the default is %s", d)
	}
	if _, err := p.AssignBranch(id, "pod", nil); err != nil {
		t.Fatal(err)
	}
	p.ReleasePodIP("pod")
	v.Advance(20 * time.Second)
	p = open(t, region.Config{Dir: copyOf(t, dir), Clock: v})
	v.Advance(39 * time.Second)
	if n := len(p.TrunkAssociations()); n != 1 {
		t.Errorf("%d branches after 59 s, want 1", n)
	}
	v.Advance(2 * time.Second)
	if n := len(p.TrunkAssociations()); n != 0 {
		t.Errorf("%d branches after a minute, want none", n)
	}
}

// A node whose interfaces are all attached has no room for a trunk; a type that does not support one says so.
func TestATrunkNeedsAPlace(t *testing.T) {
	p := seeded(t, region.Config{})
	full := p.node("m5.large", catalog.DefaultCNI(), 29)
	p.start(full, 0, 20) // three interfaces
	_, err := p.AttachTrunk(full)
	wantCode(t, err, "AttachmentLimitExceeded")
	_, err = p.AttachTrunk(p.node("t3.medium", catalog.DefaultCNI(), 17))
	wantCode(t, err, "InvalidParameterValue")
}

func TestSecurityGroupsOfOnesOwn(t *testing.T) {
	dir, v := t.TempDir(), clock.NewVirtual(monday)
	p := seeded(t, region.Config{Dir: dir, Clock: v})
	first := p.SecurityGroups()[0]
	for name, code := range map[string]string{
		"": "InvalidParameterValue", "sg-x": "InvalidParameterValue", first.Name: "InvalidGroup.Duplicate",
	} {
		if _, err := p.CreateSecurityGroup(region.SecurityGroupRequest{Name: name}); err == nil ||
			!strings.Contains(err.Error(), code) {
			t.Errorf("a group %q: %v, want %s", name, err, code)
		}
	}
	made, err := p.CreateSecurityGroup(region.SecurityGroupRequest{Name: "db", Tags: map[string]string{"team": "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	rule := region.SecurityGroupRule{Protocol: "tcp", From: 5432, To: 5432, Peer: made.ID}
	if _, err := p.AuthorizeSecurityGroupIngress(first.ID, []region.SecurityGroupRule{rule}); err != nil {
		t.Fatal(err)
	}
	p = open(t, region.Config{Dir: copyOf(t, dir), Clock: v})
	wantCode(t, p.DeleteSecurityGroup(made.ID), "DependencyViolation") // a rule refers to it
	wantCode(t, p.DeleteSecurityGroup(first.ID), "OperationNotPermitted")
	wantCode(t, p.DeleteSecurityGroup("sg-x"), "InvalidGroup.NotFound")
	if err := p.RevokeSecurityGroupIngress(first.ID, []region.SecurityGroupRule{rule}); err != nil {
		t.Fatal(err)
	}
	balancer, err := p.CreateLoadBalancer(region.LoadBalancer{
		Name: "db", Type: region.Network, Scheme: "internal", Subnets: []string{p.Subnets()[0].ID},
		SecurityGroups: []string{made.ID},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, p.DeleteSecurityGroup(made.ID), "DependencyViolation") // a load balancer uses it
	if err := p.DeleteLoadBalancer(balancer.ARN); err != nil {
		t.Fatal(err)
	}
	if err := p.DeleteSecurityGroup(made.ID); err != nil {
		t.Error(err)
	}
}

// A node that starts with many pods keeps an interface free for its trunk.
func TestTheTrunksPlaceIsKept(t *testing.T) {
	p := seeded(t, region.Config{})
	c := catalog.DefaultCNI()
	c.PodENI = true
	id := p.node("m5.large", c, 29)
	if failed := p.start(id, 0, 20); failed != 2 {
		t.Errorf("%d of 20 pods have no address, want 2", failed)
	}
	if _, err := p.AttachTrunk(id); err != nil {
		t.Error(err)
	}
}
