package awsapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// setLaunch sets what a group launches: a launch configuration, a template or a policy, replacing what was set
// before.
func setLaunch(s *region.GroupSettings, in *autoscaling.UpdateAutoScalingGroupInput) error {
	given := 0
	var l region.GroupLaunch
	if in.LaunchConfigurationName != nil {
		l.Configuration, given = *in.LaunchConfigurationName, given+1
	}
	if in.LaunchTemplate != nil {
		l.Template, given = refOf(in.LaunchTemplate), given+1
	}
	if in.MixedInstancesPolicy != nil {
		mixed, err := mixedOf(in.MixedInstancesPolicy, s.Launch.Mixed)
		if err != nil {
			return err
		}
		l.Mixed, given = mixed, given+1
	}
	if given == 0 {
		return nil // the region rejects a new group without any
	}
	if given > 1 {
		return failure(400, "ValidationError", "Valid requests must contain either launchTemplate, LaunchConfigurationName "+
			"or MixedInstancesPolicy parameter.")
	}
	s.Launch = l
	return nil
}

func refOf(t *types.LaunchTemplateSpecification) region.TemplateRef {
	if t == nil {
		return region.TemplateRef{}
	}
	return region.TemplateRef{
		ID: aws.ToString(t.LaunchTemplateId), Name: aws.ToString(t.LaunchTemplateName), Version: aws.ToString(t.Version),
	}
}

func templateRef(r region.TemplateRef) *types.LaunchTemplateSpecification {
	if r == (region.TemplateRef{}) {
		return nil
	}
	return &types.LaunchTemplateSpecification{
		LaunchTemplateId: optional(r.ID), LaunchTemplateName: optional(r.Name), Version: optional(r.Version),
	}
}

// mixedOf converts a mixed instances policy. Fields that it leaves unset keep their values from before.
func mixedOf(in *types.MixedInstancesPolicy, before *region.MixedInstances) (*region.MixedInstances, error) {
	m := region.MixedInstances{OnDemandPercentage: 100, SpotPools: 2}
	if before != nil {
		m = *before
	}
	byAttributes := false
	if t := in.LaunchTemplate; t != nil {
		if t.LaunchTemplateSpecification != nil {
			m.Template = refOf(t.LaunchTemplateSpecification)
		}
		if t.Overrides != nil {
			m.Overrides = nil
		}
		for _, o := range t.Overrides {
			weight, err := strconv.Atoi(cmp.Or(aws.ToString(o.WeightedCapacity), "0"))
			if err != nil {
				return nil, failure(400, "ValidationError", "WeightedCapacity must be between 1 and 999")
			}
			m.Overrides = append(m.Overrides, region.GroupOverride{
				InstanceType: aws.ToString(o.InstanceType), Weight: weight, Template: refOf(o.LaunchTemplateSpecification),
				ImageID:      aws.ToString(o.ImageId),
				Requirements: requirementsOf(asEC2(o.InstanceRequirements)),
			})
		}
	}
	for _, o := range m.Overrides {
		byAttributes = byAttributes || o.Requirements != nil
	}
	if err := distribute(&m, in.InstancesDistribution); err != nil {
		return nil, err
	}
	if byAttributes { // defaults of attribute-based selection
		m.OnDemandStrategy = cmp.Or(m.OnDemandStrategy, region.LowestPrice)
		m.SpotStrategy = cmp.Or(m.SpotStrategy, region.PriceCapacityOptimized)
	}
	m.OnDemandStrategy = cmp.Or(m.OnDemandStrategy, region.Prioritized)
	m.SpotStrategy = cmp.Or(m.SpotStrategy, region.LowestPrice)
	return &m, nil
}

// distribute applies the shares and strategies of a policy.
func distribute(m *region.MixedInstances, d *types.InstancesDistribution) error {
	if d == nil {
		return nil
	}
	setNumber(&m.OnDemandBase, d.OnDemandBaseCapacity)
	setNumber(&m.OnDemandPercentage, d.OnDemandPercentageAboveBaseCapacity)
	setNumber(&m.SpotPools, d.SpotInstancePools)
	m.OnDemandStrategy = cmp.Or(aws.ToString(d.OnDemandAllocationStrategy), m.OnDemandStrategy)
	m.SpotStrategy = cmp.Or(aws.ToString(d.SpotAllocationStrategy), m.SpotStrategy)
	var err error
	if d.SpotMaxPrice != nil {
		m.SpotMaxPriceMicros, err = microsOf("SpotMaxPrice", *d.SpotMaxPrice)
	}
	return err
}

