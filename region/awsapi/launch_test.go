package awsapi

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const anyImage = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"

// buyer launches instances of template "story" through the SDK.
type buyer struct {
	place
	*ec2.Client
	image string
}

func newBuyer(t *testing.T) buyer {
	t.Helper()
	b := buyer{place: newPlace(t)}
	b.Client = ec2.NewFromConfig(configFor(b.url, "us-west-2"))
	var err error
	if b.image, err = b.region.Parameter(anyImage); err != nil {
		t.Fatal(err)
	}
	if _, err := b.region.CreateInstanceProfile("nodes", "/", nil); err != nil {
		t.Fatal(err)
	}
	_, err = b.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("story"), VersionDescription: aws.String("first"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String(b.image), UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh"))),
			SecurityGroupIds:   []string{b.region.SecurityGroups()[0].ID},
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")},
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
				HttpTokens:              "required",
				HttpPutResponseHopLimit: aws.Int32(1),
			},
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{
				{
					DeviceName: aws.String("/dev/xvda"),
					Ebs:        &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(20), VolumeType: "gp3"},
				},
			},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{
				ResourceType: "instance",
				Tags:         tags("from", "template"),
			}},
		},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: "launch-template", Tags: tags("owner", "story")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tags(key, value string) []ec2types.Tag {
	return []ec2types.Tag{{Key: aws.String(key), Value: aws.String(value)}}
}

// fleet requests instances of the given on-demand types in the first zone, in order of preference.
func (b buyer) fleet(token string, types ...string) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		Type: "instant", ClientToken: aws.String(token),
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
			LaunchTemplateName: aws.String("story"), Version: aws.String("$Latest"),
		}}},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity:       aws.Int32(1),
			DefaultTargetCapacityType: "on-demand",
		},
		OnDemandOptions: &ec2types.OnDemandOptionsRequest{AllocationStrategy: "prioritized"},
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: "instance",
			Tags:         tags("karpenter.sh/nodeclaim", token),
		}},
	}
	for n, name := range types {
		in.LaunchTemplateConfigs[0].Overrides = append(in.LaunchTemplateConfigs[0].Overrides,
			ec2types.FleetLaunchTemplateOverridesRequest{
				InstanceType: ec2types.InstanceType(name), SubnetId: aws.String(b.region.Subnets()[0].ID),
				Priority: aws.Float64(float64(n)),
			})
	}
	return in
}

// buy launches one instance and returns its ID.
func (b buyer) buy(t *testing.T, in *ec2.CreateFleetInput) string {
	t.Helper()
	out, err := b.CreateFleet(t.Context(), in)
	if err != nil || len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 1 {
		t.Fatalf("fleet: %+v, %v", out, err)
	}
	return out.Instances[0].InstanceIds[0]
}

// claimed returns the only instance with the tag of a NodeClaim.
func (b buyer) claimed(t *testing.T, claim string) ec2types.Instance {
	t.Helper()
	out, err := b.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag:karpenter.sh/nodeclaim"), Values: []string{claim}},
	}})
	if err != nil || len(out.Reservations) != 1 {
		t.Fatalf("instances of %s: %+v, %v", claim, out, err)
	}
	return out.Reservations[0].Instances[0]
}

