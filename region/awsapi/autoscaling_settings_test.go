package awsapi

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// group creates an empty group with a change to its settings.
func (s scaler) group(t *testing.T, change func(*autoscaling.CreateAutoScalingGroupInput)) error {
	t.Helper()
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("web"), MinSize: aws.Int32(0), MaxSize: aws.Int32(2),
		VPCZoneIdentifier: &s.region.Subnets()[0].ID,
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateId: &s.template.ID},
	}
	change(in)
	_, err := s.groups.CreateAutoScalingGroup(t.Context(), in)
	return err
}

func (s scaler) told(t *testing.T) types.AutoScalingGroup {
	t.Helper()
	out := must[*autoscaling.DescribeAutoScalingGroupsOutput](t)(s.groups.DescribeAutoScalingGroups(t.Context(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"web"}}))
	return out.AutoScalingGroups[0]
}

func TestSettingsThatGroupsDoNotServeAreRefused(t *testing.T) {
	s := newScaler(t)
	for name, change := range map[string]func(*autoscaling.CreateAutoScalingGroupInput){
		"AvailabilityZoneIds": func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.VPCZoneIdentifier, in.AvailabilityZoneIds = nil, []string{s.region.Subnets()[0].ZoneID}
		},
		"DesiredCapacityType": func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.DesiredCapacityType = aws.String("vcpu")
		},
		"DeletionProtection": func(in *autoscaling.CreateAutoScalingGroupInput) { in.DeletionProtection = "always" },
		"DefaultInstanceWarmup": func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.DefaultInstanceWarmup = aws.Int32(-2)
		},
	} {
		err := s.group(t, change)
		wantCode(t, err, "ValidationError")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.group(t, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.DesiredCapacityType, in.DeletionProtection = aws.String("units"), types.DeletionProtectionNone
	}); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*types.RefreshPreferences{
		"ScaleInProtectedInstances": {ScaleInProtectedInstances: types.ScaleInProtectedInstancesRefresh},
		"StandbyInstances":          {StandbyInstances: types.StandbyInstancesWait},
	} {
		_, err := s.groups.StartInstanceRefresh(t.Context(),
			&autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: aws.String("web"), Preferences: p})
		wantCode(t, err, "ValidationError")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must[*autoscaling.StartInstanceRefreshOutput](t)(s.groups.StartInstanceRefresh(t.Context(),
		&autoscaling.StartInstanceRefreshInput{
			AutoScalingGroupName: aws.String("web"), Preferences: &types.RefreshPreferences{
				ScaleInProtectedInstances: types.ScaleInProtectedInstancesIgnore,
				StandbyInstances:          types.StandbyInstancesIgnore,
			},
		}))
}

func TestAProtectedGroupIsNotDeleted(t *testing.T) {
	s := newScaler(t)
	protect := func(p types.DeletionProtection) {
		must[*autoscaling.UpdateAutoScalingGroupOutput](t)(s.groups.UpdateAutoScalingGroup(t.Context(),
			&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), DeletionProtection: p}))
		if got := s.told(t).DeletionProtection; got != p {
			t.Errorf("the group has the protection %q, want %q", got, p)
		}
	}
	remove := func(force bool) error {
		_, err := s.groups.DeleteAutoScalingGroup(t.Context(),
			&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), ForceDelete: &force})
		return err
	}
	if err := s.group(t, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.DeletionProtection = types.DeletionProtectionPreventAllDeletion
	}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, remove(false), "ValidationError")
	wantCode(t, remove(true), "ValidationError")
	protect(types.DeletionProtectionPreventForceDeletion)
	wantCode(t, remove(true), "ValidationError")
	if err := remove(false); err != nil {
		t.Error(err)
	}
}

// The warm-up of a refresh is its own, else the group's, else the grace period of health checks.
func TestARefreshTakesItsWarmupFromTheGroup(t *testing.T) {
	s := newScaler(t)
	if err := s.group(t, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.DefaultInstanceWarmup, in.HealthCheckGracePeriod = aws.Int32(90), aws.Int32(30)
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.told(t).DefaultInstanceWarmup; got == nil || *got != 90 {
		t.Errorf("the group has the warm-up %v, want 90", got)
	}
	web := aws.String("web")
	warmup := func(own *int32) int32 {
		out := must[*autoscaling.StartInstanceRefreshOutput](t)(s.groups.StartInstanceRefresh(t.Context(),
			&autoscaling.StartInstanceRefreshInput{
				AutoScalingGroupName: web, Preferences: &types.RefreshPreferences{InstanceWarmup: own},
			}))
		list := must[*autoscaling.DescribeInstanceRefreshesOutput](t)(s.groups.DescribeInstanceRefreshes(t.Context(),
			&autoscaling.DescribeInstanceRefreshesInput{
				AutoScalingGroupName: web, InstanceRefreshIds: []string{*out.InstanceRefreshId},
			})).InstanceRefreshes
		must[*autoscaling.CancelInstanceRefreshOutput](t)(s.groups.CancelInstanceRefresh(t.Context(),
			&autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: web}))
		return *list[0].Preferences.InstanceWarmup
	}
	if own, group := warmup(aws.Int32(0)), warmup(nil); own != 0 || group != 90 {
		t.Errorf("warm-ups %d and %d, want 0 and 90", own, group)
	}
	must[*autoscaling.UpdateAutoScalingGroupOutput](t)(s.groups.UpdateAutoScalingGroup(t.Context(),
		&autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: web, DefaultInstanceWarmup: aws.Int32(-1)}))
	if got := warmup(nil); got != 30 || s.told(t).DefaultInstanceWarmup != nil {
		t.Errorf("without a default: %d, want 30", got)
	}
}

// Tools ask for what groups have besides their settings, before they delete one.
func TestGroupsHaveNoPoliciesScheduledActionsAndNotifications(t *testing.T) {
	s := newScaler(t)
	policies := must[*autoscaling.DescribePoliciesOutput](t)(s.groups.DescribePolicies(t.Context(),
		&autoscaling.DescribePoliciesInput{}))
	actions := must[*autoscaling.DescribeScheduledActionsOutput](t)(s.groups.DescribeScheduledActions(t.Context(),
		&autoscaling.DescribeScheduledActionsInput{}))
	notices := must[*autoscaling.DescribeNotificationConfigurationsOutput](t)(
		s.groups.DescribeNotificationConfigurations(t.Context(), &autoscaling.DescribeNotificationConfigurationsInput{}))
	if n := len(policies.ScalingPolicies) + len(actions.ScheduledUpdateGroupActions) +
		len(notices.NotificationConfigurations); n != 0 {
		t.Errorf("there are %d", n)
	}
}
