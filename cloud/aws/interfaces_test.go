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
		n := interfaces(class, 0)[i]
		if (n.AssociatePublicIpAddress != nil) != want.public || (n.Ipv4PrefixCount != nil) != want.addresses ||
			(n.ConnectionTrackingSpecification != nil) != want.addresses {
			t.Errorf("interface %d: public address %v, prefixes %v, tracking %v; want %+v", i, n.AssociatePublicIpAddress,
				n.Ipv4PrefixCount, n.ConnectionTrackingSpecification, want)
		}
	}
	class.Spec.NetworkInterfaces = nil
	for i, n := range interfaces(class, 2) { // adapters for pods have addresses
		if (n.AssociatePublicIpAddress != nil) != (i == 0) || n.Ipv4PrefixCount == nil ||
			n.ConnectionTrackingSpecification == nil {
			t.Errorf("adapter %d: %+v", i, n)
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
