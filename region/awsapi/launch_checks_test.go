package awsapi

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// run returns a request for one m5.large.
func (b buyer) run(change func(*ec2.RunInstancesInput)) *ec2.RunInstancesInput {
	in := &ec2.RunInstancesInput{
		ImageId: &b.image, InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
	}
	change(in)
	return in
}

// volume returns the mapping of a volume on /dev/xvda.
func volume(change func(*ec2types.EbsBlockDevice)) []ec2types.BlockDeviceMapping {
	x := ec2types.EbsBlockDevice{VolumeSize: aws.Int32(20)}
	change(&x)
	return []ec2types.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &x}}
}

// Dry runs find the same as launches.
func TestRunInstancesRefusesWhatItCannotLaunch(t *testing.T) {
	b := newBuyer(t)
	const mapping, value = "InvalidBlockDeviceMapping", "InvalidParameterValue"
	var list []refusal
	for _, c := range []struct {
		name, code, text string
		change           func(*ec2.RunInstancesInput)
	}{
		{"a group", "InvalidGroup.NotFound", "sg-0", func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{"sg-0"} }},
		{"a group's name", "InvalidGroup.NotFound", "web", func(in *ec2.RunInstancesInput) { in.SecurityGroups = []string{"web"} }},
		{"a profile", value, "Value (web) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", func(in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: aws.String("web")}
		}},
		{"a small volume", mapping, "expect size>= 20GB", func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = volume(func(v *ec2types.EbsBlockDevice) { v.VolumeSize = aws.Int32(1) })
		}},
		{"throughput of gp2", mapping, "throughput cannot be specified with the volumeType of device '/dev/xvda'", func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = volume(func(v *ec2types.EbsBlockDevice) { v.VolumeType, v.Throughput = "gp2", aws.Int32(125) })
		}},
		{"IOPS of gp2", mapping, "iops cannot be specified with the volumeType of device '/dev/xvda'", func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = volume(func(v *ec2types.EbsBlockDevice) { v.VolumeType, v.Iops = "gp2", aws.Int32(3000) })
		}},
		{"few IOPS of gp3", mapping, "iops 100 of device '/dev/xvda'", func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = volume(func(v *ec2types.EbsBlockDevice) { v.VolumeType, v.Iops = "gp3", aws.Int32(100) })
		}},
		{"a small hard disk", mapping, "volumeSize 20 of device '/dev/xvda'", func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = volume(func(v *ec2types.EbsBlockDevice) { v.VolumeType = "st1" })
		}},
		{"a kind of volume", value, "floppy", func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = volume(func(v *ec2types.EbsBlockDevice) { v.VolumeType = "floppy" })
		}},
		{"a spot price", "SpotMaxPriceTooLow", "0.0001", func(in *ec2.RunInstancesInput) {
			in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{
				MarketType: "spot", SpotOptions: &ec2types.SpotMarketOptions{MaxPrice: aws.String("0.0001")},
			}
		}},
		{"a dedicated host", value, "Placement.Tenancy host", func(in *ec2.RunInstancesInput) {
			in.Placement = &ec2types.Placement{Tenancy: "host"}
		}},
		{"cores", value, "CpuOptions.CoreCount", func(in *ec2.RunInstancesInput) {
			in.CpuOptions = &ec2types.CpuOptionsRequest{CoreCount: aws.Int32(1), NestedVirtualization: "enabled"}
		}},
		{"threads", value, "CpuOptions.ThreadsPerCore", func(in *ec2.RunInstancesInput) {
			in.CpuOptions = &ec2types.CpuOptionsRequest{ThreadsPerCore: aws.Int32(1)}
		}},
		{"encrypted memory", value, "CpuOptions.AmdSevSnp", func(in *ec2.RunInstancesInput) {
			in.CpuOptions = &ec2types.CpuOptionsRequest{AmdSevSnp: "enabled"}
		}},
		{"an address", value, "PrivateIpAddress", func(in *ec2.RunInstancesInput) { in.PrivateIpAddress = aws.String("10.0.0.9") }},
		{"an interface's address", value, "NetworkInterfaces.PrivateIpAddress", func(in *ec2.RunInstancesInput) {
			in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), PrivateIpAddress: aws.String("10.0.0.9")}}
		}},
		{"an interface", "InvalidNetworkInterfaceID.NotFound", "eni-0", func(in *ec2.RunInstancesInput) {
			in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), NetworkInterfaceId: aws.String("eni-0")}}
		}},
	} {
		for _, dry := range []bool{true, false} {
			in := b.run(c.change)
			in.DryRun = &dry
			name := c.name + map[bool]string{true: " in a dry run"}[dry]
			list = append(list, refusal{name, errorOf(b.RunInstances(t.Context(), in)), c.code, []string{c.text}})
		}
	}
	wantRefused(t, list)
	if n := len(b.region.Instances()); n > 0 {
		t.Errorf("%d instances run", n)
	}
}

