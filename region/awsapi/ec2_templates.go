package awsapi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// maxUserData is EC2's limit before encoding (EC2 user guide, "Run commands when you launch an EC2 instance with user
// data input").
const maxUserData = 16 << 10

// userData decodes UserData, with or without padding and line breaks.
func userData(text *string) ([]byte, error) {
	if aws.ToString(text) == "" {
		return nil, nil
	}
	data, err := base64.RawStdEncoding.DecodeString(
		strings.TrimRight(strings.NewReplacer("\n", "", "\r", "").Replace(*text), "="))
	if err != nil {
		return nil, failure(400, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data: "+err.Error())
	}
	return data, nil
}

// limitUserData returns an error with a code, which depends on the call, if user data is too long.
func limitUserData(data []byte, code string) error {
	if len(data) > maxUserData {
		return failure(400, code, fmt.Sprintf("User data is limited to %d bytes", maxUserData))
	}
	return nil
}

// copyOf copies the fields that two SDK structures have in common to a new structure of type To.
func copyOf[To any](from any) (to To) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, &to)
	}
	if err != nil {
		panic(fmt.Sprintf("copy %T to %T: %v", from, to, err)) // fields of the same name have the same type
	}
	return to
}

// templateData converts the instance settings of launch templates and RunInstances. If the instance has no security
// groups, it uses those of the first interface that has some; likewise its subnet and its existing interface.
func templateData(in types.RequestLaunchTemplateData) (region.TemplateData, error) {
	data, err := userData(in.UserData)
	d := region.TemplateData{
		ImageID: aws.ToString(in.ImageId), InstanceType: string(in.InstanceType), UserData: data,
		SecurityGroupIDs: slices.Concat(in.SecurityGroupIds, in.SecurityGroups), Unserved: ignoredSetting(&in),
		Monitoring: in.Monitoring != nil && aws.ToBool(in.Monitoring.Enabled),
	}
	if p := in.IamInstanceProfile; p != nil {
		arn := aws.ToString(p.Arn)
		d.InstanceProfile = cmp.Or(aws.ToString(p.Name), arn[strings.LastIndex(arn, "/")+1:])
	}
	for _, i := range in.NetworkInterfaces {
		d.SubnetID = cmp.Or(d.SubnetID, aws.ToString(i.SubnetId))
		d.InterfaceID = cmp.Or(d.InterfaceID, aws.ToString(i.NetworkInterfaceId))
		if d.SecurityGroupIDs == nil {
			d.SecurityGroupIDs = i.Groups
		}
	}
	for _, m := range in.BlockDeviceMappings {
		if ebs := m.Ebs; ebs != nil {
			d.Devices = append(d.Devices, region.BlockDevice{
				Name: aws.ToString(m.DeviceName), SizeGiB: int64(aws.ToInt32(ebs.VolumeSize)),
				Keep:   ebs.DeleteOnTermination != nil && !*ebs.DeleteOnTermination,
				KMSKey: aws.ToString(ebs.KmsKeyId), Type: string(ebs.VolumeType), IOPS: int64(aws.ToInt32(ebs.Iops)),
				Throughput: int64(aws.ToInt32(ebs.Throughput)), Snapshot: aws.ToString(ebs.SnapshotId),
			})
		}
	}
	for _, s := range in.TagSpecifications {
		if d.Tags == nil {
			d.Tags = map[string]map[string]string{}
		}
		d.Tags[string(s.ResourceType)] = tagMap(s.Tags)
	}
	if err == nil {
		d.Market, d.SpotMaxMicros, err = marketOf(in.InstanceMarketOptions)
	}
	if err == nil {
		d.Reservation, err = reservationChoice(in.CapacityReservationSpecification)
	}
	if p := in.Placement; err == nil && p != nil {
		d.Zone = cmp.Or(aws.ToString(p.AvailabilityZone), aws.ToString(p.AvailabilityZoneId))
		d.Tenancy = string(p.Tenancy)
		d.Placement, err = placementChoice(p.GroupName, p.GroupId, p.PartitionNumber)
	}
	return d, err
}

