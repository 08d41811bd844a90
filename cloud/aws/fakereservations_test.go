package aws

import (
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// reserve adds a targeted reservation of m5.large in the first zone.
func (a *fakeAccount) reserve(id string, free int32, change ...func(*ec2types.CapacityReservation)) {
	r := &ec2types.CapacityReservation{
		CapacityReservationId: &id, InstanceType: awssdk.String("m5.large"), AvailabilityZone: &fakeZones[0],
		OwnerId: awssdk.String("123456789012"), State: ec2types.CapacityReservationStateActive,
		InstanceMatchCriteria: ec2types.InstanceMatchCriteriaTargeted, TotalInstanceCount: &free,
		AvailableInstanceCount: awssdk.Int32(free), Tags: discovery(),
	}
	for _, c := range change {
		c(r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved = append(a.reserved, r)
}

func (a *fakeAccount) reservation(id *string) *ec2types.CapacityReservation {
	i := slices.IndexFunc(a.reserved, func(r *ec2types.CapacityReservation) bool {
		return *r.CapacityReservationId == awssdk.ToString(id)
	})
	if i < 0 {
		return nil
	}
	return a.reserved[i]
}

func (a *fakeAccount) describeReservations(
	in *ec2.DescribeCapacityReservationsInput,
) (*ec2.DescribeCapacityReservationsOutput, error) {
	for _, id := range in.CapacityReservationIds {
		if a.reservation(&id) == nil {
			return nil, apiError(codeReservationMissing, id)
		}
	}
	out := &ec2.DescribeCapacityReservationsOutput{}
	for _, r := range a.reserved {
		fields := map[string]string{
			"state": string(r.State), "owner-id": *r.OwnerId, "instance-match-criteria": string(r.InstanceMatchCriteria),
		}
		named := len(in.CapacityReservationIds) == 0 || slices.Contains(in.CapacityReservationIds, *r.CapacityReservationId)
		if named && matchAll(in.Filters, fields, r.Tags) {
			out.CapacityReservations = append(out.CapacityReservations, *r)
		}
	}
	return out, nil
}

// reservationRefuses returns why the reservation of a template accepts no instance; "" if it does, or there is none.
func (a *fakeAccount) reservationRefuses(
	data *ec2types.RequestLaunchTemplateData, o ec2types.FleetLaunchTemplateOverridesRequest,
) string {
	s := data.CapacityReservationSpecification
	if s == nil || s.CapacityReservationTarget == nil {
		return ""
	}
	r := a.reservation(s.CapacityReservationTarget.CapacityReservationId)
	switch {
	case r == nil:
		return codeReservationMissing
	case *r.AvailableInstanceCount == 0 || *r.InstanceType != string(o.InstanceType) ||
		*r.AvailabilityZone != *o.AvailabilityZone:
		return "ReservationCapacityExceeded"
	}
	return ""
}

// runReserved runs an instance in the reservation of its template, if there is one.
func (a *fakeAccount) runReserved(i *ec2types.Instance, data *ec2types.RequestLaunchTemplateData) {
	s := data.CapacityReservationSpecification
	if s == nil || s.CapacityReservationTarget == nil {
		return
	}
	r := a.reservation(s.CapacityReservationTarget.CapacityReservationId)
	*r.AvailableInstanceCount--
	i.CapacityReservationId = r.CapacityReservationId
	i.CapacityReservationSpecification = &ec2types.CapacityReservationSpecificationResponse{
		CapacityReservationPreference: s.CapacityReservationPreference,
		CapacityReservationTarget: &ec2types.CapacityReservationTargetResponse{
			CapacityReservationId: r.CapacityReservationId,
		},
	}
	if m := data.InstanceMarketOptions; m != nil {
		i.InstanceLifecycle = ec2types.InstanceLifecycleType(m.MarketType)
	}
}
