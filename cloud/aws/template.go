package aws

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/cloud"
)

// templateKey identifies a launch template among those of one launch: all instances of a template boot in the same
// way.
type templateKey struct {
	image   int   // index into the class's images
	maxPods int32 // 0 = the image calculates it
	efas    int64 // adapters to attach; 0 unless pods request them
	from    source

	placement placementGroup
	partition int32
	dedicated bool
}

// template is a launch template; its name is derived from its content.
type template struct {
	name string
	in   *ec2.CreateLaunchTemplateInput
}

func (c *templateCache) of(class *ec2v1.EC2NodeClass, with bootConfig, key templateKey) (template, error) {
	if key.maxPods > 0 {
		with.maxPods = &key.maxPods
	}
	text, err := with.userData()
	if err != nil {
		return template{}, fmt.Errorf("%w: %w", err, cloud.ErrRefused) // until the class is changed
	}
	if c.observer != nil {
		c.observer.UserData(class.Name, len(text))
	}
	tags := c.sharedTags(class)
	data := &ec2types.RequestLaunchTemplateData{
		ImageId:             awssdk.String(class.Status.AMIs[key.image].ID),
		UserData:            awssdk.String(base64.StdEncoding.EncodeToString([]byte(text))),
		BlockDeviceMappings: disks(class),
		IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{
			Name: awssdk.String(class.Status.InstanceProfile),
		},
		Monitoring: &ec2types.LaunchTemplatesMonitoringRequest{
			Enabled: awssdk.Bool(awssdk.ToBool(class.Spec.DetailedMonitoring)),
		},
		MetadataOptions: metadata(class.Spec.MetadataOptions),
		TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{
			{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: tagList(tags)},
			{ResourceType: ec2types.ResourceTypeSpotInstancesRequest, Tags: tagList(tags)},
		},
	}
	if o := class.Spec.CPUOptions; o != nil && o.NestedVirtualization != nil {
		data.CpuOptions = &ec2types.LaunchTemplateCpuOptionsRequest{
			NestedVirtualization: ec2types.NestedVirtualizationSpecification(*o.NestedVirtualization),
		}
	}
	if data.NetworkInterfaces = interfaces(class, key.efas, with.ipv6()); data.NetworkInterfaces == nil {
		data.SecurityGroupIds = groupIDs(class)
	}
	key.from.into(data, len(c.termsOf(class)) > 0)
	key.placement.into(data, key.partition)
	if key.dedicated {
		dedicate(data)
	}
	in := &ec2.CreateLaunchTemplateInput{
		LaunchTemplateData: data,
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeLaunchTemplate,
			Tags:         tagList(tags),
		}},
	}
	content, err := json.Marshal(in)
	if err != nil {
		return template{}, fmt.Errorf("hash launch template of %s: %w", title(class), err)
	}
	sum := sha256.Sum256(content)
	t := template{name: ec2v1.LaunchTemplateNamePrefix + "/" + hex.EncodeToString(sum[:])[:20], in: in}
	in.LaunchTemplateName = &t.name
	return t, nil
}

func groupIDs(class *ec2v1.EC2NodeClass) []string {
	var out []string
	for _, g := range class.Status.SecurityGroups {
		out = append(out, g.ID)
	}
	return out
}

// interfaces returns the network interfaces that a template must specify; nil if EC2's single default one suffices. In
// an IPv6 cluster it does not: subnets need not assign IPv6 addresses, without which nodes do not join.
func interfaces(class *ec2v1.EC2NodeClass,
	efas int64, ipv6 bool,
) []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	type spec = ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	nic := func(card, device int32, kind string) spec {
		return spec{
			NetworkCardIndex: awssdk.Int32(card), DeviceIndex: awssdk.Int32(device),
			InterfaceType: awssdk.String(kind),
			Groups:        groupIDs(class), DeleteOnTermination: awssdk.Bool(true),
		}
	}
	var out []spec
	switch {
	case len(class.Spec.NetworkInterfaces) > 0:
		for _, i := range class.Spec.NetworkInterfaces {
			out = append(out, nic(i.NetworkCardIndex, i.DeviceIndex, string(i.InterfaceType)))
		}
	case efas > 0:
		for i := range int32(efas) {
			out = append(out, nic(i, min(i, 1), "efa"))
		}
	case ipv6 || class.Spec.AssociatePublicIPAddress != nil || class.Spec.IPPrefixCount != nil ||
		class.Spec.ConnectionTracking != nil:
		out = append(out, nic(0, 0, "interface"))
	default:
		return nil
	}
	for i := range out {
		n := &out[i]
		if *n.InterfaceType == string(ec2v1.InterfaceTypeEFAOnly) { // it has no addresses, and EC2 refuses settings of them
			continue
		}
		if ipv6 {
			n.PrimaryIpv6, n.Ipv6AddressCount, n.Ipv6PrefixCount = awssdk.Bool(true), awssdk.Int32(1), class.Spec.IPPrefixCount
		} else {
			n.Ipv4PrefixCount = class.Spec.IPPrefixCount
		}
		if *n.NetworkCardIndex == 0 && *n.DeviceIndex == 0 { // only the primary interface can get a public address
			n.AssociatePublicIpAddress = class.Spec.AssociatePublicIPAddress
		}
		if c := class.Spec.ConnectionTracking; c != nil {
			n.ConnectionTrackingSpecification = &ec2types.ConnectionTrackingSpecificationRequest{
				TcpEstablishedTimeout: c.TCPEstablishedTimeout, UdpStreamTimeout: c.UDPStreamTimeout, UdpTimeout: c.UDPTimeout,
			}
		}
	}
	return out
}