// microsOf parses an hourly price in dollars; "" means none.
func microsOf(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	price, err := strconv.ParseFloat(text, 64)
	if err != nil || !(price > 0 && price < 1000) {
		return 0, failure(400, "ValidationError", fmt.Sprintf("%s '%s' is not a price per hour in dollars", field, text))
	}
	return int64(math.Round(price * 1e6)), nil
}

func dollarsOf(micros int64) *string {
	if micros == 0 {
		return nil
	}
	return new(strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64))
}

// policyOf converts a mixed instances policy to the API's type.
func policyOf(m *region.MixedInstances) *types.MixedInstancesPolicy {
	if m == nil {
		return nil
	}
	template := &types.LaunchTemplate{
		LaunchTemplateSpecification: templateRef(m.Template), Overrides: []types.LaunchTemplateOverrides{},
	}
	for _, o := range m.Overrides {
		x := types.LaunchTemplateOverrides{
			InstanceType: optional(o.InstanceType), LaunchTemplateSpecification: templateRef(o.Template),
			ImageId: optional(o.ImageID), InstanceRequirements: requirementsBack(o.Requirements),
		}
		if o.Weight > 0 {
			x.WeightedCapacity = new(strconv.Itoa(o.Weight))
		}
		template.Overrides = append(template.Overrides, x)
	}
	d := &types.InstancesDistribution{
		OnDemandAllocationStrategy: &m.OnDemandStrategy, OnDemandBaseCapacity: number32(m.OnDemandBase),
		OnDemandPercentageAboveBaseCapacity: number32(m.OnDemandPercentage), SpotAllocationStrategy: &m.SpotStrategy,
		SpotMaxPrice: dollarsOf(m.SpotMaxPriceMicros),
	}
	if m.SpotStrategy == region.LowestPrice {
		d.SpotInstancePools = number32(m.SpotPools)
	}
	return &types.MixedInstancesPolicy{LaunchTemplate: template, InstancesDistribution: d}
}

// asEC2 converts requirements to EC2's type, which has the same fields.
func asEC2(r *types.InstanceRequirements) *ec2types.InstanceRequirementsRequest {
	if r == nil {
		return nil
	}
	return new(copyOf[ec2types.InstanceRequirementsRequest](r))
}

// span is a range in the SDK, of integers or floats.
type span struct{ Min, Max *float64 }

// rangeOf converts a range of the SDK.
func rangeOf(from any) region.Range {
	if v := reflect.ValueOf(from); v.IsNil() {
		return region.Range{}
	}
	s := copyOf[span](from)
	return region.Range{
		Min: aws.ToFloat64(s.Min), Max: aws.ToFloat64(s.Max), None: s.Max != nil && *s.Max == 0,
	}
}

func textsOf[T ~string](list []T) []string {
	var out []string
	for _, x := range list {
		out = append(out, string(x))
	}
	return out
}

// requirementsOf converts the requirements of attribute-based selection.
func requirementsOf(r *ec2types.InstanceRequirementsRequest) *region.InstanceRequirements {
	if r == nil {
		return nil
	}
	out := &region.InstanceRequirements{
		VCPUs: rangeOf(r.VCpuCount), MemoryMiB: rangeOf(r.MemoryMiB), MemoryGiBPerVCPU: rangeOf(r.MemoryGiBPerVCpu),
		NetworkInterfaces: rangeOf(r.NetworkInterfaceCount), LocalStorageGB: rangeOf(r.TotalLocalStorageGB),
		EBSMbps: rangeOf(r.BaselineEbsBandwidthMbps), NetworkGbps: rangeOf(r.NetworkBandwidthGbps),
		AcceleratorMiB:   rangeOf(r.AcceleratorTotalMemoryMiB),
		AcceleratorTypes: textsOf(r.AcceleratorTypes), AcceleratorManufacturers: textsOf(r.AcceleratorManufacturers),
		AcceleratorNames: textsOf(r.AcceleratorNames), CPUManufacturers: textsOf(r.CpuManufacturers),
		Generations: textsOf(r.InstanceGenerations), Allowed: r.AllowedInstanceTypes, Excluded: r.ExcludedInstanceTypes,
		BareMetal: string(r.BareMetal), Burstable: string(r.BurstablePerformance), LocalStorage: string(r.LocalStorage),
		LocalStorageTypes: textsOf(r.LocalStorageTypes),
	}
	if r.AcceleratorCount != nil {
		out.Accelerators = new(rangeOf(r.AcceleratorCount))
	}
	out.Written = copyOf[json.RawMessage](r)
	if p := r.OnDemandMaxPricePercentageOverLowestPrice; p != nil {
		out.OnDemandOver = new(int(*p))
	}
	if p := r.SpotMaxPricePercentageOverLowestPrice; p != nil {
		out.SpotOver = new(int(*p))
	}
	return out
}

