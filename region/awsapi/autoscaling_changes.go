package awsapi

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/nodeless/nodeless/region"
)

// activityOf converts an activity to the API's type.
func activityOf(a region.Activity) types.Activity {
	out := types.Activity{
		ActivityId: &a.ID, AutoScalingGroupName: &a.Group, AutoScalingGroupARN: &a.GroupARN, Description: &a.Description,
		Cause: &a.Cause, StartTime: &a.StartedAt, StatusCode: types.ScalingActivityStatusCode(a.Status),
		StatusMessage: optional(a.Message), Progress: number32(a.Progress),
		Details: new(fmt.Sprintf(`{"Availability Zone":%q}`, a.Zone)),
	}
	if !a.EndedAt.IsZero() {
		out.EndTime = &a.EndedAt
	}
	return out
}

func activitiesOf(list []region.Activity) []types.Activity {
	out := []types.Activity{}
	for _, a := range list {
		out = append(out, activityOf(a))
	}
	return out
}

func describeScalingActivities(
	c *call, in *autoscaling.DescribeScalingActivitiesInput,
) (*autoscaling.DescribeScalingActivitiesOutput, error) {
	all, err := c.region.ScalingActivities(aws.ToString(in.AutoScalingGroupName))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(a region.Activity) bool {
		return len(in.ActivityIds) > 0 && !slices.Contains(in.ActivityIds, a.ID)
	})
	list, next, err := scalingPage(all, cmp.Or(in.MaxRecords, new(int32(100))), in.NextToken,
		func(a region.Activity) string { return fmt.Sprintf("%020d", math.MaxUint64-a.Sequence) })
	return &autoscaling.DescribeScalingActivitiesOutput{Activities: activitiesOf(list), NextToken: next}, err
}

func terminateInstanceInAutoScalingGroup(
	c *call, in *autoscaling.TerminateInstanceInAutoScalingGroupInput,
) (*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error) {
	a, err := c.region.TerminateInstanceInAutoScalingGroup(
		aws.ToString(in.InstanceId), aws.ToBool(in.ShouldDecrementDesiredCapacity))
	if err != nil {
		return nil, err
	}
	return &autoscaling.TerminateInstanceInAutoScalingGroupOutput{Activity: new(activityOf(a))}, nil
}

func attachInstances(c *call, in *autoscaling.AttachInstancesInput) (*autoscaling.AttachInstancesOutput, error) {
	return &autoscaling.AttachInstancesOutput{},
		c.region.AttachInstances(aws.ToString(in.AutoScalingGroupName), in.InstanceIds)
}

func detachInstances(c *call, in *autoscaling.DetachInstancesInput) (*autoscaling.DetachInstancesOutput, error) {
	list, err := c.region.DetachInstances(
		aws.ToString(in.AutoScalingGroupName), in.InstanceIds, aws.ToBool(in.ShouldDecrementDesiredCapacity))
	return &autoscaling.DetachInstancesOutput{Activities: activitiesOf(list)}, err
}

func enterStandby(c *call, in *autoscaling.EnterStandbyInput) (*autoscaling.EnterStandbyOutput, error) {
	list, err := c.region.EnterStandby(
		aws.ToString(in.AutoScalingGroupName), in.InstanceIds, aws.ToBool(in.ShouldDecrementDesiredCapacity))
	return &autoscaling.EnterStandbyOutput{Activities: activitiesOf(list)}, err
}

func exitStandby(c *call, in *autoscaling.ExitStandbyInput) (*autoscaling.ExitStandbyOutput, error) {
	list, err := c.region.ExitStandby(aws.ToString(in.AutoScalingGroupName), in.InstanceIds)
	return &autoscaling.ExitStandbyOutput{Activities: activitiesOf(list)}, err
}