func TestAFleetAndAnAutoScalingGroupRefuseATemplateThatCannotLaunch(t *testing.T) {
	for name, c := range map[string]struct {
		data       ec2types.RequestLaunchTemplateData
		code, text string
	}{
		"group":   {ec2types.RequestLaunchTemplateData{SecurityGroupIds: []string{"sg-0"}}, "InvalidGroup.NotFound", "sg-0"},
		"tenancy": {ec2types.RequestLaunchTemplateData{Placement: &ec2types.LaunchTemplatePlacementRequest{Tenancy: "host"}}, "InvalidParameterValue", "Placement.Tenancy"},
		"profile": {ec2types.RequestLaunchTemplateData{
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("web")},
		}, "InvalidParameterValue", "Invalid IAM Instance Profile name"},
		"volume": {ec2types.RequestLaunchTemplateData{
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
				DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(1)},
			}},
		}, "InvalidBlockDeviceMapping", "Volume of size 1GB is smaller than snapshot 'snap-"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuyer(t)
			out := must[*ec2.CreateFleetOutput](t)(b.CreateFleet(t.Context(), b.withTemplate(t, c.data)))
			if len(out.Instances) > 0 || len(out.Errors) != 1 || *out.Errors[0].ErrorCode != c.code ||
				!strings.Contains(*out.Errors[0].ErrorMessage, c.text) {
				t.Errorf("the fleet: %+v", out)
			}
			_, err := autoscaling.NewFromConfig(configFor(b.url, "us-west-2")).CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
				AutoScalingGroupName: &name, MinSize: aws.Int32(0), MaxSize: aws.Int32(1),
				VPCZoneIdentifier: &b.region.Subnets()[0].ID,
				LaunchTemplate:    &astypes.LaunchTemplateSpecification{LaunchTemplateName: aws.String("own")},
			})
			wantRefused(t, []refusal{{"group", err, "", []string{"fully-formed launch template", c.text}}})
		})
	}
}

func TestADedicatedInstanceSaysSo(t *testing.T) {
	b := newBuyer(t)
	for _, want := range []ec2types.Tenancy{"dedicated", "default"} {
		in := b.run(func(in *ec2.RunInstancesInput) { in.Placement = &ec2types.Placement{Tenancy: want} })
		i := must[*ec2.RunInstancesOutput](t)(b.RunInstances(t.Context(), in)).Instances[0]
		if i.Placement.Tenancy != want {
			t.Errorf("its tenancy is %s, want %s", i.Placement.Tenancy, want)
		}
	}
}

func TestRunInstancesHonoursGroupsByNameAndAnInterface(t *testing.T) {
	b := newBuyer(t)
	group, subnet := b.region.SecurityGroups()[0], b.region.Subnets()[1]
	i := must[*ec2.RunInstancesOutput](t)(b.RunInstances(t.Context(), b.run(func(in *ec2.RunInstancesInput) {
		in.SecurityGroups = []string{group.Name}
	}))).Instances[0]
	if len(i.SecurityGroups) != 1 || *i.SecurityGroups[0].GroupId != group.ID {
		t.Errorf("its groups are %+v", i.SecurityGroups)
	}
	e, err := b.region.CreateNetworkInterface(region.InterfaceRequest{SubnetID: subnet.ID, SecurityGroups: []string{group.ID}})
	if err != nil {
		t.Fatal(err)
	}
	in := b.run(func(in *ec2.RunInstancesInput) {
		in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), NetworkInterfaceId: &e.ID}}
	})
	i = must[*ec2.RunInstancesOutput](t)(b.RunInstances(t.Context(), in)).Instances[0]
	if *i.PrivateIpAddress != e.PrivateIP.String() || *i.SubnetId != subnet.ID || len(i.NetworkInterfaces) != 1 ||
		*i.NetworkInterfaces[0].NetworkInterfaceId != e.ID || *i.SecurityGroups[0].GroupId != group.ID {
		t.Errorf("with an interface of its own: %+v", i)
	}
	in.ClientToken = nil // the SDK has set it
	_, err = b.RunInstances(t.Context(), in)
	wantCode(t, err, "InvalidNetworkInterface.InUse")
	if _, err := b.region.TerminateInstances([]string{*i.InstanceId}); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(time.Minute)
	for _, left := range b.region.NetworkInterfaces() {
		if left.ID == e.ID && !left.InUse() && left.PrivateIP == e.PrivateIP {
			return
		}
	}
	t.Error("the interface ended with its instance")
}