// ignoredSetting returns the first setting that launches would ignore; "" if there is none.
func ignoredSetting(in *types.RequestLaunchTemplateData) string {
	place := cmp.Or(in.Placement, &types.LaunchTemplatePlacementRequest{})
	market := cmp.Or(in.InstanceMarketOptions, &types.LaunchTemplateInstanceMarketOptionsRequest{})
	spot := cmp.Or(market.SpotOptions, &types.LaunchTemplateSpotMarketOptionsRequest{})
	ends, life := spot.InstanceInterruptionBehavior, spot.SpotInstanceType
	// Nested virtualization changes nothing that the API or a simulated node shows.
	cpu := cmp.Or(in.CpuOptions, &types.LaunchTemplateCpuOptionsRequest{})
	hibernates := in.HibernationOptions != nil && aws.ToBool(in.HibernationOptions.Configured)
	set := map[string]bool{
		"Placement.Tenancy host":                                 place.Tenancy == types.TenancyHost,
		"Placement.HostId":                                       place.HostId != nil,
		"Placement.HostResourceGroupArn":                         place.HostResourceGroupArn != nil,
		"CpuOptions.CoreCount":                                   cpu.CoreCount != nil,
		"CpuOptions.ThreadsPerCore":                              cpu.ThreadsPerCore != nil,
		"CpuOptions.AmdSevSnp":                                   cpu.AmdSevSnp == "enabled",
		"InstanceRequirements":                                   in.InstanceRequirements != nil,
		"DisableApiTermination":                                  aws.ToBool(in.DisableApiTermination),
		"HibernationOptions":                                     hibernates,
		"InstanceMarketOptions.SpotOptions.BlockDurationMinutes": spot.BlockDurationMinutes != nil,
		"InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": ends != "" && ends != "terminate",
		"InstanceMarketOptions.SpotOptions.SpotInstanceType":             life == types.SpotInstanceTypePersistent,
		"InstanceMarketOptions.SpotOptions.ValidUntil":                   spot.ValidUntil != nil,
	}
	for _, i := range in.NetworkInterfaces {
		for name, given := range map[string]bool{
			"PrivateIpAddress": i.PrivateIpAddress != nil || len(i.PrivateIpAddresses) > 0, "Ipv6": hasIPv6(&i),
			"SecondaryPrivateIpAddressCount": aws.ToInt32(i.SecondaryPrivateIpAddressCount) > 0,
			"Ipv4Prefixes":                   aws.ToInt32(i.Ipv4PrefixCount) > 0 || len(i.Ipv4Prefixes) > 0,
		} {
			set["NetworkInterfaces."+name] = set["NetworkInterfaces."+name] || given
		}
	}
	return firstSet(set)
}

func hasIPv6(i *types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) bool {
	return aws.ToInt32(i.Ipv6AddressCount) > 0 || aws.ToInt32(i.Ipv6PrefixCount) > 0 || len(i.Ipv6Addresses) > 0 ||
		len(i.Ipv6Prefixes) > 0
}

// firstSet returns the first name of a set; "" if it is empty.
func firstSet(set map[string]bool) string {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] {
			return name
		}
	}
	return ""
}

// understood lists the parameters of template data that templateData preserves completely.
var understood = []string{
	"ImageId", "InstanceType", "UserData", "SecurityGroupId",
}

// rest returns the parameters below p, except those in kept.
func (p *parameter) rest(kept []string) map[string]string {
	raw := map[string]string{}
	var collect func(prefix string, p *parameter)
	collect = func(prefix string, p *parameter) {
		for name, q := range p.below {
			if prefix == "" && slices.Contains(kept, name) {
				continue
			}
			if q.below == nil {
				raw[prefix+name] = q.value
			}
			collect(prefix+name+".", q)
		}
	}
	collect("", p)
	return raw
}

func createLaunchTemplate(c *call, in *ec2.CreateLaunchTemplateInput) (*ec2.CreateLaunchTemplateOutput, error) {
	data, err := c.templateData(*in.LaunchTemplateData, in.VersionDescription, in.DryRun)
	if err != nil {
		return nil, err
	}
	t, err := c.region.CreateLaunchTemplateOnce(aws.ToString(in.ClientToken), aws.ToString(in.LaunchTemplateName), data,
		tagsFor(types.ResourceTypeLaunchTemplate, in.TagSpecifications))
	return &ec2.CreateLaunchTemplateOutput{LaunchTemplate: templateOf(t)}, err
}