// requirementsBack returns requirements as the client wrote them.
func requirementsBack(r *region.InstanceRequirements) *types.InstanceRequirements {
	if r == nil {
		return nil
	}
	return new(copyOf[types.InstanceRequirements](r.Written))
}

func getInstanceTypesFromInstanceRequirements(
	c *call, in *ec2.GetInstanceTypesFromInstanceRequirementsInput,
) (*ec2.GetInstanceTypesFromInstanceRequirementsOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	names := []string{}
	if slices.Contains(in.VirtualizationTypes, ec2types.VirtualizationTypeHvm) {
		names = c.region.InstanceTypesMatching(*requirementsOf(in.InstanceRequirements), textsOf(in.ArchitectureTypes)...)
	}
	list, next, err := page(names, in.MaxResults, 1000, in.NextToken, func(s string) string { return s })
	out := &ec2.GetInstanceTypesFromInstanceRequirementsOutput{
		InstanceTypes: []ec2types.InstanceTypeInfoFromInstanceRequirements{}, NextToken: next,
	}
	for _, name := range list {
		out.InstanceTypes = append(out.InstanceTypes, ec2types.InstanceTypeInfoFromInstanceRequirements{InstanceType: &name})
	}
	return out, err
}

func createLaunchConfiguration(
	c *call, in *autoscaling.CreateLaunchConfigurationInput,
) (*autoscaling.CreateLaunchConfigurationOutput, error) {
	data := ec2types.RequestLaunchTemplateData{
		ImageId: in.ImageId, InstanceType: ec2types.InstanceType(aws.ToString(in.InstanceType)), UserData: in.UserData,
		SecurityGroupIds: in.SecurityGroups, Monitoring: &ec2types.LaunchTemplatesMonitoringRequest{Enabled: new(true)},
	}
	if in.InstanceMonitoring != nil {
		data.Monitoring.Enabled = in.InstanceMonitoring.Enabled
	}
	if p := in.IamInstanceProfile; p != nil {
		data.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: p}
	}
	if t := in.PlacementTenancy; t != nil {
		data.Placement = &ec2types.LaunchTemplatePlacementRequest{Tenancy: ec2types.Tenancy(*t)}
	}
	for _, m := range in.BlockDeviceMappings {
		x := ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName}
		if m.Ebs != nil {
			x.Ebs = new(copyOf[ec2types.LaunchTemplateEbsBlockDeviceRequest](m.Ebs))
		}
		data.BlockDeviceMappings = append(data.BlockDeviceMappings, x)
	}
	want := region.LaunchConfiguration{Name: aws.ToString(in.LaunchConfigurationName)}
	var err error
	want.Data, err = templateData(data)
	if err == nil {
		err = limitUserData(want.Data.UserData, "InvalidParameterValue")
	}
	if err != nil {
		return nil, err
	}
	if in.SpotPrice != nil {
		if want.SpotMaxMicros, err = microsOf("SpotPrice", *in.SpotPrice); err != nil {
			return nil, err
		}
	}
	want.Data.Raw = c.parameters.rest(nil)
	return &autoscaling.CreateLaunchConfigurationOutput{}, c.region.CreateLaunchConfiguration(want)
}

func describeLaunchConfigurations(
	c *call, in *autoscaling.DescribeLaunchConfigurationsInput,
) (*autoscaling.DescribeLaunchConfigurationsOutput, error) {
	var found []types.LaunchConfiguration
	for _, l := range c.region.LaunchConfigurations() {
		if len(in.LaunchConfigurationNames) > 0 && !slices.Contains(in.LaunchConfigurationNames, l.Name) {
			continue
		}
		values := url.Values{}
		for k, v := range l.Data.Raw {
			values.Set(k, v)
		}
		x := types.LaunchConfiguration{}
		if err := newParameters(values).decode(reflect.ValueOf(&x).Elem()); err != nil {
			return nil, err
		}
		x.LaunchConfigurationName, x.LaunchConfigurationARN, x.CreatedTime = &l.Name, &l.ARN, &l.CreatedAt
		found = append(found, x)
	}
	list, next, err := scalingPage(found, in.MaxRecords, in.NextToken,
		func(l types.LaunchConfiguration) string { return *l.LaunchConfigurationName })
	return &autoscaling.DescribeLaunchConfigurationsOutput{LaunchConfigurations: list, NextToken: next}, err
}

func deleteLaunchConfiguration(
	c *call, in *autoscaling.DeleteLaunchConfigurationInput,
) (*autoscaling.DeleteLaunchConfigurationOutput, error) {
	return &autoscaling.DeleteLaunchConfigurationOutput{},
		c.region.DeleteLaunchConfiguration(aws.ToString(in.LaunchConfigurationName))
}
