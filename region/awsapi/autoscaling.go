package awsapi

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/nodeless/nodeless/region"
)

// scalingPage returns a page of an EC2 Auto Scaling list, of 50 if the call does not say.
func scalingPage[T any](list []T, size *int32, token *string, key func(T) string) ([]T, *string, error) {
	return page(list, size, 50, token, key)
}

// ungrouped lists the fields of groups that the region does not serve.
var ungrouped = []string{
	"AvailabilityZoneDistribution", "AvailabilityZoneIds", "AvailabilityZoneImpairmentPolicy",
	"CapacityReservationSpecification",
	"InstanceId", "InstanceLifecyclePolicy", "InstanceMaintenancePolicy", "LoadBalancerNames", "PlacementGroup",
	"TargetGroupARNs", "TrafficSources",
}

// refuseFields returns an error if a request sets one of the named fields to anything but false, 0 or "".
func refuseFields(in any, names []string) error {
	v := reflect.ValueOf(in).Elem()
	for _, name := range names {
		if f := v.FieldByName(name); f.IsValid() && !f.IsZero() && !reflect.Indirect(f).IsZero() {
			return notServed(name, "")
		}
	}
	return nil
}

// notServed refuses a field of groups; only is the value that is served, "" if there is none.
func notServed(name, only string) error {
	remedy := "leave it out."
	if only != "" {
		remedy = "leave it out, or set it to " + only + "."
	}
	return failure(400, "ValidationError",
		"The simulated region does not serve "+name+" of Auto Scaling groups: "+remedy)
}

func createAutoScalingGroup(
	c *call, in *autoscaling.CreateAutoScalingGroupInput,
) (*autoscaling.CreateAutoScalingGroupOutput, error) {
	if err := refuseFields(in, ungrouped); err != nil {
		return nil, err
	}
	want := region.GroupSettings{
		Cooldown: 5 * time.Minute, HealthCheckType: "EC2", TerminationPolicies: []string{"Default"},
		Desired: int(aws.ToInt32(cmp.Or(in.DesiredCapacity, in.MinSize))),
	}
	update := copyOf[autoscaling.UpdateAutoScalingGroupInput](in)
	if err := c.setGroup(&want, &update); err != nil {
		return nil, err
	}
	var hooks []region.LifecycleHook
	for _, h := range in.LifecycleHookSpecificationList {
		hooks = append(hooks, hookOf(copyOf[autoscaling.PutLifecycleHookInput](h)))
	}
	name := aws.ToString(in.AutoScalingGroupName)
	return &autoscaling.CreateAutoScalingGroupOutput{},
		c.region.CreateAutoScalingGroup(name, want, groupTags(in.Tags), hooks)
}

func updateAutoScalingGroup(
	c *call, in *autoscaling.UpdateAutoScalingGroupInput,
) (*autoscaling.UpdateAutoScalingGroupOutput, error) {
	if err := refuseFields(in, ungrouped); err != nil {
		return nil, err
	}
	subnets, err := c.subnetsFor(in) // outside the region's lock, under which the change is made
	if err != nil {
		return nil, err
	}
	return &autoscaling.UpdateAutoScalingGroupOutput{}, c.region.UpdateAutoScalingGroup(
		aws.ToString(in.AutoScalingGroupName), func(s *region.GroupSettings) error { return setGroup(s, in, subnets) })
}

// setGroup applies a request to a group's settings.
func (c *call) setGroup(s *region.GroupSettings, in *autoscaling.UpdateAutoScalingGroupInput) error {
	subnets, err := c.subnetsFor(in)
	if err != nil {
		return err
	}
	return setGroup(s, in, subnets)
}

func setGroup(s *region.GroupSettings, in *autoscaling.UpdateAutoScalingGroupInput, subnets []string) error {
	setNumber(&s.Min, in.MinSize)
	setNumber(&s.Max, in.MaxSize)
	setNumber(&s.Desired, in.DesiredCapacity)
	setSeconds(&s.Cooldown, in.DefaultCooldown)
	setSeconds(&s.HealthCheckGrace, in.HealthCheckGracePeriod)
	setSeconds(&s.MaxLifetime, in.MaxInstanceLifetime)
	s.HealthCheckType = cmp.Or(aws.ToString(in.HealthCheckType), s.HealthCheckType)
	if in.NewInstancesProtectedFromScaleIn != nil {
		s.ProtectNew = *in.NewInstancesProtectedFromScaleIn
	}
	if in.CapacityRebalance != nil {
		s.CapacityRebalance = *in.CapacityRebalance
	}
	if len(in.TerminationPolicies) > 0 {
		s.TerminationPolicies = in.TerminationPolicies
	}
	if subnets != nil {
		s.Subnets = subnets
	}
	if err := setProtection(s, in); err != nil {
		return err
	}
	return setLaunch(s, in)
}