func TestAnInstanceIsLaunchedSeenAndTerminated(t *testing.T) {
	b := newBuyer(t)
	id := b.buy(t, b.fleet("claim-1", "m5.large", "c5.large"))
	b.clock.Advance(2 * time.Minute)
	i := b.claimed(t, "claim-1")
	if *i.InstanceId != id || i.State.Name != "running" || i.InstanceType != "m5.large" || *i.ImageId != b.image ||
		*i.VpcId != b.region.Subnets()[0].VPC ||
		*i.SecurityGroups[0].GroupName != "nodeless-node" ||
		*i.IamInstanceProfile.Arn != "arn:aws:iam::123456789012:instance-profile/nodes" {
		t.Errorf("the instance is told as %+v", i)
	}
	seen, _ := b.region.Instance(id)
	if string(seen.UserData) != "#!/bin/sh" || seen.Tags["from"] != "template" || seen.NodeDiskGiB != 20 {
		t.Errorf("it boots with %q, tags %v and a disk of %d GiB", seen.UserData, seen.Tags, seen.NodeDiskGiB)
	}
	out, err := b.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	if err != nil || out.TerminatingInstances[0].CurrentState.Name != "shutting-down" {
		t.Fatalf("terminate: %+v, %v", out, err)
	}
	b.clock.Advance(5 * time.Minute)
	if i := b.claimed(t, "claim-1"); i.State.Name != "terminated" {
		t.Errorf("five minutes later it is %s", i.State.Name)
	}
}

// A disabled KMS key ends the instance as soon as it starts, and EC2 reports why.
func TestAnInstanceWhoseKeyIsDisabledEndsAtOnce(t *testing.T) {
	b := newBuyer(t)
	const key = "1234abcd-12ab-34cd-56ef-1234567890ab"
	template := func(name, key string) string {
		_, err := b.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: aws.String(name), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
				ImageId: aws.String(b.image), BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
					DeviceName: aws.String("/dev/xvda"),
					Ebs:        &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(20), KmsKeyId: aws.String(key)},
				}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	arn := "arn:aws:kms:us-west-2:123456789012:key/" + key
	if err := b.region.SetKeyEnabled(key, false); err != nil {
		t.Fatal(err)
	}
	if err := b.region.SetKeyEnabled("my-key", false); err == nil {
		t.Error("my-key is no key, and could be disabled")
	}
	for name, c := range map[string]struct {
		key, want string
	}{
		"by-id": {key, "Client.InvalidKMSKey.InvalidState"}, "by-arn": {arn, "Client.InvalidKMSKey.InvalidState"},
		"no-key": {"my-key", "Client.InvalidKMSKey.InvalidState"}, "another": {"alias/aws/ebs", ""},
	} {
		q := b.fleet(name, "m5.large")
		q.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = aws.String(template(name, c.key))
		b.buy(t, q)
		b.clock.Advance(time.Minute)
		i := b.claimed(t, name)
		got := ""
		if i.StateReason != nil {
			got = *i.StateReason.Code
		}
		if got != c.want || (i.State.Name == "terminated") != (c.want != "") {
			t.Errorf("%s: a minute later it is %s for %q, want %q", name, i.State.Name, got, c.want)
		}
	}
	if err := b.region.SetKeyEnabled(key, true); err != nil {
		t.Fatal(err)
	}
	q := b.fleet("again", "m5.large")
	q.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = aws.String("by-id")
	b.buy(t, q)
	b.clock.Advance(time.Minute)
	if i := b.claimed(t, "again"); i.State.Name != "running" {
		t.Errorf("the key can be used again, and the instance is %s", i.State.Name)
	}
}

func TestUserDataHaveALimit(t *testing.T) {
	b := newBuyer(t)
	for size, tooLong := range map[int]bool{16 << 10: false, 16<<10 + 1: true} {
		data := aws.String(base64.StdEncoding.EncodeToString(make([]byte, size)))
		_, created := b.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: aws.String(fmt.Sprint("data-", size)),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: &b.image, UserData: data},
		})
		_, added := b.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateName: aws.String("story"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{UserData: data},
		})
		_, run := b.RunInstances(t.Context(), &ec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: &b.image, UserData: data,
		})
		if !tooLong {
			if created != nil || added != nil || run != nil {
				t.Errorf("%d bytes: %v, %v, %v", size, created, added, run)
			}
			continue
		}
		wantCode(t, created, "InvalidUserData.Malformed")
		wantCode(t, added, "InvalidUserData.Malformed")
		wantCode(t, run, "InvalidParameterValue")
		if !strings.Contains(fmt.Sprint(created), "User data is limited to 16384 bytes") {
			t.Errorf("%d bytes: %v", size, created)
		}
	}
}