func setInstanceHealth(
	c *call, in *autoscaling.SetInstanceHealthInput,
) (*autoscaling.SetInstanceHealthOutput, error) {
	status := aws.ToString(in.HealthStatus)
	if status != "Healthy" && status != "Unhealthy" {
		return nil, failure(400, "ValidationError", "HealthStatus '"+status+"' is not one of [Healthy Unhealthy]")
	}
	respect := in.ShouldRespectGracePeriod == nil || *in.ShouldRespectGracePeriod
	return &autoscaling.SetInstanceHealthOutput{},
		c.region.SetInstanceHealth(aws.ToString(in.InstanceId), status == "Healthy", respect)
}

func setInstanceProtection(
	c *call, in *autoscaling.SetInstanceProtectionInput,
) (*autoscaling.SetInstanceProtectionOutput, error) {
	return &autoscaling.SetInstanceProtectionOutput{}, c.region.SetInstanceProtection(
		aws.ToString(in.AutoScalingGroupName), in.InstanceIds, aws.ToBool(in.ProtectedFromScaleIn))
}

// hookOf converts a lifecycle hook. Its events go to the region's queues, whatever target it names.
func hookOf(in autoscaling.PutLifecycleHookInput) region.LifecycleHook {
	return region.LifecycleHook{
		Name: aws.ToString(in.LifecycleHookName), Transition: aws.ToString(in.LifecycleTransition),
		DefaultResult: aws.ToString(in.DefaultResult), Metadata: aws.ToString(in.NotificationMetadata),
		Heartbeat: time.Duration(aws.ToInt32(in.HeartbeatTimeout)) * time.Second,
	}
}

func putLifecycleHook(c *call, in *autoscaling.PutLifecycleHookInput) (*autoscaling.PutLifecycleHookOutput, error) {
	return &autoscaling.PutLifecycleHookOutput{},
		c.region.PutLifecycleHook(aws.ToString(in.AutoScalingGroupName), hookOf(*in))
}

func deleteLifecycleHook(
	c *call, in *autoscaling.DeleteLifecycleHookInput,
) (*autoscaling.DeleteLifecycleHookOutput, error) {
	return &autoscaling.DeleteLifecycleHookOutput{},
		c.region.DeleteLifecycleHook(aws.ToString(in.AutoScalingGroupName), aws.ToString(in.LifecycleHookName))
}

// group finds a group by name.
func (c *call) group(name *string) (region.AutoScalingGroup, error) {
	for _, g := range c.region.AutoScalingGroups() {
		if g.Name == aws.ToString(name) {
			return g, nil
		}
	}
	return region.AutoScalingGroup{}, failure(400, "ValidationError",
		fmt.Sprintf("AutoScalingGroup name not found - AutoScalingGroup '%s' not found", aws.ToString(name)))
}

func describeLifecycleHooks(
	c *call, in *autoscaling.DescribeLifecycleHooksInput,
) (*autoscaling.DescribeLifecycleHooksOutput, error) {
	g, err := c.group(in.AutoScalingGroupName)
	out := &autoscaling.DescribeLifecycleHooksOutput{LifecycleHooks: []types.LifecycleHook{}}
	for _, h := range g.Hooks {
		if len(in.LifecycleHookNames) > 0 && !slices.Contains(in.LifecycleHookNames, h.Name) {
			continue
		}
		out.LifecycleHooks = append(out.LifecycleHooks, types.LifecycleHook{
			AutoScalingGroupName: &g.Name, LifecycleHookName: &h.Name, LifecycleTransition: &h.Transition,
			DefaultResult: &h.DefaultResult, HeartbeatTimeout: seconds32(h.Heartbeat),
			GlobalTimeout:        seconds32(min(100*h.Heartbeat, 48*time.Hour)),
			NotificationMetadata: optional(h.Metadata),
		})
	}
	return out, err
}

func completeLifecycleAction(
	c *call, in *autoscaling.CompleteLifecycleActionInput,
) (*autoscaling.CompleteLifecycleActionOutput, error) {
	return &autoscaling.CompleteLifecycleActionOutput{}, c.region.CompleteLifecycleAction(
		aws.ToString(in.AutoScalingGroupName), aws.ToString(in.LifecycleHookName), aws.ToString(in.LifecycleActionToken),
		aws.ToString(in.InstanceId), aws.ToString(in.LifecycleActionResult))
}

