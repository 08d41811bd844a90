package aws

import (
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// withInterfaces gives a class an EFA-only interface, which comes first in the list, the primary interface and another.
func withInterfaces(class *ec2v1.EC2NodeClass) {
	class.Spec.NetworkInterfaces = []*ec2v1.NetworkInterface{
		{NetworkCardIndex: 0, DeviceIndex: 1, InterfaceType: ec2v1.InterfaceTypeEFAOnly},
		{NetworkCardIndex: 0, DeviceIndex: 0, InterfaceType: ec2v1.InterfaceTypeInterface},
		{NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: ec2v1.InterfaceTypeInterface},
	}
}

// Only the primary interface can get a public address. EFA-only interfaces have no addresses, so EC2 refuses prefixes
// and connection tracking for them.
func TestEachInterfaceHasTheSettingsThatEC2Accepts(t *testing.T) {
	class := newClass("default")
	withInterfaces(class)
	class.Spec.AssociatePublicIPAddress, class.Spec.IPPrefixCount = awssdk.Bool(true), awssdk.Int32(2)
	class.Spec.ConnectionTracking = &ec2v1.ConnectionTracking{UDPTimeout: awssdk.Int32(30)}
	for i, want := range []struct{ public, addresses bool }{{false, false}, {true, true}, {false, true}} {
		n := interfaces(class, 0, false)[i]
		if (n.AssociatePublicIpAddress != nil) != want.public || (n.Ipv4PrefixCount != nil) != want.addresses ||
			(n.ConnectionTrackingSpecification != nil) != want.addresses {
			t.Errorf("interface %d: public address %v, prefixes %v, tracking %v; want %+v", i, n.AssociatePublicIpAddress,
				n.Ipv4PrefixCount, n.ConnectionTrackingSpecification, want)
		}
	}
	class.Spec.NetworkInterfaces = nil
	for i, n := range interfaces(class, 2, false) { // adapters for pods have addresses
		if (n.AssociatePublicIpAddress != nil) != (i == 0) || n.Ipv4PrefixCount == nil ||
			n.ConnectionTrackingSpecification == nil {
			t.Errorf("adapter %d: %+v", i, n)
		}
	}
}

// Nodes of an IPv6 cluster have IPv6 addresses on all interfaces with addresses, and IPv6 prefixes for IPv4 ones.
func TestNodesOfIPv6ClustersHaveIPv6Addresses(t *testing.T) {
	a, p, class := stage(t, func(o *Options) { o.ServiceCIDR, o.ClusterDNS = "fd30:1c53:5f8a::/108", "fd30:1c53:5f8a::a" })
	mustLaunch(t, p, requestFor("c", model.OneOf(model.LabelInstanceType, "m5.large")))
	if len(a.templates) != 1 {
		t.Fatalf("%d launch templates", len(a.templates))
	}
	for _, data := range a.templates {
		if text := decode(t, data.UserData); !strings.Contains(text, "cidr: fd30:1c53:5f8a::/108\n") {
			t.Errorf("user data\n%s", text)
		}
		if n := data.NetworkInterfaces; len(n) != 1 || !awssdk.ToBool(n[0].PrimaryIpv6) ||
			awssdk.ToInt32(n[0].Ipv6AddressCount) != 1 || len(n[0].Groups) == 0 || data.SecurityGroupIds != nil {
			t.Errorf("interfaces %+v, security groups %v", n, data.SecurityGroupIds)
		}
	}
	withInterfaces(class)
	class.Spec.IPPrefixCount = awssdk.Int32(2)
	for i, n := range interfaces(class, 0, true) {
		addresses := awssdk.ToBool(n.PrimaryIpv6) && awssdk.ToInt32(n.Ipv6AddressCount) == 1 &&
			awssdk.ToInt32(n.Ipv6PrefixCount) == 2
		if only := *n.InterfaceType == string(ec2v1.InterfaceTypeEFAOnly); addresses == only || n.Ipv4PrefixCount != nil {
			t.Errorf("interface %d: %+v", i, n)
		}
	}
	for _, c := range []struct {
		services, dns string
		want          bool
	}{{"10.100.0.0/16", "10.100.0.10", false}, {"", "fd30::a", true}, {"fd30::/108", "", true}, {"", "", false}} {
		if got := (bootConfig{options: &Options{ServiceCIDR: c.services, ClusterDNS: c.dns}}).ipv6(); got != c.want {
			t.Errorf("Services in %q with DNS at %q: IPv6 is %v", c.services, c.dns, got)
		}
	}
}

// An EFA-only interface leaves fewer addresses for pods. The image does not know that: its kubelet accepts as many pods
// as are planned only if it is told.
func TestTheKubeletKnowsWhatEFAOnlyInterfacesLeave(t *testing.T) {
	a, p, class := stage(t)
	withInterfaces(class)
	m := mustLaunch(t, p, requestFor("c", model.OneOf(model.LabelInstanceType, "m5.large"))).Instance
	if m.Capacity[model.Pods] != 20 {
		t.Errorf("%d pods are planned", m.Capacity[model.Pods])
	}
	for _, data := range a.templates {
		if text := decode(t, data.UserData); !strings.Contains(text, "maxPods: 20\n") {
			t.Errorf("the kubelet is not told in\n%s", text)
		}
	}
}