// setProtection applies the deletion protection and the default warm-up, which -1 removes.
func setProtection(s *region.GroupSettings, in *autoscaling.UpdateAutoScalingGroupInput) error {
	const units = "units"
	if kind := cmp.Or(aws.ToString(in.DesiredCapacityType), units); kind != units {
		return notServed("DesiredCapacityType", units)
	}
	if p := in.DeletionProtection; p != "" && !slices.Contains(p.Values(), p) {
		return failure(400, "ValidationError", fmt.Sprintf("DeletionProtection '%s' is not one of %v", p, p.Values()))
	}
	s.DeletionProtection = cmp.Or(string(in.DeletionProtection), s.DeletionProtection)
	switch warmup := in.DefaultInstanceWarmup; {
	case warmup == nil:
	case *warmup < -1:
		return failure(400, "ValidationError", "DefaultInstanceWarmup must be 0 or more, or -1 to remove it")
	case *warmup == -1:
		s.DefaultWarmup = nil
	default:
		s.DefaultWarmup = new(time.Duration(*warmup) * time.Second)
	}
	return nil
}

func setNumber(to *int, from *int32) {
	if from != nil {
		*to = int(*from)
	}
}

func setSeconds(to *time.Duration, from *int32) {
	if from != nil {
		*to = time.Duration(*from) * time.Second
	}
}

// subnetsFor returns the subnets that a request names, directly or by zone; nil if it names none.
func (c *call) subnetsFor(in *autoscaling.UpdateAutoScalingGroupInput) ([]string, error) {
	var out []string
	for id := range strings.SplitSeq(aws.ToString(in.VPCZoneIdentifier), ",") {
		if id = strings.TrimSpace(id); id != "" {
			out = append(out, id)
		}
	}
	if out != nil {
		return out, nil
	}
	for _, zone := range in.AvailabilityZones {
		n := len(out)
		for _, s := range c.region.Subnets() {
			if s.Zone == zone {
				out = append(out, s.ID)
			}
		}
		if len(out) == n {
			return nil, failure(400, "ValidationError", "Invalid availability zone: ["+zone+"]")
		}
	}
	return out, nil
}

func deleteAutoScalingGroup(
	c *call, in *autoscaling.DeleteAutoScalingGroupInput,
) (*autoscaling.DeleteAutoScalingGroupOutput, error) {
	return &autoscaling.DeleteAutoScalingGroupOutput{},
		c.region.DeleteAutoScalingGroup(aws.ToString(in.AutoScalingGroupName), aws.ToBool(in.ForceDelete))
}

func setDesiredCapacity(
	c *call, in *autoscaling.SetDesiredCapacityInput,
) (*autoscaling.SetDesiredCapacityOutput, error) {
	return &autoscaling.SetDesiredCapacityOutput{}, c.region.SetDesiredCapacity(
		aws.ToString(in.AutoScalingGroupName), int(aws.ToInt32(in.DesiredCapacity)), aws.ToBool(in.HonorCooldown))
}

// describeAutoScalingGroups omits groups that do not exist, as AWS does.
func describeAutoScalingGroups(
	c *call, in *autoscaling.DescribeAutoScalingGroupsInput,
) (*autoscaling.DescribeAutoScalingGroupsOutput, error) {
	var found []region.AutoScalingGroup
	for _, g := range c.region.AutoScalingGroups() {
		fits, err := groupMatches(g, in.Filters)
		if err != nil {
			return nil, err
		}
		if fits && (len(in.AutoScalingGroupNames) == 0 || slices.Contains(in.AutoScalingGroupNames, g.Name)) {
			found = append(found, g)
		}
	}
	list, next, err := scalingPage(found, in.MaxRecords, in.NextToken,
		func(g region.AutoScalingGroup) string { return g.Name })
	out := &autoscaling.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []types.AutoScalingGroup{}, NextToken: next}
	for _, g := range list {
		out.AutoScalingGroups = append(out.AutoScalingGroups, c.groupOf(g))
	}
	return out, err
}

