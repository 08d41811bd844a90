package awsapi

import (
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

func TestASubnetIsFoundByEachNameOfAFilter(t *testing.T) {
	b := newBuyer(t)
	second := b.region.Subnets()[1]
	for name, value := range map[string]string{
		"availability-zone": second.Zone, "availabilityZone": second.Zone, "availability-zone-id": second.ZoneID,
		"availabilityZoneId": second.ZoneID, "cidr-block": second.CIDR.String(), "cidr": second.CIDR.String(),
		"cidrBlock": second.CIDR.String(),
	} {
		out, err := b.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{
			Filters: []ec2types.Filter{{Name: &name, Values: []string{value}}},
		})
		if err != nil || len(out.Subnets) != 1 || *out.Subnets[0].SubnetId != second.ID {
			t.Errorf("%s=%s: %+v, %v", name, value, out, err)
		}
	}
	for _, name := range []string{"default-for-az", "defaultForAz"} {
		for value, want := range map[string]int{"false": len(b.region.Subnets()), "true": 0} {
			out, err := b.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{
				Filters: []ec2types.Filter{{Name: &name, Values: []string{value}}},
			})
			if err != nil || len(out.Subnets) != want {
				t.Errorf("%s=%s: %+v, %v", name, value, out, err)
			}
		}
	}
}

// withTemplate creates launch template "own" and returns a fleet of it without overrides.
func (b buyer) withTemplate(t *testing.T, data ec2types.RequestLaunchTemplateData) *ec2.CreateFleetInput {
	t.Helper()
	data.ImageId, data.InstanceType = &b.image, "m5.large"
	_, err := b.CreateLaunchTemplate(t.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("own"), LaunchTemplateData: &data})
	if err != nil {
		t.Fatal(err)
	}
	q := b.fleet("claim-1")
	q.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = aws.String("own")
	return q
}

func (b buyer) wantSubnet(t *testing.T, id, subnet string) {
	t.Helper()
	if i, ok := b.region.Instance(id); !ok || i.SubnetID != subnet {
		t.Errorf("%s is in subnet %s, want %s", id, i.SubnetID, subnet)
	}
}

func TestATemplateSaysWhereItsInstancesLaunch(t *testing.T) {
	for name, data := range map[string]func(subnet, zone, zoneID string) ec2types.RequestLaunchTemplateData{
		"subnet": func(subnet, _, _ string) ec2types.RequestLaunchTemplateData {
			return ec2types.RequestLaunchTemplateData{
				NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
					DeviceIndex: aws.Int32(0), SubnetId: &subnet,
				}},
			}
		},
		"zone": func(_, zone, _ string) ec2types.RequestLaunchTemplateData {
			return ec2types.RequestLaunchTemplateData{
				Placement: &ec2types.LaunchTemplatePlacementRequest{AvailabilityZone: &zone},
			}
		},
		"zone ID": func(_, _, id string) ec2types.RequestLaunchTemplateData {
			return ec2types.RequestLaunchTemplateData{
				Placement: &ec2types.LaunchTemplatePlacementRequest{AvailabilityZoneId: &id},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuyer(t)
			third, second := b.region.Subnets()[2], b.region.Subnets()[1]
			q := b.withTemplate(t, data(third.ID, third.Zone, third.ZoneID))
			b.wantSubnet(t, b.buy(t, q), third.ID)
			out, err := b.RunInstances(t.Context(), &ec2.RunInstancesInput{
				MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
				LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("own")},
			})
			if err != nil {
				t.Fatal(err)
			}
			b.wantSubnet(t, *out.Instances[0].InstanceId, third.ID)
			q.ClientToken = aws.String("claim-2")
			q.LaunchTemplateConfigs[0].Overrides = []ec2types.FleetLaunchTemplateOverridesRequest{{SubnetId: &second.ID}}
			b.wantSubnet(t, b.buy(t, q), second.ID)
		})
	}
}

func TestALaunchNeedsTheSubnetOfItsTemplate(t *testing.T) {
	a := newAccount(t)
	subnets := a.region.Subnets()
	data := region.TemplateData{ImageID: a.region.Images()[0].ID, InstanceType: "m5.large", SubnetID: subnets[2].ID}
	if _, err := a.region.CreateLaunchTemplate("own", data, nil); err != nil {
		t.Fatal(err)
	}
	c := a.user(t, "one", `[{"Effect": "Allow", "Action": ["ec2:RunInstances", "ec2:CreateFleet"], "Resource": "*"},
		{"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "arn:aws:ec2:*:*:subnet/`+subnets[2].ID+`"}]`)
	for subnet, code := range map[*string]string{nil: "UnauthorizedOperation", &subnets[1].ID: "DryRunOperation"} {
		_, err := ec2.NewFromConfig(c).RunInstances(t.Context(), &ec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: subnet, DryRun: aws.Bool(true),
			LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("own")},
		})
		wantCode(t, err, code)
	}
	out, err := ec2.NewFromConfig(c).CreateFleet(t.Context(), &ec2.CreateFleetInput{
		Type:                        "instant",
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1)},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: aws.String("own"),
			},
		}},
	})
	if err != nil || len(out.Instances) != 0 || len(out.Errors) != 1 ||
		*out.Errors[0].ErrorCode != "UnauthorizedOperation" {
		t.Errorf("the fleet is %+v, %v", out, err)
	}
}

