package aws

import (
	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

// sidePrices returns what a node of the class costs in addition to its instance, by zone: its volumes, and a public
// IPv4 address if it gets one. public says which subnets give each new instance an address. Volumes of the image that
// the class does not mention are not counted.
func sidePrices(class *ec2v1.EC2NodeClass, region string, public map[string]bool) map[string]model.Price {
	mappings, volumes := disks(class), model.Price(0)
	if len(mappings) == 0 { // a custom image brings its root volume along
		volumes = model.Price(catalog.VolumePrice(region, catalog.Volume{Type: "gp3", GiB: defaultDisk / gib}))
	}
	for _, d := range mappings {
		v := catalog.Volume{
			Type: string(d.Ebs.VolumeType), GiB: int64(awssdk.ToInt32(d.Ebs.VolumeSize)),
			IOPS: int64(awssdk.ToInt32(d.Ebs.Iops)), MiBps: int64(awssdk.ToInt32(d.Ebs.Throughput)),
		}
		if v.Type == "" { // EC2's default
			v.Type = "gp2"
		}
		if d.Ebs.VolumeSize == nil { // that of a snapshot
			v.GiB = defaultDisk / gib
		}
		volumes += model.Price(catalog.VolumePrice(region, v))
	}
	out := map[string]model.Price{}
	for _, s := range class.Status.Subnets {
		price := volumes
		if has := class.Spec.AssociatePublicIPAddress; has != nil && *has || has == nil && public[s.ID] {
			price += catalog.PublicIPv4
		}
		out[s.Zone] = max(out[s.Zone], price) // a zone's subnets rarely differ
	}
	return out
}