// groupMatches applies the filters tag-key, tag-value and tag:KEY.
func groupMatches(g region.AutoScalingGroup, filters []types.Filter) (bool, error) {
	for _, f := range filters {
		name := aws.ToString(f.Name)
		key, ofKey := strings.CutPrefix(name, "tag:")
		if !ofKey && name != "tag-key" && name != "tag-value" {
			return false, failure(400, "ValidationError", fmt.Sprintf(
				"Filter type %s is not correct. Allowed Filter types are: tag-key, tag-value, tag:<tagKey>", name))
		}
		if !slices.ContainsFunc(g.Tags, func(t region.GroupTag) bool {
			switch {
			case ofKey:
				return t.Key == key && slices.Contains(f.Values, t.Value)
			case name == "tag-key":
				return slices.Contains(f.Values, t.Key)
			}
			return slices.Contains(f.Values, t.Value)
		}) {
			return false, nil
		}
	}
	return true, nil
}

// groupOf converts a group to the API's type.
func (c *call) groupOf(g region.AutoScalingGroup) types.AutoScalingGroup {
	out := types.AutoScalingGroup{
		AutoScalingGroupName: &g.Name, AutoScalingGroupARN: &g.ARN, CreatedTime: &g.CreatedAt,
		MinSize: number32(g.Min), MaxSize: number32(g.Max), DesiredCapacity: number32(g.Desired),
		DefaultCooldown: seconds32(g.Cooldown), HealthCheckGracePeriod: seconds32(g.HealthCheckGrace),
		HealthCheckType: &g.HealthCheckType, AvailabilityZones: g.Zones, VPCZoneIdentifier: new(strings.Join(g.Subnets, ",")),
		TerminationPolicies: g.TerminationPolicies, NewInstancesProtectedFromScaleIn: &g.ProtectNew,
		CapacityRebalance: &g.CapacityRebalance, LoadBalancerNames: []string{}, TargetGroupARNs: []string{},
		EnabledMetrics: []types.EnabledMetric{}, TrafficSources: []types.TrafficSourceIdentifier{},
		ServiceLinkedRoleARN: new(
			iamARN("role", "/aws-service-role/autoscaling.amazonaws.com/", "AWSServiceRoleForAutoScaling")),
		Instances: []types.Instance{}, SuspendedProcesses: []types.SuspendedProcess{},
		Tags: []types.TagDescription{},
	}
	out.DeletionProtection = types.DeletionProtection(g.DeletionProtection)
	if g.DefaultWarmup != nil {
		out.DefaultInstanceWarmup = seconds32(*g.DefaultWarmup)
	}
	if g.MaxLifetime > 0 {
		out.MaxInstanceLifetime = seconds32(g.MaxLifetime)
	}
	if g.Deleting {
		out.Status = new("Delete in progress")
	}
	out.LaunchConfigurationName, out.LaunchTemplate = optional(g.Launch.Configuration), templateRef(g.Launch.Template)
	out.MixedInstancesPolicy = policyOf(g.Launch.Mixed)
	for _, m := range g.Members {
		out.Instances = append(out.Instances, copyOf[types.Instance](c.memberOf(g, m)))
	}
	for _, p := range region.Processes {
		if reason, suspended := g.Suspended[p]; suspended {
			out.SuspendedProcesses = append(out.SuspendedProcesses, types.SuspendedProcess{
				ProcessName: &p, SuspensionReason: &reason,
			})
		}
	}
	for _, t := range g.Tags {
		out.Tags = append(out.Tags, tagDescription(g.Name, t))
	}
	return out
}

func number32(n int) *int32 { return new(int32(n)) }

func seconds32(d time.Duration) *int32 { return new(int32(d / time.Second)) }

// memberOf converts an instance of a group to the API's type.
func (c *call) memberOf(g region.AutoScalingGroup, m region.GroupMember) types.AutoScalingInstanceDetails {
	health := "Healthy"
	if m.Unhealthy {
		health = "Unhealthy"
	}
	out := types.AutoScalingInstanceDetails{
		AutoScalingGroupName: &g.Name, InstanceId: &m.ID, InstanceType: &m.Type, ImageId: &m.ImageID,
		AvailabilityZone: &m.Zone, LifecycleState: &m.Lifecycle, HealthStatus: &health, ProtectedFromScaleIn: &m.Protected,
		LaunchConfigurationName: optional(m.Configuration), LaunchTemplate: templateRef(m.Template),
	}
	if m.Weight != 1 {
		out.WeightedCapacity = new(fmt.Sprint(m.Weight))
	}
	return out
}