// templateData returns the data of a call that creates a version of a template.
func (c *call) templateData(
	in types.RequestLaunchTemplateData, description *string, requested *bool,
) (region.TemplateData, error) {
	data, err := templateData(in)
	if err == nil {
		err = limitUserData(data.UserData, "InvalidUserData.Malformed")
	}
	if err == nil {
		err = dryRun(requested)
	}
	data.Raw, data.Description = c.parameters.below["LaunchTemplateData"].rest(understood), aws.ToString(description)
	return data, err
}

func createLaunchTemplateVersion(
	c *call, in *ec2.CreateLaunchTemplateVersionInput,
) (*ec2.CreateLaunchTemplateVersionOutput, error) {
	data, err := c.templateData(*in.LaunchTemplateData, in.VersionDescription, in.DryRun)
	if err != nil {
		return nil, err
	}
	t, n, err := c.region.CreateLaunchTemplateVersion(aws.ToString(in.LaunchTemplateId),
		aws.ToString(in.LaunchTemplateName), aws.ToString(in.SourceVersion), data)
	if err != nil {
		return nil, err
	}
	version, err := versionOf(t, n)
	return &ec2.CreateLaunchTemplateVersionOutput{LaunchTemplateVersion: &version}, err
}

// modifyLaunchTemplate sets the default version, the only thing that EC2 can modify.
func modifyLaunchTemplate(c *call, in *ec2.ModifyLaunchTemplateInput) (*ec2.ModifyLaunchTemplateOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	t, err := c.region.SetDefaultVersion(aws.ToString(in.LaunchTemplateId), aws.ToString(in.LaunchTemplateName),
		aws.ToString(in.DefaultVersion))
	return &ec2.ModifyLaunchTemplateOutput{LaunchTemplate: templateOf(t)}, err
}

func deleteLaunchTemplate(c *call, in *ec2.DeleteLaunchTemplateInput) (*ec2.DeleteLaunchTemplateOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	t, err := c.region.DeleteLaunchTemplate(aws.ToString(in.LaunchTemplateId), aws.ToString(in.LaunchTemplateName))
	return &ec2.DeleteLaunchTemplateOutput{LaunchTemplate: templateOf(t)}, err
}

func templateOf(t region.LaunchTemplate) *types.LaunchTemplate {
	return &types.LaunchTemplate{
		LaunchTemplateId: &t.ID, LaunchTemplateName: &t.Name, CreateTime: &t.CreatedAt, CreatedBy: &t.CreatedBy,
		DefaultVersionNumber: new(int64(t.Default)), LatestVersionNumber: new(int64(len(t.Versions))), Tags: tagsOf(t.Tags),
	}
}

var templates = kind[types.LaunchTemplate]{
	key: "LaunchTemplateId", usual: 200,
	filters: "launch-template-name create-time tag-key=Tags.Key tag-value=Tags.Value",
	ids: []naming{
		{
			"LaunchTemplateIds", "LaunchTemplateId", "InvalidLaunchTemplateId.NotFound",
			"The specified launch template, with template ID %s, does not exist.",
		},
		{
			"LaunchTemplateNames", "LaunchTemplateName", "InvalidLaunchTemplateName.NotFoundException",
			"At least one of the launch templates specified in the request does not exist: %s",
		},
	},
}

func describeLaunchTemplates(
	c *call, in *ec2.DescribeLaunchTemplatesInput,
) (*ec2.DescribeLaunchTemplatesOutput, error) {
	var all []types.LaunchTemplate
	for _, t := range c.region.LaunchTemplates() {
		all = append(all, *templateOf(t))
	}
	found, next, err := templates.answer(in, all)
	return &ec2.DescribeLaunchTemplatesOutput{LaunchTemplates: found, NextToken: next}, err
}

var templateVersions = kind[types.LaunchTemplateVersion]{
	key: "LaunchTemplateId VersionNumber", usual: 200,
	filters: `create-time is-default-version=DefaultVersion image-id=LaunchTemplateData.ImageId
		instance-type=LaunchTemplateData.InstanceType iam-instance-profile=LaunchTemplateData.IamInstanceProfile`,
}