// metadata returns the settings of the instance metadata service, with Karpenter's defaults.
func metadata(o *ec2v1.MetadataOptions) *ec2types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpEndpoint:            ec2types.LaunchTemplateInstanceMetadataEndpointStateEnabled,
		HttpProtocolIpv6:        ec2types.LaunchTemplateInstanceMetadataProtocolIpv6Disabled,
		HttpPutResponseHopLimit: awssdk.Int32(1), HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired,
		InstanceMetadataTags: ec2types.LaunchTemplateInstanceMetadataTagsStateDisabled,
	}
	if o == nil {
		return out
	}
	if o.HTTPEndpoint != nil {
		out.HttpEndpoint = ec2types.LaunchTemplateInstanceMetadataEndpointState(*o.HTTPEndpoint)
	}
	if o.HTTPProtocolIPv6 != nil {
		out.HttpProtocolIpv6 = ec2types.LaunchTemplateInstanceMetadataProtocolIpv6(*o.HTTPProtocolIPv6)
	}
	if o.HTTPPutResponseHopLimit != nil {
		out.HttpPutResponseHopLimit = awssdk.Int32(int32(*o.HTTPPutResponseHopLimit))
	}
	if o.HTTPTokens != nil {
		out.HttpTokens = ec2types.LaunchTemplateHttpTokensState(*o.HTTPTokens)
	}
	return out
}

// disks returns the class's volumes, or the image family's default ones.
func disks(class *ec2v1.EC2NodeClass) []ec2types.LaunchTemplateBlockDeviceMappingRequest {
	mappings := class.Spec.BlockDeviceMappings
	if len(mappings) == 0 {
		mappings = defaultDisks(class.AMIFamily())
	}
	var out []ec2types.LaunchTemplateBlockDeviceMappingRequest
	for _, m := range mappings {
		e := m.EBS
		d := &ec2types.LaunchTemplateEbsBlockDeviceRequest{
			DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, Iops: narrow(e.IOPS), KmsKeyId: e.KMSKeyID,
			SnapshotId: e.SnapshotID, Throughput: narrow(e.Throughput), VolumeInitializationRate: e.VolumeInitializationRate,
		}
		if d.DeleteOnTermination == nil {
			// Delete volumes with their instances: nobody would notice one that is left, and it would still cost money.
			d.DeleteOnTermination = awssdk.Bool(true)
		}
		if e.VolumeType != nil {
			d.VolumeType = ec2types.VolumeType(*e.VolumeType)
		}
		if e.VolumeSize != nil {
			d.VolumeSize = awssdk.Int32(int32(math.Ceil(float64(e.VolumeSize.Value()) / float64(gib))))
		}
		out = append(out, ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName, Ebs: d})
	}
	return out
}

func defaultDisks(family string) []*ec2v1.BlockDeviceMapping {
	disk := func(device, size string) *ec2v1.BlockDeviceMapping {
		quantity := resource.MustParse(size)
		return &ec2v1.BlockDeviceMapping{DeviceName: awssdk.String(device), EBS: &ec2v1.BlockDevice{
			Encrypted: awssdk.Bool(true), VolumeType: awssdk.String("gp3"), VolumeSize: &quantity,
		}}
	}
	switch {
	case family == ec2v1.AMIFamilyCustom:
		return nil
	case windowsYear(family) != "":
		return []*ec2v1.BlockDeviceMapping{disk(dataDevice(family), "50Gi")}
	case family == ec2v1.AMIFamilyBottlerocket:
		return []*ec2v1.BlockDeviceMapping{disk("/dev/xvda", "4Gi"), disk("/dev/xvdb", "20Gi")}
	}
	return []*ec2v1.BlockDeviceMapping{disk("/dev/xvda", "20Gi")}
}

func narrow(n *int64) *int32 {
	if n == nil {
		return nil
	}
	return awssdk.Int32(int32(*n))
}
