package roll

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/migrate/fromaws"
)

// account makes the AWS calls of a roll. Errors name the call, its resource and the remedy.
type account struct {
	scaling *autoscaling.Client
	ec2     *ec2.Client
	region  string
}

func newAccount(cfg aws.Config) *account {
	return &account{autoscaling.NewFromConfig(cfg), ec2.NewFromConfig(cfg), cfg.Region}
}

func (a *account) explain(call, about string, err error) error {
	if err == nil {
		return nil
	}
	return fromaws.Explain(a.region, call, about, err, "")
}

// groups returns the named Auto Scaling groups, or all if none is named, except those being deleted.
func (a *account) groups(ctx context.Context, names ...string) ([]scalingtypes.AutoScalingGroup, error) {
	var out []scalingtypes.AutoScalingGroup
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(a.scaling,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: names})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, a.explain("autoscaling:DescribeAutoScalingGroups", "the region's groups", err)
		}
		for _, g := range page.AutoScalingGroups {
			if aws.ToString(g.Status) == "" {
				out = append(out, g)
			}
		}
	}
	return out, nil
}

// versionsOf returns the versions that $Latest and $Default of the groups' launch templates stand for, by template
// ID. A template that does not exist maps to nil.
func (a *account) versionsOf(
	ctx context.Context, groups []scalingtypes.AutoScalingGroup,
) (map[string]*versions, error) {
	out := map[string]*versions{}
	for i := range groups {
		for _, s := range specifications(&groups[i]) {
			id := aws.ToString(s.LaunchTemplateId)
			if _, known := out[id]; known {
				continue
			}
			found, err := a.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{id}})
			if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "InvalidLaunchTemplateId.NotFound" {
				out[id] = nil
				continue
			}
			if err != nil {
				return nil, a.explain("ec2:DescribeLaunchTemplates", "launch template "+id, err)
			}
			for _, t := range found.LaunchTemplates {
				out[id] = &versions{aws.ToInt64(t.LatestVersionNumber), aws.ToInt64(t.DefaultVersionNumber)}
			}
		}
	}
	return out, nil
}

// launchTimes returns when instances were launched, by ID, as far as EC2 knows them.
func (a *account) launchTimes(ctx context.Context, instances []string) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	for part := range slices.Chunk(instances, 200) { // the most values of a filter
		pages := ec2.NewDescribeInstancesPaginator(a.ec2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
			{Name: aws.String("instance-id"), Values: part},
		}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, a.explain("ec2:DescribeInstances", "instances without a node", err)
			}
			for _, r := range page.Reservations {
				for _, i := range r.Instances {
					out[aws.ToString(i.InstanceId)] = aws.ToTime(i.LaunchTime)
				}
			}
		}
	}
	return out, nil
}

// detached is an instance that a roll has detached from its group and not terminated.
type detached struct {
	group    string // its former group
	launched time.Time
}

// detached returns the instances that rolls have detached but not terminated, by ID.
func (a *account) detached(ctx context.Context) (map[string]detached, error) {
	out := map[string]detached{}
	pages := ec2.NewDescribeInstancesPaginator(a.ec2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag-key"), Values: []string{v1alpha1.DetachedFrom}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"}},
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, a.explain("ec2:DescribeInstances", "instances with the tag "+v1alpha1.DetachedFrom, err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				for _, t := range i.Tags {
					if aws.ToString(t.Key) == v1alpha1.DetachedFrom {
						out[aws.ToString(i.InstanceId)] = detached{aws.ToString(t.Value), aws.ToTime(i.LaunchTime)}
					}
				}
			}
		}
	}
	return out, nil
}

// detach detaches an instance from its group, which launches a replacement. It tags the instance first, so that every
// detached instance can be found again.
func (a *account) detach(ctx context.Context, group, instance string) error {
	_, err := a.ec2.CreateTags(ctx, &ec2.CreateTagsInput{
		Resources: []string{instance}, Tags: []ec2types.Tag{{Key: aws.String(v1alpha1.DetachedFrom), Value: &group}},
	})
	if err != nil {
		return a.explain("ec2:CreateTags", "instance "+instance, err)
	}
	_, err = a.scaling.DetachInstances(ctx, &autoscaling.DetachInstancesInput{
		AutoScalingGroupName: &group, InstanceIds: []string{instance}, ShouldDecrementDesiredCapacity: aws.Bool(false),
	})
	return a.explain("autoscaling:DetachInstances", "instance "+instance+" of group "+group, err)
}

// terminate terminates an instance. If the instance is still a member of its group, the group launches a replacement.
func (a *account) terminate(ctx context.Context, m *Member) error {
	if m.Detached {
		_, err := a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{m.Instance}})
		return a.explain("ec2:TerminateInstances", "instance "+m.Instance, err)
	}
	_, err := a.scaling.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: &m.Instance, ShouldDecrementDesiredCapacity: aws.Bool(false),
	})
	return a.explain("autoscaling:TerminateInstanceInAutoScalingGroup", "instance "+m.Instance, err)
}

// markRolled tags a group with the time at which its roll began.
func (a *account) markRolled(ctx context.Context, group string, now time.Time) error {
	_, err := a.scaling.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []scalingtypes.Tag{{
		ResourceId: &group, ResourceType: aws.String("auto-scaling-group"), Key: aws.String(v1alpha1.RolledAt),
		Value: aws.String(now.UTC().Format(time.RFC3339)), PropagateAtLaunch: aws.Bool(false),
	}}})
	return a.explain("autoscaling:CreateOrUpdateTags", "group "+group, err)
}

// launchFailure returns why a group's latest scaling activity failed, or "" if it did not fail.
func (a *account) launchFailure(ctx context.Context, group string) (string, error) {
	out, err := a.scaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: &group, MaxRecords: aws.Int32(1),
	})
	if err != nil {
		return "", a.explain("autoscaling:DescribeScalingActivities", "group "+group, err)
	}
	for _, activity := range out.Activities {
		if activity.StatusCode == scalingtypes.ScalingActivityStatusCodeFailed {
			return aws.ToString(activity.StatusMessage), nil
		}
	}
	return "", nil
}