func TestAClientTokenLaunchesOnce(t *testing.T) {
	b := newBuyer(t)
	first, again := b.buy(t, b.fleet("claim-1", "m5.large")), b.buy(t, b.fleet("claim-1", "m5.large"))
	if first != again || len(b.region.Instances()) != 1 {
		t.Errorf("%s, then %s; there are %d instances", first, again, len(b.region.Instances()))
	}
	_, err := b.CreateFleet(t.Context(), b.fleet("claim-1", "c5.large"))
	wantCode(t, err, "IdempotentParameterMismatch")
	dry := b.fleet("claim-2", "m5.large")
	dry.DryRun = aws.Bool(true)
	_, err = b.CreateFleet(t.Context(), dry)
	wantCode(t, err, "DryRunOperation")
}

func TestWhatOnePoolLacksTheNextGives(t *testing.T) {
	b := newBuyer(t)
	b.post(t, "capacity", `{"type":"m5.large","zone":"us-west-2a","capacityType":"on-demand","count":0}`, 200)
	out, err := b.CreateFleet(t.Context(), b.fleet("claim-1", "m5.large", "c5.large"))
	if err != nil || len(out.Errors) != 1 || len(out.Instances) != 1 {
		t.Fatalf("fleet: %+v, %v", out, err)
	}
	e := out.Errors[0]
	if *e.ErrorCode != "InsufficientInstanceCapacity" ||
		e.LaunchTemplateAndOverrides.Overrides.InstanceType != "m5.large" ||
		*e.LaunchTemplateAndOverrides.Overrides.AvailabilityZone != "us-west-2a" ||
		out.Instances[0].InstanceType != "c5.large" {
		t.Errorf("error %+v, instead %+v", e, out.Instances[0])
	}
	out, err = b.CreateFleet(t.Context(), b.fleet("claim-2", "m5.large"))
	if err != nil || len(out.Instances) != 0 || len(out.Errors) != 1 {
		t.Errorf("with nothing left: %+v, %v", out, err)
	}
}

func TestATemplateReadsBackAsItWasWritten(t *testing.T) {
	b := newBuyer(t)
	named := []string{"story"}
	found, err := b.DescribeLaunchTemplates(t.Context(),
		&ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: named, Filters: []ec2types.Filter{
			{Name: aws.String("tag:owner"), Values: []string{"story"}},
		}})
	if err != nil || len(found.LaunchTemplates) != 1 || *found.LaunchTemplates[0].LatestVersionNumber != 1 {
		t.Fatalf("templates: %+v, %v", found, err)
	}
	out, err := b.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: aws.String("story"), Versions: []string{"$Latest", "1"},
	})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		t.Fatalf("versions: %+v, %v", out, err)
	}
	v := out.LaunchTemplateVersions[0]
	d := v.LaunchTemplateData
	if *v.VersionDescription != "first" || *d.ImageId != b.image ||
		*d.UserData != base64.StdEncoding.EncodeToString([]byte("#!/bin/sh")) || *d.IamInstanceProfile.Name != "nodes" ||
		d.MetadataOptions.HttpTokens != "required" || *d.MetadataOptions.HttpPutResponseHopLimit != 1 ||
		*d.BlockDeviceMappings[0].Ebs.VolumeSize != 20 ||
		!slices.Equal(d.SecurityGroupIds, []string{b.region.SecurityGroups()[0].ID}) ||
		*d.TagSpecifications[0].Tags[0].Value != "template" {
		t.Errorf("it reads %+v", d)
	}
	b.wantReadBack(t)
	if _, err := b.DeleteLaunchTemplate(t.Context(),
		&ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("story")}); err != nil {
		t.Error(err)
	}
	_, err = b.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: named})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
	_, err = b.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{"lt-0"}})
	wantCode(t, err, "InvalidLaunchTemplateId.NotFound")
	_, err = b.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("bad"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{UserData: aws.String("%%%")},
	})
	wantCode(t, err, "InvalidUserData.Malformed")
}

