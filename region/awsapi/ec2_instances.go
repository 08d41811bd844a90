package awsapi

import (
	"cmp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

var instanceIDs = []naming{{
	"InstanceIds", "InstanceId", "InvalidInstanceID.NotFound", "The instance ID '%s' does not exist",
}}

var instances = kind[types.Instance]{
	key: "InstanceId", usual: 1000, ids: instanceIDs,
	filters: `instance-id image-id instance-state-code=State.Code instance-state-name=State.Name private-dns-name
		instance-type launch-time availability-zone=Placement.AvailabilityZone
		availability-zone-id=Placement.AvailabilityZoneId tenancy=Placement.Tenancy
		placement-group-name=Placement.GroupName placement-partition-number=Placement.PartitionNumber subnet-id vpc-id
		private-ip-address
		instance.group-id=SecurityGroups.GroupId instance.group-name=SecurityGroups.GroupName architecture
		capacity-reservation-id instance-lifecycle spot-instance-request-id client-token iam-instance-profile.arn
		platform platform-details
		tag-key=Tags.Key tag-value=Tags.Value`,
}

// describeInstances returns each instance in its own reservation.
func describeInstances(c *call, in *ec2.DescribeInstancesInput) (*ec2.DescribeInstancesOutput, error) {
	if len(in.InstanceIds) > 0 && in.MaxResults != nil {
		return nil, failure(400, "InvalidParameterCombination",
			"The parameter instancesSet cannot be used with the parameter maxResults")
	}
	found, next, err := instances.answer(in, c.instances(c.region.Instances()))
	reservations := []types.Reservation{}
	for _, i := range found {
		reservations = append(reservations, types.Reservation{
			ReservationId: new("r-" + idPart(*i.InstanceId)), OwnerId: new(region.AccountID),
			Groups: []types.GroupIdentifier{}, Instances: []types.Instance{i},
		})
	}
	return &ec2.DescribeInstancesOutput{Reservations: reservations, NextToken: next}, err
}

// idPart returns an instance's ID without its prefix; the IDs of the instance's parts are made from it.
func idPart(id string) string { return id[min(2, len(id)):] }

// instances converts instances to EC2's type.
func (c *call) instances(list []region.Instance) []types.Instance {
	profiles, interfaces := map[string]region.InstanceProfile{}, map[string][]region.NetworkInterface{}
	for _, e := range c.region.NetworkInterfaces() {
		interfaces[e.InstanceID] = append(interfaces[e.InstanceID], e)
	}
	groups := c.groupNames()
	for _, p := range c.region.InstanceProfiles("/") {
		profiles[p.Name] = p
	}
	var out []types.Instance
	for _, i := range list {
		x := instanceOf(i)
		x.SecurityGroups = groupIdentifiers(i.SecurityGroups, groups)
		if i.InstanceProfile != "" { // only the name of a deleted profile is known
			p := profiles[i.InstanceProfile]
			x.IamInstanceProfile = &types.IamInstanceProfile{
				Arn: new(iamARN("instance-profile", cmp.Or(p.Path, "/"), i.InstanceProfile)), Id: &p.ID,
			}
		}
		if i.State != region.Terminated { // EC2 does not show the network of a terminated instance
			connect(&x, i, interfaces[i.ID], groups)
		}
		out = append(out, x)
	}
	c.placed(out, list)
	return out
}

func instanceOf(i region.Instance) types.Instance {
	tenancy := types.TenancyDefault
	if i.Dedicated {
		tenancy = types.TenancyDedicated
	}
	x := types.Instance{
		InstanceId: &i.ID, ImageId: &i.ImageID, State: stateOf(i.State), PrivateDnsName: new(""), PublicDnsName: new(""),
		StateTransitionReason: new(""), AmiLaunchIndex: new(int32(0)), ProductCodes: []types.ProductCode{},
		InstanceType: types.InstanceType(i.Type), LaunchTime: &i.LaunchedAt,
		Placement: &types.Placement{
			AvailabilityZone: &i.Zone, AvailabilityZoneId: &i.ZoneID, GroupName: new(""), Tenancy: tenancy,
		},
		Monitoring: &types.Monitoring{State: types.MonitoringStateDisabled}, SourceDestCheck: new(true),
		Architecture:   types.ArchitectureValues(i.Architecture),
		RootDeviceType: types.DeviceTypeEbs, RootDeviceName: new(i.RootDevice()),
		BlockDeviceMappings: []types.InstanceBlockDeviceMapping{}, VirtualizationType: types.VirtualizationTypeHvm,
		SpotInstanceRequestId: optional(i.SpotRequestID), ClientToken: &i.ClientToken, Tags: tagsOf(i.Tags),
		Hypervisor: types.HypervisorTypeXen, NetworkInterfaces: []types.InstanceNetworkInterface{},
		EbsOptimized: new(false), EnaSupport: new(true), Platform: platformOf(i.Windows),
		PlatformDetails: platformDetails(i.Windows),
	}
	switch i.CapacityType {
	case region.Spot:
		x.InstanceLifecycle = types.InstanceLifecycleTypeSpot
	case region.CapacityBlock:
		x.InstanceLifecycle = types.InstanceLifecycleTypeCapacityBlock
	}
	x.CapacityReservationId, x.CapacityReservationSpecification = optional(i.ReservationID), choiceOf(i.Reservation)
	if i.ReasonCode != "" {
		x.StateReason = &types.StateReason{Code: &i.ReasonCode, Message: &i.ReasonMessage}
	}
	if i.Monitoring {
		x.Monitoring.State = types.MonitoringStateEnabled
	}
	return x
}

func stateOf(s region.State) *types.InstanceState {
	return &types.InstanceState{Code: new(int32(s.Code())), Name: types.InstanceStateName(s)}
}

// connect adds the network interfaces and the volumes of an instance. groups are the names of security groups by ID.
func connect(x *types.Instance, i region.Instance, own []region.NetworkInterface, groups map[string]string) {
	ip := new(i.PrivateIP.String())
	x.PrivateDnsName, x.SubnetId, x.VpcId, x.PrivateIpAddress = &i.PrivateDNS, &i.SubnetID, new(region.VPCID), ip
	for _, d := range i.Devices {
		x.BlockDeviceMappings = append(x.BlockDeviceMappings, types.InstanceBlockDeviceMapping{
			DeviceName: &d.Name, Ebs: &types.EbsInstanceBlockDevice{
				VolumeId: &d.VolumeID, Status: types.AttachmentStatusAttached, AttachTime: &i.LaunchedAt,
				DeleteOnTermination: new(!d.Keep),
			},
		})
	}
	for _, e := range own {
		x.NetworkInterfaces = append(x.NetworkInterfaces, instanceInterface(&e, i, groups))
	}
}

var instanceStatuses = kind[types.InstanceStatus]{
	key: "InstanceId", usual: 1000, ids: instanceIDs,
	filters: `availability-zone event.code=Events.Code instance-state-code=InstanceState.Code
		instance-state-name=InstanceState.Name system-status.status system-status.reachability=SystemStatus.Details.Status
		instance-status.status instance-status.reachability=InstanceStatus.Details.Status attached-ebs-status.status
		attached-ebs-status.reachability=AttachedEbsStatus.Details.Status`,
}

// describeInstanceStatus returns running instances only, unless the call asks for all.
func describeInstanceStatus(
	c *call, in *ec2.DescribeInstanceStatusInput,
) (*ec2.DescribeInstanceStatusOutput, error) {
	var all []types.InstanceStatus
	for _, i := range c.region.Instances() {
		x := types.InstanceStatus{
			InstanceId: &i.ID, AvailabilityZone: &i.Zone, AvailabilityZoneId: &i.ZoneID, InstanceState: stateOf(i.State),
			SystemStatus: checkSince(i.Impairment.SystemSince), InstanceStatus: checkSince(i.Impairment.InstanceSince),
			AttachedEbsStatus: new(copyOf[types.EbsStatusSummary](checkSince(time.Time{}))),
			Events:            []types.InstanceStatusEvent{},
		}
		if i.Impairment.Event != "" {
			x.Events = append(x.Events, types.InstanceStatusEvent{
				InstanceEventId: new("instance-event-" + idPart(i.ID)), Code: types.EventCode(i.Impairment.Event),
				Description: new("The instance is scheduled for maintenance"), NotBefore: &i.Impairment.EventAt,
			})
		}
		all = append(all, x)
	}
	found, err := instanceStatuses.choose(in, all)
	if err != nil {
		return nil, err
	}
	if !aws.ToBool(in.IncludeAllInstances) {
		found = slices.DeleteFunc(found, func(s types.InstanceStatus) bool {
			return s.InstanceState.Name != types.InstanceStateNameRunning
		})
	}
	found, next, err := instanceStatuses.page(in, found)
	return &ec2.DescribeInstanceStatusOutput{InstanceStatuses: found, NextToken: next}, err
}

// checkSince returns the summary of a status check that has failed since a time; zero means that it passes.
func checkSince(since time.Time) *types.InstanceStatusSummary {
	if since.IsZero() {
		return &types.InstanceStatusSummary{Status: types.SummaryStatusOk, Details: []types.InstanceStatusDetails{{
			Name: types.StatusNameReachability, Status: types.StatusTypePassed,
		}}}
	}
	return &types.InstanceStatusSummary{Status: types.SummaryStatusImpaired, Details: []types.InstanceStatusDetails{{
		Name: types.StatusNameReachability, Status: types.StatusTypeFailed, ImpairedSince: &since,
	}}}
}

func terminateInstances(c *call, in *ec2.TerminateInstancesInput) (*ec2.TerminateInstancesOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	changes, err := c.region.TerminateInstances(in.InstanceIds)
	out := &ec2.TerminateInstancesOutput{TerminatingInstances: []types.InstanceStateChange{}}
	for _, s := range changes {
		out.TerminatingInstances = append(out.TerminatingInstances, types.InstanceStateChange{
			InstanceId: &s.ID, CurrentState: stateOf(s.Current), PreviousState: stateOf(s.Previous),
		})
	}
	return out, err
}
