package awsapi

import (
	"cmp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// dryRun ends a dry run, after the parameters have been checked.
func dryRun(requested *bool) error {
	if aws.ToBool(requested) {
		return failure(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	return nil
}

func createFleet(c *call, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
	q, err := fleetRequest(in)
	if err == nil {
		err = dryRun(in.DryRun)
	}
	if err != nil {
		return nil, err
	}
	a := authorizer{c}
	if err := a.allowed(a.fleetLaunchAccess(in)...); err != nil {
		return deniedFleet(err)
	}
	result, err := c.region.CreateFleet(q)
	out := &ec2.CreateFleetOutput{
		FleetId: &result.FleetID, Errors: []types.CreateFleetError{}, Instances: []types.CreateFleetInstance{},
	}
	for _, e := range result.Errors {
		out.Errors = append(out.Errors, types.CreateFleetError{
			LaunchTemplateAndOverrides: overrideOf(e.Override), Lifecycle: types.InstanceLifecycle(e.CapacityType),
			ErrorCode: &e.Code, ErrorMessage: &e.Message,
		})
	}
	for _, l := range result.Launched {
		out.Instances = append(out.Instances, types.CreateFleetInstance{
			LaunchTemplateAndOverrides: overrideOf(l.Override), Lifecycle: types.InstanceLifecycle(l.CapacityType),
			InstanceIds: l.IDs, InstanceType: types.InstanceType(l.Override.InstanceType),
		})
	}
	return out, err
}

// deniedFleet returns the response if the caller may not launch the fleet's instances: the fleet is created, but
// empty.
func deniedFleet(err error) (*ec2.CreateFleetOutput, error) {
	e, ok := asAPIError(err)
	if !ok {
		return nil, err
	}
	return &ec2.CreateFleetOutput{
		FleetId: new("fleet-" + newRequestID()), Instances: []types.CreateFleetInstance{},
		Errors: []types.CreateFleetError{{ErrorCode: &e.Code, ErrorMessage: &e.Message}},
	}, nil
}

func overrideOf(o region.Override) *types.LaunchTemplateAndOverridesResponse {
	x := &types.LaunchTemplateAndOverridesResponse{
		LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecification{
			LaunchTemplateId: optional(o.TemplateID), Version: optional(o.TemplateVersion),
		},
		Overrides: &types.FleetLaunchTemplateOverrides{
			InstanceType: types.InstanceType(o.InstanceType), SubnetId: optional(o.SubnetID),
			AvailabilityZone: optional(o.Zone), ImageId: optional(o.ImageID),
		},
	}
	if o.Priority != region.NoPriority {
		x.Overrides.Priority = &o.Priority
	}
	return x
}

// fleetRequest converts CreateFleet. A configuration without overrides launches its template unchanged.
func fleetRequest(in *ec2.CreateFleetInput) (region.FleetRequest, error) {
	target, onDemand, spot := in.TargetCapacitySpecification, in.OnDemandOptions, in.SpotOptions
	q := region.FleetRequest{
		ClientToken: aws.ToString(in.ClientToken), Total: int(aws.ToInt32(target.TotalTargetCapacity)),
		CapacityType: cmp.Or(string(target.DefaultTargetCapacityType), region.OnDemand),
		InstanceTags: tagsFor(types.ResourceTypeInstance, in.TagSpecifications),
		FleetTags:    tagsFor(types.ResourceTypeFleet, in.TagSpecifications),
	}
	switch {
	case in.Type != types.FleetTypeInstant:
		return q, invalidParameter("Type", string(in.Type), "instant, the one type of fleet the simulated region serves")
	case q.CapacityType == region.Spot && spot != nil:
		q.Strategy = string(spot.AllocationStrategy)
	case q.CapacityType != region.Spot && onDemand != nil:
		q.Strategy = string(onDemand.AllocationStrategy)
	}
	if err := refuseUnserved(in); err != nil {
		return q, err
	}
	for _, config := range in.LaunchTemplateConfigs {
		overrides := config.Overrides
		if len(overrides) == 0 {
			overrides = []types.FleetLaunchTemplateOverridesRequest{{}}
		}
		template := cmp.Or(config.LaunchTemplateSpecification, &types.FleetLaunchTemplateSpecificationRequest{})
		for _, o := range overrides {
			q.Overrides = append(q.Overrides, region.Override{
				TemplateID: aws.ToString(template.LaunchTemplateId), TemplateName: aws.ToString(template.LaunchTemplateName),
				TemplateVersion: aws.ToString(template.Version), InstanceType: string(o.InstanceType),
				SubnetID: aws.ToString(o.SubnetId), ImageID: aws.ToString(o.ImageId),
				Zone:     cmp.Or(aws.ToString(o.AvailabilityZone), aws.ToString(o.AvailabilityZoneId)),
				Priority: *cmp.Or(o.Priority, new(region.NoPriority)),
			})
		}
	}
	return q, nil
}

// refuseUnserved returns an error if a fleet has settings that would be ignored.
func refuseUnserved(in *ec2.CreateFleetInput) error {
	target, onDemand, spot := in.TargetCapacitySpecification, in.OnDemandOptions, in.SpotOptions
	total, isSpot := aws.ToInt32(target.TotalTargetCapacity), target.DefaultTargetCapacityType == region.Spot
	if isSpot || onDemand == nil {
		onDemand = &types.OnDemandOptionsRequest{}
	}
	if !isSpot || spot == nil {
		spot = &types.SpotOptionsRequest{}
	}
	onDemands, spots := aws.ToInt32(target.OnDemandTargetCapacity), aws.ToInt32(target.SpotTargetCapacity)
	set := map[string]bool{
		"MinTargetCapacity":      aws.ToInt32(onDemand.MinTargetCapacity) != 0 || aws.ToInt32(spot.MinTargetCapacity) != 0,
		"SingleInstanceType":     aws.ToBool(onDemand.SingleInstanceType) || aws.ToBool(spot.SingleInstanceType),
		"SingleAvailabilityZone": aws.ToBool(onDemand.SingleAvailabilityZone) || aws.ToBool(spot.SingleAvailabilityZone),
		"MaxTotalPrice":          onDemand.MaxTotalPrice != nil || spot.MaxTotalPrice != nil,
		// What is all of the fleet says no more than the default type does.
		"OnDemandTargetCapacity": onDemands != 0 && (isSpot || onDemands != total),
		"SpotTargetCapacity":     spots != 0 && (!isSpot || spots != total),
	}
	for _, config := range in.LaunchTemplateConfigs {
		for i := range config.Overrides {
			noteUnserved(set, &config.Overrides[i])
		}
	}
	if name := firstSet(set); name != "" {
		return failure(400, "InvalidParameterValue", "The simulated region does not serve "+name+" of fleets: leave it out.")
	}
	return nil
}

// noteUnserved notes the settings of an override that would be ignored.
func noteUnserved(set map[string]bool, o *types.FleetLaunchTemplateOverridesRequest) {
	for name, is := range map[string]bool{
		"WeightedCapacity": o.WeightedCapacity != nil && *o.WeightedCapacity != 1, "MaxPrice": o.MaxPrice != nil,
		"BlockDeviceMappings":  o.BlockDeviceMappings != nil,
		"InstanceRequirements": o.InstanceRequirements != nil,
	} {
		set[name] = set[name] || is
	}
}

// runInstances reads the request's data like a template's; unset fields come from the template that it names.
func runInstances(c *call, in *ec2.RunInstancesInput) (*ec2.RunInstancesOutput, error) {
	data, err := templateData(copyOf[types.RequestLaunchTemplateData](in))
	if err == nil {
		err = limitUserData(data.UserData, "InvalidParameterValue")
	}
	if err != nil {
		return nil, err
	}
	if in.PrivateIpAddress != nil || len(in.Ipv6Addresses) > 0 || aws.ToInt32(in.Ipv6AddressCount) > 0 {
		data.Unserved = "PrivateIpAddress and Ipv6Addresses"
	}
	template := cmp.Or(in.LaunchTemplate, &types.LaunchTemplateSpecification{})
	q := region.RunRequest{
		ClientToken: aws.ToString(in.ClientToken), Data: data,
		Min: int(aws.ToInt32(in.MinCount)), Max: int(aws.ToInt32(in.MaxCount)),
		Tags: tagsFor(types.ResourceTypeInstance, in.TagSpecifications), DryRun: aws.ToBool(in.DryRun),
		Override: region.Override{
			TemplateID: aws.ToString(template.LaunchTemplateId), TemplateName: aws.ToString(template.LaunchTemplateName),
			TemplateVersion: aws.ToString(template.Version), InstanceType: string(in.InstanceType),
			SubnetID: cmp.Or(aws.ToString(in.SubnetId), data.SubnetID), ImageID: aws.ToString(in.ImageId), Zone: data.Zone,
		},
	}
	launched, err := c.region.RunInstances(q)
	if err == nil {
		err = dryRun(in.DryRun)
	}
	if err != nil || len(launched) == 0 {
		return nil, cmp.Or(err, error(failure(500, "InternalError", "No instance of this client token is left")))
	}
	return &ec2.RunInstancesOutput{
		ReservationId: new("r-" + idPart(launched[0].ID)), OwnerId: new(region.AccountID),
		Groups: []types.GroupIdentifier{}, Instances: c.instances(launched),
	}, nil
}