// wantReadBack adds a version of template "story" that sets what the region does not use, and reads it back.
func (b buyer) wantReadBack(t *testing.T) {
	t.Helper()
	bounds := &ec2types.VCpuCountRangeRequest{Min: aws.Int32(2)}
	written := &ec2types.RequestLaunchTemplateData{
		IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{
			Arn: aws.String("arn:aws:iam::123456789012:instance-profile/nodes"),
		},
		TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{
			{ResourceType: "volume", Tags: []ec2types.Tag{tags("z", "1")[0], tags("a", "2")[0]}},
			{ResourceType: "instance", Tags: tags("from", "version")},
		},
		LicenseSpecifications: []ec2types.LaunchTemplateLicenseConfigurationRequest{
			{LicenseConfigurationArn: aws.String("arn:aws:license-manager:us-west-2:123456789012:license-configuration:lic-1")},
		},
		InstanceRequirements: &ec2types.InstanceRequirementsRequest{
			MemoryMiB: &ec2types.MemoryMiBRequest{Min: aws.Int32(1024)}, VCpuCount: bounds,
			AllowedInstanceTypes: []string{"m5.*"}, ExcludedInstanceTypes: []string{"m5.metal"},
			CpuManufacturers:    []ec2types.CpuManufacturer{"intel", "amd"},
			InstanceGenerations: []ec2types.InstanceGeneration{"current"}, LocalStorageTypes: []ec2types.LocalStorageType{"ssd"},
			AcceleratorManufacturers: []ec2types.AcceleratorManufacturer{"nvidia"},
			AcceleratorNames:         []ec2types.AcceleratorName{"a100"}, AcceleratorTypes: []ec2types.AcceleratorType{"gpu"},
			BaselinePerformanceFactors: &ec2types.BaselinePerformanceFactorsRequest{Cpu: &ec2types.CpuPerformanceFactorRequest{
				References: []ec2types.PerformanceFactorReferenceRequest{{InstanceFamily: aws.String("c6i")}},
			}},
		},
		NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
			DeviceIndex: aws.Int32(0), Groups: []string{b.region.SecurityGroups()[0].ID},
			Ipv6Addresses: []ec2types.InstanceIpv6AddressRequest{{Ipv6Address: aws.String("2001:db8::1")}},
			Ipv6Prefixes:  []ec2types.Ipv6PrefixSpecificationRequest{{Ipv6Prefix: aws.String("2001:db8::/80")}},
		}},
	}
	_, err := b.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: aws.String("story"), LaunchTemplateData: written,
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: aws.String("story"), Versions: []string{"2"},
	})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		t.Fatalf("versions: %+v, %v", out, err)
	}
	want, got := copyOf[ec2types.ResponseLaunchTemplateData](written), *out.LaunchTemplateVersions[0].LaunchTemplateData
	if !reflect.DeepEqual(copyOf[map[string]any](want), copyOf[map[string]any](got)) {
		t.Errorf("it reads %+v, want %+v", copyOf[map[string]any](got), copyOf[map[string]any](want))
	}
	for profile, version := range map[string]int64{"nodes": 1, *written.IamInstanceProfile.Arn: 2} {
		out, err = b.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
			LaunchTemplateName: aws.String("story"),
			Filters:            []ec2types.Filter{{Name: aws.String("iam-instance-profile"), Values: []string{profile}}},
		})
		if err != nil || len(out.LaunchTemplateVersions) != 1 || *out.LaunchTemplateVersions[0].VersionNumber != version {
			t.Errorf("versions with profile %s: %+v, %v", profile, out, err)
		}
	}
}

