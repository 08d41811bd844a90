package awsapi

import (
	"cmp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// Capacity reservations.

var capacityReservations = kind[types.CapacityReservation]{
	key: "CreateDate CapacityReservationId", usual: 1000,
	filters: `instance-type owner-id instance-platform availability-zone tenancy outpost-arn state start-date end-date
		end-date-type instance-match-criteria placement-group-arn tag-key=Tags.Key tag-value=Tags.Value`,
	ids: []naming{{
		"CapacityReservationIds", "CapacityReservationId", "InvalidCapacityReservationId.NotFound",
		"The capacity reservation '%s' does not exist",
	}},
}

func describeCapacityReservations(
	c *call, in *ec2.DescribeCapacityReservationsInput,
) (*ec2.DescribeCapacityReservationsOutput, error) {
	if len(in.CapacityReservationIds) > 0 && in.MaxResults != nil {
		return nil, failure(400, "InvalidParameterCombination",
			"The parameter CapacityReservationIds cannot be used with the parameter MaxResults")
	}
	var all []types.CapacityReservation
	for _, r := range c.region.CapacityReservations() {
		all = append(all, c.reservationOf(r))
	}
	found, next, err := capacityReservations.answer(in, all)
	return &ec2.DescribeCapacityReservationsOutput{CapacityReservations: found, NextToken: next}, err
}

func (c *call) reservationOf(r region.CapacityReservation) types.CapacityReservation {
	x := types.CapacityReservation{
		CapacityReservationId: &r.ID, OwnerId: new(region.AccountID),
		CapacityReservationArn: new("arn:aws:ec2:" + c.region.Name() + ":" + region.AccountID + ":capacity-reservation/" +
			r.ID),
		AvailabilityZone: &r.Zone, AvailabilityZoneId: &r.ZoneID, InstanceType: &r.Type,
		InstancePlatform:   types.CapacityReservationInstancePlatformLinuxUnix,
		Tenancy:            types.CapacityReservationTenancyDefault,
		TotalInstanceCount: new(int32(r.Total)), AvailableInstanceCount: new(int32(r.Available)),
		State: types.CapacityReservationState(r.State), InstanceMatchCriteria: types.InstanceMatchCriteria(r.Match),
		ReservationType: types.CapacityReservationType(r.ReservationType), EndDateType: types.EndDateTypeUnlimited,
		CreateDate: &r.CreatedAt, StartDate: &r.CreatedAt, EbsOptimized: new(false), EphemeralStorage: new(false),
		Interruptible: new(false), Tags: tagsOf(r.Tags),
	}
	if !r.EndAt.IsZero() {
		x.EndDate, x.EndDateType = &r.EndAt, types.EndDateTypeLimited
	}
	return x
}

func createCapacityReservation(
	c *call, in *ec2.CreateCapacityReservationInput,
) (*ec2.CreateCapacityReservationOutput, error) {
	zone := cmp.Or(aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
	err := checkEnd(in.EndDateType, in.EndDate)
	switch {
	case err != nil:
	case zone == "":
		err = missingParameter("AvailabilityZone")
	case in.InstancePlatform != types.CapacityReservationInstancePlatformLinuxUnix:
		err = invalidParameter("InstancePlatform", string(in.InstancePlatform),
			"Linux/UNIX, the one platform of the simulated region")
	case in.Tenancy != "" && in.Tenancy != types.CapacityReservationTenancyDefault:
		err = invalidParameter("Tenancy", string(in.Tenancy), "default, the one tenancy of the simulated region")
	case in.StartDate != nil || in.CommitmentDuration != nil || in.OutpostArn != nil || in.PlacementGroupArn != nil:
		err = failure(400, "InvalidParameterValue", "The simulated region does not serve StartDate, CommitmentDuration, "+
			"OutpostArn and PlacementGroupArn: leave them out.")
	default:
		err = dryRun(in.DryRun)
	}
	if err != nil {
		return nil, err
	}
	r, err := c.region.CreateCapacityReservation(region.CapacityReservationRequest{
		ClientToken: aws.ToString(in.ClientToken), Type: aws.ToString(in.InstanceType), Zone: zone,
		Match: string(in.InstanceMatchCriteria), Count: int(aws.ToInt32(in.InstanceCount)), EndAt: aws.ToTime(in.EndDate),
		Tags: tagsFor(types.ResourceTypeCapacityReservation, in.TagSpecifications),
	})
	if err != nil {
		return nil, err
	}
	return &ec2.CreateCapacityReservationOutput{CapacityReservation: new(c.reservationOf(r))}, nil
}

// checkEnd returns an error if an end date does not match its type.
func checkEnd(kind types.EndDateType, end *time.Time) error {
	switch {
	case kind == types.EndDateTypeLimited && end == nil:
		return missingParameter("EndDate")
	case kind == types.EndDateTypeUnlimited && end != nil:
		return failure(400, "InvalidParameterCombination",
			"The parameter EndDate cannot be used with EndDateType unlimited")
	case kind != "" && kind != types.EndDateTypeLimited && kind != types.EndDateTypeUnlimited:
		return invalidParameter("EndDateType", string(kind), "limited or unlimited")
	}
	return nil
}

func modifyCapacityReservation(
	c *call, in *ec2.ModifyCapacityReservationInput,
) (*ec2.ModifyCapacityReservationOutput, error) {
	err := checkEnd(in.EndDateType, in.EndDate)
	if err == nil && in.InstanceCount != nil && *in.InstanceCount < 1 {
		err = invalidParameter("InstanceCount", "0 or less", "1 to 1000")
	}
	if err == nil {
		err = dryRun(in.DryRun)
	}
	if err != nil {
		return nil, err
	}
	return &ec2.ModifyCapacityReservationOutput{Return: new(true)}, c.region.ModifyCapacityReservation(
		*in.CapacityReservationId, region.CapacityReservationChange{
			Count: int(aws.ToInt32(in.InstanceCount)), EndAt: aws.ToTime(in.EndDate),
			Unlimited: in.EndDateType == types.EndDateTypeUnlimited, Match: string(in.InstanceMatchCriteria),
		})
}

func cancelCapacityReservation(
	c *call, in *ec2.CancelCapacityReservationInput,
) (*ec2.CancelCapacityReservationOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	return &ec2.CancelCapacityReservationOutput{Return: new(true)},
		c.region.CancelCapacityReservation(*in.CapacityReservationId)
}

// marketOf returns the market type in template data, and the maximum price of spot instances in micro-dollars per
// hour; 0 means none.
func marketOf(o *types.LaunchTemplateInstanceMarketOptionsRequest) (market string, spotMax int64, err error) {
	if o == nil || o.MarketType == "" {
		return "", 0, nil
	}
	if o.MarketType != types.MarketTypeSpot && o.MarketType != types.MarketTypeCapacityBlock {
		return "", 0, invalidParameter("InstanceMarketOptions.MarketType", string(o.MarketType), "spot or capacity-block")
	}
	if o.SpotOptions != nil {
		price := aws.ToString(o.SpotOptions.MaxPrice)
		if spotMax, err = microsOf("MaxPrice", price); err != nil {
			return "", 0, invalidParameter("InstanceMarketOptions.SpotOptions.MaxPrice", price, "a price per hour in dollars")
		}
	}
	return string(o.MarketType), spotMax, nil
}

// reservationChoice returns the capacity reservation settings in template data.
func reservationChoice(
	in *types.LaunchTemplateCapacityReservationSpecificationRequest,
) (c region.ReservationChoice, err error) {
	if in == nil {
		return c, nil
	}
	c.Preference = string(in.CapacityReservationPreference)
	if t := in.CapacityReservationTarget; t != nil {
		c.Target = aws.ToString(t.CapacityReservationId)
		if t.CapacityReservationResourceGroupArn != nil {
			return c, failure(400, "InvalidParameterValue", "The simulated region has no resource groups of capacity "+
				"reservations: set CapacityReservationId.")
		}
	}
	switch c.Preference {
	case "", region.PreferOpen, region.PreferNone, region.ReservationsOnly:
	default:
		return c, invalidParameter("CapacityReservationPreference", c.Preference,
			"open, none or capacity-reservations-only")
	}
	if c.Target != "" && c.Preference != "" && c.Preference != region.ReservationsOnly {
		return c, failure(400, "InvalidParameterCombination", "CapacityReservationTarget can be used with "+
			"CapacityReservationPreference only if that is capacity-reservations-only")
	}
	return c, nil
}

// choiceOf is the inverse of reservationChoice; an empty choice means open.
func choiceOf(c region.ReservationChoice) *types.CapacityReservationSpecificationResponse {
	x := &types.CapacityReservationSpecificationResponse{
		CapacityReservationPreference: types.CapacityReservationPreference(c.Preference),
	}
	if c.Target != "" {
		x.CapacityReservationTarget = &types.CapacityReservationTargetResponse{CapacityReservationId: &c.Target}
	} else if c.Preference == "" {
		x.CapacityReservationPreference = types.CapacityReservationPreferenceOpen
	}
	return x
}
