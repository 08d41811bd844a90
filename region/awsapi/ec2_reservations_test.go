package awsapi

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// reserve reserves m5.large in the first subnet's zone.
func (b buyer) reserve(t *testing.T, count int32, change ...func(*ec2.CreateCapacityReservationInput)) string {
	t.Helper()
	in := &ec2.CreateCapacityReservationInput{
		InstanceType: aws.String("m5.large"), InstancePlatform: ec2types.CapacityReservationInstancePlatformLinuxUnix,
		InstanceCount: aws.Int32(count), AvailabilityZone: aws.String(b.region.Subnets()[0].Zone),
		InstanceMatchCriteria: ec2types.InstanceMatchCriteriaTargeted,
		TagSpecifications:     []ec2types.TagSpecification{{ResourceType: "capacity-reservation", Tags: tags("team", "web")}},
	}
	for _, c := range change {
		c(in)
	}
	out, err := b.CreateCapacityReservation(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return *out.CapacityReservation.CapacityReservationId
}

// targeting returns a fleet request whose template targets a reservation.
func (b buyer) targeting(t *testing.T, id, token string) *ec2.CreateFleetInput {
	t.Helper()
	_, err := b.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("reserved-" + token), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String(b.image),
			CapacityReservationSpecification: &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
				CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
				CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: &id},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := b.fleet(token, "m5.large")
	in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = aws.String("reserved-" + token)
	return in
}

// reservations lists reservations that match filters, given as names and values.
func (b buyer) reservations(t *testing.T, filters ...string) []ec2types.CapacityReservation {
	t.Helper()
	in := &ec2.DescribeCapacityReservationsInput{MaxResults: aws.Int32(1000)}
	for i := 0; i < len(filters); i += 2 {
		in.Filters = append(in.Filters, ec2types.Filter{Name: &filters[i], Values: filters[i+1 : i+2]})
	}
	out, err := b.DescribeCapacityReservations(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.CapacityReservations
}

func TestAReservationIsCreatedFilledAndFreed(t *testing.T) {
	b := newBuyer(t)
	id := b.reserve(t, 1)
	first := b.buy(t, b.targeting(t, id, "claim-1"))
	b.clock.Advance(time.Minute)
	i := b.claimed(t, "claim-1")
	if aws.ToString(i.CapacityReservationId) != id || i.InstanceLifecycle != "" ||
		i.CapacityReservationSpecification.CapacityReservationPreference != "capacity-reservations-only" ||
		*i.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId != id {
		t.Errorf("instance %+v", i)
	}
	out, err := b.CreateFleet(t.Context(), b.targeting(t, id, "claim-2"))
	if err != nil || len(out.Instances) != 0 || len(out.Errors) != 1 ||
		*out.Errors[0].ErrorCode != "ReservationCapacityExceeded" {
		t.Fatalf("into a full reservation: %+v, %v", out, err)
	}
	if r := b.reservations(t)[0]; *r.TotalInstanceCount != 1 || *r.AvailableInstanceCount != 0 {
		t.Errorf("%d of %d available", *r.AvailableInstanceCount, *r.TotalInstanceCount)
	}
	if _, err := b.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{first}}); err != nil {
		t.Fatal(err)
	}
	if r := b.reservations(t)[0]; *r.AvailableInstanceCount != 1 {
		t.Errorf("%d available after the termination", *r.AvailableInstanceCount)
	}
	b.buy(t, b.targeting(t, id, "claim-3"))
}

func TestReservationsAreFoundByWhatTheyAre(t *testing.T) {
	b := newBuyer(t)
	end := b.region.Now().Add(time.Hour).Truncate(time.Second)
	open := b.reserve(t, 2, func(in *ec2.CreateCapacityReservationInput) {
		in.InstanceMatchCriteria, in.TagSpecifications = "", nil
		in.EndDateType, in.EndDate = "limited", &end
	})
	targeted := b.reserve(t, 1)
	zone := b.region.Subnets()[0].Zone
	for want, filters := range map[string][]string{
		open:     {"instance-match-criteria", "open", "availability-zone", zone, "state", "active"},
		targeted: {"tag:team", "web", "owner-id", "123456789012", "instance-type", "m5.large", "tag-key", "team"},
	} {
		if got := b.reservations(t, filters...); len(got) != 1 || *got[0].CapacityReservationId != want {
			t.Errorf("%v: %+v", filters, got)
		}
	}
	r := b.reservations(t, "end-date-type", "limited")[0]
	if !r.EndDate.Equal(end) || r.ReservationType != "default" || *r.AvailabilityZoneId != b.region.Subnets()[0].ZoneID ||
		*r.CapacityReservationArn != "arn:aws:ec2:us-west-2:123456789012:capacity-reservation/"+open {
		t.Errorf("reservation %+v", r)
	}
	_, err := b.DescribeCapacityReservations(t.Context(),
		&ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{"cr-0"}})
	wantCode(t, err, "InvalidCapacityReservationId.NotFound")
	if _, err := b.ModifyCapacityReservation(t.Context(), &ec2.ModifyCapacityReservationInput{
		CapacityReservationId: &open, EndDateType: "unlimited", InstanceCount: aws.Int32(5),
	}); err != nil {
		t.Fatal(err)
	}
	if r := b.reservations(t, "instance-match-criteria", "open")[0]; r.EndDate != nil || *r.TotalInstanceCount != 5 {
		t.Errorf("modified: %+v", r)
	}
	if _, err := b.CancelCapacityReservation(t.Context(),
		&ec2.CancelCapacityReservationInput{CapacityReservationId: &open}); err != nil {
		t.Fatal(err)
	}
	if r := b.reservations(t, "state", "cancelled"); len(r) != 1 || *r[0].CapacityReservationId != open {
		t.Errorf("cancelled: %+v", r)
	}
}

func TestRunInstancesUsesReservationsAsItSays(t *testing.T) {
	b := newBuyer(t)
	id := b.reserve(t, 2, func(in *ec2.CreateCapacityReservationInput) { in.InstanceMatchCriteria = "open" })
	run := func(spec *ec2types.CapacityReservationSpecification) string {
		out, err := b.RunInstances(t.Context(), &ec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "m5.large", ImageId: &b.image,
			SubnetId: aws.String(b.region.Subnets()[0].ID), CapacityReservationSpecification: spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		return aws.ToString(out.Instances[0].CapacityReservationId)
	}
	if got := run(&ec2types.CapacityReservationSpecification{CapacityReservationPreference: "none"}); got != "" {
		t.Errorf("preference none runs in %s", got)
	}
	if got := run(nil); got != id {
		t.Errorf("without preference it runs in %q, want %s", got, id)
	}
	if got := run(&ec2types.CapacityReservationSpecification{
		CapacityReservationTarget: &ec2types.CapacityReservationTarget{CapacityReservationId: &id},
	}); got != id {
		t.Errorf("with a target it runs in %q, want %s", got, id)
	}
}
