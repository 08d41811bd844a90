package aws

import (
	"maps"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/engine/model"
)

func TestNodesCostTheirVolumesAndPublicAddresses(t *testing.T) {
	volume := func(size, kind string) *ec2v1.BlockDeviceMapping {
		out := &ec2v1.BlockDeviceMapping{DeviceName: new("/dev/xvda"), EBS: &ec2v1.BlockDevice{}}
		if size != "" {
			out.EBS.VolumeSize = new(resource.MustParse(size))
		}
		if kind != "" {
			out.EBS.VolumeType = &kind
		}
		return out
	}
	for _, c := range []struct {
		name   string
		spec   ec2v1.EC2NodeClassSpec
		public map[string]bool // by subnet
		a, b   model.Price
	}{
		{"the root volume that nobody asked for", ec2v1.EC2NodeClassSpec{}, nil, 2_192, 2_192},
		{
			"Bottlerocket has two",
			ec2v1.EC2NodeClassSpec{AMIFamily: new(ec2v1.AMIFamilyBottlerocket)},
			nil, 438 + 2_192, 438 + 2_192,
		},
		{
			"an image of one's own has a root volume, too",
			ec2v1.EC2NodeClassSpec{AMIFamily: new(ec2v1.AMIFamilyCustom)},
			nil, 2_192, 2_192,
		},
		{"a public subnet", ec2v1.EC2NodeClassSpec{}, map[string]bool{"subnet-b": true}, 2_192, 7_192},
		{
			"no address, whatever the subnet says",
			ec2v1.EC2NodeClassSpec{AssociatePublicIPAddress: new(false)},
			map[string]bool{"subnet-b": true},
			2_192, 2_192,
		},
		{
			"an address, whatever the subnet says",
			ec2v1.EC2NodeClassSpec{AssociatePublicIPAddress: new(true)},
			nil, 7_192, 7_192,
		},
		{
			"several volumes; without a type they are gp2, without a size 20 GiB", ec2v1.EC2NodeClassSpec{
				BlockDeviceMappings: []*ec2v1.BlockDeviceMapping{volume("100Gi", "gp3"), volume("", "")},
			}, nil, 10_959 + 2_740, 10_959 + 2_740,
		},
	} {
		class := &ec2v1.EC2NodeClass{Spec: c.spec}
		if class.Spec.AMIFamily == nil {
			class.Spec.AMIFamily = new(ec2v1.AMIFamilyAL2023)
		}
		class.Status.Subnets = []ec2v1.Subnet{{ID: "subnet-a", Zone: "a"}, {ID: "subnet-b", Zone: "b"}}
		want := map[string]model.Price{"a": c.a, "b": c.b}
		if got := sidePrices(class, "us-west-2", c.public); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}