func TestAVersionReadsBackWithWhatItInherits(t *testing.T) {
	b := newBuyer(t)
	_, err := b.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: aws.String("story"), SourceVersion: aws.String("1"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			KeyName:         aws.String("admin"),
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: "optional"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: aws.String("story"), Versions: []string{"2"},
	})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		t.Fatalf("versions: %+v, %v", out, err)
	}
	d := out.LaunchTemplateVersions[0].LaunchTemplateData
	if aws.ToString(d.KeyName) != "admin" || d.MetadataOptions.HttpTokens != "optional" ||
		d.MetadataOptions.HttpPutResponseHopLimit != nil || *d.ImageId != b.image {
		t.Errorf("it reads %+v", d)
	}
	if m := d.BlockDeviceMappings; len(m) != 1 || *m[0].DeviceName != "/dev/xvda" || *m[0].Ebs.VolumeSize != 20 {
		t.Errorf("block devices %+v, want the inherited one", m)
	}
}

func TestRunInstancesTakesGroupsOfItsInterface(t *testing.T) {
	b := newBuyer(t)
	subnet, group := b.region.Subnets()[1], b.region.SecurityGroups()[0].ID
	in := &ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "t3.small", ImageId: aws.String(b.image),
		InstanceMarketOptions: &ec2types.InstanceMarketOptionsRequest{MarketType: "spot"},
		NetworkInterfaces: []ec2types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0),
			SubnetId:    aws.String(subnet.ID), Groups: []string{group},
		}},
	}
	out, err := b.RunInstances(t.Context(), in)
	if err != nil || len(out.Instances) != 1 {
		t.Fatalf("run: %+v, %v", out, err)
	}
	if i := out.Instances[0]; i.InstanceLifecycle != "spot" || *i.SubnetId != subnet.ID ||
		*i.SecurityGroups[0].GroupId != group {
		t.Errorf("it runs as %+v", i)
	}
	in.DryRun = aws.Bool(true)
	_, err = b.RunInstances(t.Context(), in)
	wantCode(t, err, "DryRunOperation")
}

func TestImagesPricesAndTagsAreFound(t *testing.T) {
	b := newBuyer(t)
	images, err := b.DescribeImages(t.Context(),
		&ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []ec2types.Filter{
			{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-*-standard-1.34-*"}},
			{Name: aws.String("architecture"), Values: []string{"x86_64"}},
		}})
	if err != nil || len(images.Images) != 1 || *images.Images[0].ImageId != b.image {
		t.Errorf("images: %+v, %v", images, err)
	}
	own, err := b.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}})
	if err != nil || len(own.Images) != 0 {
		t.Errorf("own images: %+v, %v", own, err)
	}
	now := b.region.Now()
	prices, err := b.DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []ec2types.InstanceType{"m5.large"}, ProductDescriptions: []string{"Linux/UNIX"},
		StartTime: aws.Time(now.Add(time.Hour)),
	})
	if err != nil || len(prices.SpotPriceHistory) != len(b.region.Zones()) {
		t.Errorf("current prices: %+v, %v", prices, err)
	}
	id := b.buy(t, b.fleet("claim-1", "m5.large"))
	if _, err := b.CreateTags(t.Context(),
		&ec2.CreateTagsInput{Resources: []string{id}, Tags: tags("Name", "a <b> & c")}); err != nil {
		t.Fatal(err)
	}
	named := &ec2.DescribeTagsInput{Filters: []ec2types.Filter{
		{Name: aws.String("resource-id"), Values: []string{id}},
		{Name: aws.String("key"), Values: []string{"Name"}},
	}}
	found, err := b.DescribeTags(t.Context(), named)
	if err != nil || len(found.Tags) != 1 || *found.Tags[0].Value != "a <b> & c" ||
		found.Tags[0].ResourceType != "instance" {
		t.Errorf("tags: %+v, %v", found, err)
	}
	if _, err := b.DeleteTags(t.Context(),
		&ec2.DeleteTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: aws.String("Name")}}}); err != nil {
		t.Fatal(err)
	}
	if found, err = b.DescribeTags(t.Context(), named); err != nil || len(found.Tags) != 0 {
		t.Errorf("after deletion: %+v, %v", found, err)
	}
}