func recordLifecycleActionHeartbeat(
	c *call, in *autoscaling.RecordLifecycleActionHeartbeatInput,
) (*autoscaling.RecordLifecycleActionHeartbeatOutput, error) {
	return &autoscaling.RecordLifecycleActionHeartbeatOutput{}, c.region.RecordLifecycleActionHeartbeat(
		aws.ToString(in.AutoScalingGroupName), aws.ToString(in.LifecycleHookName), aws.ToString(in.LifecycleActionToken),
		aws.ToString(in.InstanceId))
}

// unrefreshed lists the preferences of a refresh that the region does not serve.
var unrefreshed = []string{
	"AlarmSpecification", "AutoRollback", "BakeTime", "CheckpointDelay", "CheckpointPercentages",
}

func startInstanceRefresh(
	c *call, in *autoscaling.StartInstanceRefreshInput,
) (*autoscaling.StartInstanceRefreshOutput, error) {
	if in.DesiredConfiguration != nil {
		return nil, failure(400, "ValidationError", "The simulated region does not serve DesiredConfiguration of an "+
			"instance refresh: update the group first.")
	}
	p := cmp.Or(in.Preferences, &types.RefreshPreferences{})
	if err := refuseFields(p, unrefreshed); err != nil {
		return nil, err
	}
	const ignore = "Ignore" // what the region does
	if b := p.ScaleInProtectedInstances; b != "" && b != ignore {
		return nil, notServed("ScaleInProtectedInstances", ignore)
	}
	if b := p.StandbyInstances; b != "" && b != ignore {
		return nil, notServed("StandbyInstances", ignore)
	}
	want := region.InstanceRefresh{MinHealthy: 90, MaxHealthy: 100, Warmup: -1, Skip: aws.ToBool(p.SkipMatching)}
	setNumber(&want.MinHealthy, p.MinHealthyPercentage)
	setNumber(&want.MaxHealthy, p.MaxHealthyPercentage)
	setSeconds(&want.Warmup, p.InstanceWarmup)
	id, err := c.region.StartInstanceRefresh(aws.ToString(in.AutoScalingGroupName), want)
	return &autoscaling.StartInstanceRefreshOutput{InstanceRefreshId: &id}, err
}

func cancelInstanceRefresh(
	c *call, in *autoscaling.CancelInstanceRefreshInput,
) (*autoscaling.CancelInstanceRefreshOutput, error) {
	id, err := c.region.CancelInstanceRefresh(aws.ToString(in.AutoScalingGroupName))
	return &autoscaling.CancelInstanceRefreshOutput{InstanceRefreshId: &id}, err
}

func describeInstanceRefreshes(
	c *call, in *autoscaling.DescribeInstanceRefreshesInput,
) (*autoscaling.DescribeInstanceRefreshesOutput, error) {
	g, err := c.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeInstanceRefreshesOutput{InstanceRefreshes: []types.InstanceRefresh{}}
	for _, r := range g.Refreshes {
		if len(in.InstanceRefreshIds) > 0 && !slices.Contains(in.InstanceRefreshIds, r.ID) {
			continue
		}
		left, done := r.Remaining(&g), 100
		if n := len(r.Targets); n > 0 {
			done = 100 * (n - left) / n
		}
		x := types.InstanceRefresh{
			AutoScalingGroupName: &g.Name, InstanceRefreshId: &r.ID, Status: types.InstanceRefreshStatus(r.Status),
			StartTime: &r.StartedAt, InstancesToUpdate: number32(left), PercentageComplete: number32(done),
			StatusReason: optional(r.Reason),
			Preferences: &types.RefreshPreferences{
				MinHealthyPercentage: number32(r.MinHealthy), MaxHealthyPercentage: number32(r.MaxHealthy),
				InstanceWarmup: seconds32(r.Warmup), SkipMatching: &r.Skip,
			},
		}
		if !r.EndedAt.IsZero() {
			x.EndTime = &r.EndedAt
		}
		out.InstanceRefreshes = append(out.InstanceRefreshes, x)
	}
	return out, nil
}