// describeLaunchTemplateVersions returns the versions of one template, or $Latest or $Default of all.
func describeLaunchTemplateVersions(
	c *call, in *ec2.DescribeLaunchTemplateVersionsInput,
) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	list := c.region.LaunchTemplates()
	if id, name := aws.ToString(in.LaunchTemplateId), aws.ToString(in.LaunchTemplateName); id != "" || name != "" {
		t, err := c.region.LaunchTemplate(id, name)
		if err != nil {
			return nil, err
		}
		list = []region.LaunchTemplate{t}
	} else if len(in.Versions) == 0 || slices.ContainsFunc(in.Versions, isNumber) {
		return nil, failure(400, "MissingParameter",
			"The request must name a launch template by id or name, or ask for version $Latest or $Default of all")
	}
	low, _ := strconv.Atoi(aws.ToString(in.MinVersion))
	high, _ := strconv.Atoi(aws.ToString(in.MaxVersion))
	var all []types.LaunchTemplateVersion
	for _, t := range list {
		numbers, err := wantedVersions(t, in.Versions)
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			if n < low || (high > 0 && n > high) {
				continue
			}
			v, err := versionOf(t, n)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	found, next, err := templateVersions.answer(in, all)
	return &ec2.DescribeLaunchTemplateVersionsOutput{LaunchTemplateVersions: found, NextToken: next}, err
}

func isNumber(version string) bool { return version != "$Latest" && version != "$Default" }

// wantedVersions returns the version numbers that a call asks for; all if it names none.
func wantedVersions(t region.LaunchTemplate, wanted []string) ([]int, error) {
	var numbers []int
	for n := range t.Versions {
		if len(wanted) == 0 {
			numbers = append(numbers, n+1)
		}
	}
	for _, v := range wanted {
		n, err := t.Default, error(nil)
		switch v {
		case "$Default":
		case "$Latest":
			n = len(t.Versions)
		default:
			n, err = strconv.Atoi(v)
		}
		if err != nil || n < 1 || n > len(t.Versions) {
			return nil, failure(400, "InvalidLaunchTemplateId.VersionNotFound",
				"Could not find launch template version "+v+" of "+t.Name)
		}
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

func versionOf(t region.LaunchTemplate, n int) (types.LaunchTemplateVersion, error) {
	d := t.Versions[n-1]
	data, err := readBack(d)
	return types.LaunchTemplateVersion{
		LaunchTemplateId: &t.ID, LaunchTemplateName: &t.Name, VersionNumber: new(int64(n)),
		VersionDescription: optional(d.Description), CreateTime: &t.CreatedAt, CreatedBy: &t.CreatedBy,
		DefaultVersion: new(n == t.Default), LaunchTemplateData: data,
	}, err
}

// readBack returns template data as the client wrote it.
func readBack(d region.TemplateData) (*types.ResponseLaunchTemplateData, error) {
	values, x := url.Values{}, &types.ResponseLaunchTemplateData{}
	for k, v := range d.Raw {
		values.Set(k, v)
	}
	err := newParameters(values).decode(reflect.ValueOf(x).Elem())
	x.ImageId, x.InstanceType = optional(d.ImageID), types.InstanceType(d.InstanceType)
	x.UserData = optional(base64.StdEncoding.EncodeToString(d.UserData))
	if len(x.NetworkInterfaces) == 0 && len(d.SecurityGroupIDs) > 0 {
		x.SecurityGroupIds = d.SecurityGroupIDs[:max(len(d.SecurityGroupIDs)-len(x.SecurityGroups), 0)]
	}
	// Earlier releases kept neither the profile nor the tags in Raw.
	if x.IamInstanceProfile == nil && d.InstanceProfile != "" {
		x.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecification{Name: &d.InstanceProfile}
	}
	if x.MetadataOptions != nil {
		x.MetadataOptions.State = types.LaunchTemplateInstanceMetadataOptionsStateApplied
	}
	if x.TagSpecifications != nil {
		return x, err
	}
	for _, kind := range slices.Sorted(maps.Keys(d.Tags)) {
		x.TagSpecifications = append(x.TagSpecifications, types.LaunchTemplateTagSpecification{
			ResourceType: types.ResourceType(kind), Tags: tagsOf(d.Tags[kind]),
		})
	}
	return x, err
}