func describeAutoScalingInstances(
	c *call, in *autoscaling.DescribeAutoScalingInstancesInput,
) (*autoscaling.DescribeAutoScalingInstancesOutput, error) {
	var found []types.AutoScalingInstanceDetails
	for _, g := range c.region.AutoScalingGroups() {
		for _, m := range g.Members {
			if len(in.InstanceIds) == 0 || slices.Contains(in.InstanceIds, m.ID) {
				found = append(found, c.memberOf(g, m))
			}
		}
	}
	list, next, err := scalingPage(found, in.MaxRecords, in.NextToken,
		func(i types.AutoScalingInstanceDetails) string { return *i.InstanceId })
	return &autoscaling.DescribeAutoScalingInstancesOutput{AutoScalingInstances: list, NextToken: next}, err
}

// groupTags converts the tags of a request.
func groupTags(tags []types.Tag) []region.GroupTag {
	var out []region.GroupTag
	for _, t := range tags {
		out = append(out, region.GroupTag{
			Key: aws.ToString(t.Key), Value: aws.ToString(t.Value), Propagate: aws.ToBool(t.PropagateAtLaunch),
		})
	}
	return out
}

func tagDescription(group string, t region.GroupTag) types.TagDescription {
	return types.TagDescription{
		Key: &t.Key, Value: &t.Value, PropagateAtLaunch: &t.Propagate, ResourceId: &group,
		ResourceType: new("auto-scaling-group"),
	}
}

func createOrUpdateTags(
	c *call, in *autoscaling.CreateOrUpdateTagsInput,
) (*autoscaling.CreateOrUpdateTagsOutput, error) {
	for _, t := range in.Tags {
		err := c.region.TagAutoScalingGroup(aws.ToString(t.ResourceId), groupTags([]types.Tag{t}), nil)
		if err != nil {
			return nil, err
		}
	}
	return &autoscaling.CreateOrUpdateTagsOutput{}, nil
}

func deleteGroupTags(c *call, in *autoscaling.DeleteTagsInput) (*autoscaling.DeleteTagsOutput, error) {
	for _, t := range in.Tags {
		err := c.region.TagAutoScalingGroup(aws.ToString(t.ResourceId), nil, []string{aws.ToString(t.Key)})
		if err != nil {
			return nil, err
		}
	}
	return &autoscaling.DeleteTagsOutput{}, nil
}

// describeGroupTags applies the filters auto-scaling-group, key, value and propagate-at-launch.
func describeGroupTags(c *call, in *autoscaling.DescribeTagsInput) (*autoscaling.DescribeTagsOutput, error) {
	var found []types.TagDescription
	for _, g := range c.region.AutoScalingGroups() {
		for _, t := range g.Tags {
			values := map[string]string{
				"auto-scaling-group": g.Name, "key": t.Key, "value": t.Value, "propagate-at-launch": fmt.Sprint(t.Propagate),
			}
			fits := true
			for _, f := range in.Filters {
				value, known := values[aws.ToString(f.Name)]
				if !known {
					return nil, failure(400, "ValidationError", "Filter type "+aws.ToString(f.Name)+" is not correct. Allowed "+
						"Filter types are: auto-scaling-group, key, value, propagate-at-launch")
				}
				fits = fits && slices.Contains(f.Values, value)
			}
			if fits {
				found = append(found, tagDescription(g.Name, t))
			}
		}
	}
	list, next, err := scalingPage(found, in.MaxRecords, in.NextToken,
		func(t types.TagDescription) string { return *t.ResourceId + " " + *t.Key })
	return &autoscaling.DescribeTagsOutput{Tags: list, NextToken: next}, err
}

func suspendProcesses(c *call, in *autoscaling.SuspendProcessesInput) (*autoscaling.SuspendProcessesOutput, error) {
	return &autoscaling.SuspendProcessesOutput{},
		c.region.SuspendProcesses(aws.ToString(in.AutoScalingGroupName), in.ScalingProcesses)
}

func resumeProcesses(c *call, in *autoscaling.ResumeProcessesInput) (*autoscaling.ResumeProcessesOutput, error) {
	return &autoscaling.ResumeProcessesOutput{},
		c.region.ResumeProcesses(aws.ToString(in.AutoScalingGroupName), in.ScalingProcesses)
}