func TestAZoneIDIsAPlaceToLaunch(t *testing.T) {
	b := newBuyer(t)
	third := b.region.Subnets()[2]
	q := b.withTemplate(t, ec2types.RequestLaunchTemplateData{})
	q.LaunchTemplateConfigs[0].Overrides = []ec2types.FleetLaunchTemplateOverridesRequest{
		{AvailabilityZoneId: &third.ZoneID},
	}
	b.wantSubnet(t, b.buy(t, q), third.ID)
	_, err := b.RunInstances(t.Context(), &ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: &b.image, SubnetId: &b.region.Subnets()[0].ID,
		Placement: &ec2types.Placement{AvailabilityZoneId: &third.ZoneID},
	})
	wantCode(t, err, "InvalidParameterCombination")
	out, err := b.RunInstances(t.Context(), &ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: &b.image,
		Placement: &ec2types.Placement{AvailabilityZoneId: &third.ZoneID},
	})
	if err != nil || *out.Instances[0].Placement.AvailabilityZone != third.Zone {
		t.Errorf("it runs as %+v, %v", out, err)
	}
}

func TestAnOverrideWithoutPriorityComesLast(t *testing.T) {
	b := newBuyer(t)
	q := b.fleet("claim-1", "m5.large", "c5.large", "r5.large")
	overrides := q.LaunchTemplateConfigs[0].Overrides
	overrides[0].Priority, overrides[1].Priority, overrides[2].Priority = nil, aws.Float64(7), aws.Float64(0)
	for _, want := range []string{"r5.large", "c5.large", "m5.large"} {
		q.ClientToken = aws.String(want)
		id := b.buy(t, q)
		if i, _ := b.region.Instance(id); i.Type != want {
			t.Errorf("%s was launched, want %s", i.Type, want)
		}
		b.post(t, "capacity", `{"type":"`+want+`","zone":"us-west-2a","capacityType":"on-demand","count":0}`, 200)
	}
}

// EKS adds tags to the launch template that it makes of a node group's own.
func TestTheTemplateOfANodeGroupHasItsTags(t *testing.T) {
	b := newBuyer(t)
	n, err := b.region.CreateNodegroup("nodeless", "web", region.NodegroupSettings{
		Max: 1, Subnets: []string{b.region.Subnets()[0].ID}, Role: "arn:aws:iam::123456789012:role/nodes",
		Template: region.TemplateRef{Name: "story"},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.DescribeLaunchTemplateVersions(t.Context(),
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &n.TemplateID})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		t.Fatalf("versions: %+v, %v", out, err)
	}
	got := map[string]string{}
	for _, s := range out.LaunchTemplateVersions[0].LaunchTemplateData.TagSpecifications {
		maps.Copy(got, tagMap(s.Tags))
	}
	if got["from"] != "template" || got["eks:nodegroup-name"] != "web" {
		t.Errorf("tags %v", got)
	}
}

func TestAFleetRefusesWhatIsNotServed(t *testing.T) {
	b := newBuyer(t)
	for name, change := range map[string]func(*ec2.CreateFleetInput, *ec2types.FleetLaunchTemplateOverridesRequest){
		"WeightedCapacity": func(_ *ec2.CreateFleetInput, o *ec2types.FleetLaunchTemplateOverridesRequest) {
			o.WeightedCapacity = aws.Float64(2)
		},
		"MaxPrice": func(_ *ec2.CreateFleetInput, o *ec2types.FleetLaunchTemplateOverridesRequest) {
			o.MaxPrice = aws.String("0.1")
		},
		"BlockDeviceMappings": func(_ *ec2.CreateFleetInput, o *ec2types.FleetLaunchTemplateOverridesRequest) {
			o.BlockDeviceMappings = []ec2types.FleetBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda")}}
		},
		"InstanceRequirements": func(_ *ec2.CreateFleetInput, o *ec2types.FleetLaunchTemplateOverridesRequest) {
			o.InstanceRequirements = &ec2types.InstanceRequirementsRequest{
				MemoryMiB: &ec2types.MemoryMiBRequest{Min: aws.Int32(1)},
				VCpuCount: &ec2types.VCpuCountRangeRequest{Min: aws.Int32(1)},
			}
		},
		"SpotTargetCapacity": func(q *ec2.CreateFleetInput, _ *ec2types.FleetLaunchTemplateOverridesRequest) {
			q.TargetCapacitySpecification.SpotTargetCapacity = aws.Int32(1)
		},
		"OnDemandTargetCapacity": func(q *ec2.CreateFleetInput, _ *ec2types.FleetLaunchTemplateOverridesRequest) {
			q.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(2)
			q.TargetCapacitySpecification.OnDemandTargetCapacity = aws.Int32(1)
		},
		"MaxTotalPrice": func(q *ec2.CreateFleetInput, _ *ec2types.FleetLaunchTemplateOverridesRequest) {
			q.OnDemandOptions.MaxTotalPrice = aws.String("1")
		},
		"MinTargetCapacity": func(q *ec2.CreateFleetInput, _ *ec2types.FleetLaunchTemplateOverridesRequest) {
			q.OnDemandOptions.MinTargetCapacity = aws.Int32(1)
		},
	} {
		q := b.fleet(name, "m5.large")
		change(q, &q.LaunchTemplateConfigs[0].Overrides[0])
		_, err := b.CreateFleet(t.Context(), q)
		wantCode(t, err, "InvalidParameterValue")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	q := b.fleet("served", "m5.large")
	q.LaunchTemplateConfigs[0].Overrides[0].WeightedCapacity = aws.Float64(1)
	q.TargetCapacitySpecification.OnDemandTargetCapacity = aws.Int32(1)
	q.TargetCapacitySpecification.SpotTargetCapacity = aws.Int32(0)
	b.buy(t, q)
}
