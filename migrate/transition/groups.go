package transition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/nodeless/nodeless/migrate"
	"github.com/nodeless/nodeless/migrate/fromaws"
)

// groups accesses the node groups of a cluster in AWS.
type groups struct {
	scaling *autoscaling.Client
	eks     *eks.Client
	cluster string
}

func newGroups(cfg aws.Config, cluster string) *groups {
	return &groups{autoscaling.NewFromConfig(cfg), eks.NewFromConfig(cfg), cluster}
}

// describe returns the Auto Scaling groups that match a request.
func (g *groups) describe(
	ctx context.Context, in autoscaling.DescribeAutoScalingGroupsInput,
) ([]scalingtypes.AutoScalingGroup, error) {
	var out []scalingtypes.AutoScalingGroup
	for pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(g.scaling, &in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("autoscaling:DescribeAutoScalingGroups: %w", err)
		}
		out = append(out, page.AutoScalingGroups...)
	}
	return out, nil
}

// find returns the groups of the workers, and those whose tags say that they belong to the cluster. It leaves out kept
// groups, those with instances of the control plane, and those that kops runs for other purposes than nodes for pods.
func (g *groups) find(ctx context.Context, in instances, kept map[string]bool) ([]Group, error) {
	names := map[string]bool{}
	for part := range slices.Chunk(in.workers, 50) { // the most that one call accepts
		out, err := g.scaling.DescribeAutoScalingInstances(ctx,
			&autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: part})
		if err != nil {
			return nil, fmt.Errorf("autoscaling:DescribeAutoScalingInstances: %w", err)
		}
		for _, i := range out.AutoScalingInstances {
			names[aws.ToString(i.AutoScalingGroupName)] = true
		}
	}
	all, err := g.describe(ctx, autoscaling.DescribeAutoScalingGroupsInput{})
	if err != nil {
		return nil, err
	}
	var out []Group
	for _, a := range all {
		switch {
		case aws.ToString(a.Status) != "": // it is being deleted
			continue
		case !names[*a.AutoScalingGroupName] && !fromaws.OfCluster(a.Tags, g.cluster): // another cluster's
			continue
		case fromaws.RoleOf(a.Tags) != fromaws.Worker || kept[*a.AutoScalingGroupName]:
			continue
		case slices.ContainsFunc(a.Instances, func(i scalingtypes.Instance) bool {
			return slices.Contains(in.control, aws.ToString(i.InstanceId))
		}):
			continue
		}
		found, err := g.groupOf(ctx, a)
		if err != nil {
			return nil, err
		}
		out = append(out, found)
	}
	return out, nil
}

// launch is the process with which a group grows to its size.
const launch = "Launch"

// stopped are the processes with which a group launches or ends instances on its own.
var stopped = []string{"AZRebalance", launch, "ReplaceUnhealthy"}

// groupOf describes a group for the state.
func (g *groups) groupOf(ctx context.Context, a scalingtypes.AutoScalingGroup) (Group, error) {
	out := Group{Name: *a.AutoScalingGroupName, Min: *a.MinSize, Max: *a.MaxSize, Desired: *a.DesiredCapacity}
	for _, process := range stopped {
		if !slices.ContainsFunc(a.SuspendedProcesses, func(p scalingtypes.SuspendedProcess) bool {
			return aws.ToString(p.ProcessName) == process
		}) {
			out.Suspend = append(out.Suspend, process)
		}
	}
	for _, t := range a.Tags {
		if aws.ToString(t.Key) == migrate.ManagedTag {
			out.Nodegroup = aws.ToString(t.Value)
		}
	}
	var definition any
	if out.Nodegroup != "" {
		n, err := g.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{
			ClusterName: &g.cluster, NodegroupName: &out.Nodegroup,
		})
		if err != nil {
			return out, fmt.Errorf("eks:DescribeNodegroup %s: %w", out.Nodegroup, err)
		}
		definition = nodegroupInput(n.Nodegroup)
	} else {
		hooks, err := g.scaling.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{
			AutoScalingGroupName: &out.Name,
		})
		if err != nil {
			return out, fmt.Errorf("autoscaling:DescribeLifecycleHooks of %s: %w", out.Name, err)
		}
		definition = scalingInput(a, hooks.LifecycleHooks)
	}
	text, err := json.Marshal(definition)
	out.Definition = text
	return out, err
}

// nodegroupInput returns the input with which CreateNodegroup creates the node group again.
func nodegroupInput(n *ekstypes.Nodegroup) *eks.CreateNodegroupInput {
	in := &eks.CreateNodegroupInput{
		ClusterName: n.ClusterName, NodegroupName: n.NodegroupName, NodeRole: n.NodeRole, Subnets: n.Subnets,
		AmiType: n.AmiType, CapacityType: n.CapacityType, DiskSize: n.DiskSize, InstanceTypes: n.InstanceTypes,
		Labels: n.Labels, Taints: n.Taints, Tags: n.Tags, ScalingConfig: n.ScalingConfig, UpdateConfig: n.UpdateConfig,
		LaunchTemplate: n.LaunchTemplate, RemoteAccess: n.RemoteAccess, NodeRepairConfig: n.NodeRepairConfig,
		WarmPoolConfig: n.WarmPoolConfig,
	}
	if t := in.LaunchTemplate; t != nil && t.Id != nil {
		in.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Id: t.Id, Version: t.Version}
	}
	if n.AmiType != ekstypes.AMITypesCustom {
		in.ReleaseVersion = n.ReleaseVersion
	}
	return in
}

// scalingInput returns the input with which CreateAutoScalingGroup creates the group again.
func scalingInput(
	a scalingtypes.AutoScalingGroup, hooks []scalingtypes.LifecycleHook,
) *autoscaling.CreateAutoScalingGroupInput {
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: a.AutoScalingGroupName, MinSize: a.MinSize, MaxSize: a.MaxSize,
		DesiredCapacity: a.DesiredCapacity, DesiredCapacityType: a.DesiredCapacityType,
		VPCZoneIdentifier:       a.VPCZoneIdentifier,
		LaunchConfigurationName: a.LaunchConfigurationName, LaunchTemplate: byID(a.LaunchTemplate),
		MixedInstancesPolicy: a.MixedInstancesPolicy, TerminationPolicies: a.TerminationPolicies,
		HealthCheckType: a.HealthCheckType, HealthCheckGracePeriod: a.HealthCheckGracePeriod,
		DefaultCooldown: a.DefaultCooldown, MaxInstanceLifetime: a.MaxInstanceLifetime,
		NewInstancesProtectedFromScaleIn: a.NewInstancesProtectedFromScaleIn, CapacityRebalance: a.CapacityRebalance,
		TargetGroupARNs: a.TargetGroupARNs, LoadBalancerNames: a.LoadBalancerNames, PlacementGroup: a.PlacementGroup,
		CapacityReservationSpecification: a.CapacityReservationSpecification,
		DefaultInstanceWarmup:            a.DefaultInstanceWarmup, InstanceMaintenancePolicy: a.InstanceMaintenancePolicy,
		InstanceLifecyclePolicy: a.InstanceLifecyclePolicy, DeletionProtection: a.DeletionProtection,
		AvailabilityZoneDistribution:     a.AvailabilityZoneDistribution,
		AvailabilityZoneImpairmentPolicy: a.AvailabilityZoneImpairmentPolicy,
	}
	for _, s := range a.TrafficSources { // others are among TargetGroupARNs and LoadBalancerNames, too
		if aws.ToString(s.Type) == "vpc-lattice" {
			in.TrafficSources = append(in.TrafficSources, s)
		}
	}
	if p := a.AvailabilityZoneImpairmentPolicy; p != nil {
		in.SkipZonalShiftValidation = p.ZonalShiftEnabled // AWS accepted it before
	}
	if aws.ToString(a.VPCZoneIdentifier) == "" {
		in.AvailabilityZones = a.AvailabilityZones
	}
	if !strings.HasSuffix(aws.ToString(a.ServiceLinkedRoleARN), "/AWSServiceRoleForAutoScaling") { // AWS's default
		in.ServiceLinkedRoleARN = a.ServiceLinkedRoleARN
	}
	if m := a.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		m.LaunchTemplate.LaunchTemplateSpecification = byID(m.LaunchTemplate.LaunchTemplateSpecification)
		for i := range m.LaunchTemplate.Overrides {
			o := &m.LaunchTemplate.Overrides[i]
			o.LaunchTemplateSpecification = byID(o.LaunchTemplateSpecification)
		}
	}
	for _, t := range a.Tags {
		in.Tags = append(in.Tags, scalingtypes.Tag{
			Key: t.Key, Value: t.Value, PropagateAtLaunch: t.PropagateAtLaunch, ResourceId: t.ResourceId,
			ResourceType: t.ResourceType,
		})
	}
	for _, h := range hooks {
		in.LifecycleHookSpecificationList = append(in.LifecycleHookSpecificationList, scalingtypes.LifecycleHookSpecification{
			LifecycleHookName: h.LifecycleHookName, LifecycleTransition: h.LifecycleTransition,
			DefaultResult: h.DefaultResult, HeartbeatTimeout: h.HeartbeatTimeout,
			NotificationMetadata: h.NotificationMetadata, NotificationTargetARN: h.NotificationTargetARN, RoleARN: h.RoleARN,
		})
	}
	return in
}

// byID names a launch template by its ID alone: AWS accepts either the ID or the name.
func byID(t *scalingtypes.LaunchTemplateSpecification) *scalingtypes.LaunchTemplateSpecification {
	if t == nil || t.LaunchTemplateId == nil {
		return t
	}
	return &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: t.LaunchTemplateId, Version: t.Version}
}

// suspend suspends processes of a group.
func (g *groups) suspend(ctx context.Context, group *Group, processes []string) error {
	if len(processes) == 0 {
		return nil // AWS takes an empty list to mean all processes
	}
	_, err := g.scaling.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: &group.Name, ScalingProcesses: processes,
	})
	if err != nil {
		return fmt.Errorf("autoscaling:SuspendProcesses of %s: %w", group.Name, err)
	}
	return nil
}

// protectable are the states of instances whose protection AWS lets one change.
var protectable = []scalingtypes.LifecycleState{
	scalingtypes.LifecycleStateInService, scalingtypes.LifecycleStateEnteringStandby,
	scalingtypes.LifecycleStateStandby,
}

// unprotect makes a group end its instances when its size falls: AWS keeps those that are protected from scale-in.
func (g *groups) unprotect(ctx context.Context, group *Group) error {
	found, err := g.named(ctx, []Group{*group})
	if err != nil {
		return err
	}
	var protected []string
	for _, a := range found {
		for _, i := range a.Instances {
			if aws.ToBool(i.ProtectedFromScaleIn) && slices.Contains(protectable, i.LifecycleState) {
				protected = append(protected, aws.ToString(i.InstanceId))
			}
		}
	}
	for part := range slices.Chunk(protected, 50) { // the most that one call accepts
		_, err := g.scaling.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{
			AutoScalingGroupName: &group.Name, InstanceIds: part, ProtectedFromScaleIn: aws.Bool(false),
		})
		if err != nil {
			return fmt.Errorf("autoscaling:SetInstanceProtection of %s: %w", group.Name, err)
		}
	}
	return nil
}

// resize sets a group's sizes. For a node group of EKS it calls EKS, which does not accept a maximum of 0.
func (g *groups) resize(ctx context.Context, group *Group, least, most, desired int32) error {
	if group.Nodegroup == "" {
		_, err := g.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
			AutoScalingGroupName: &group.Name, MinSize: &least, MaxSize: &most, DesiredCapacity: &desired,
		})
		if err != nil {
			return fmt.Errorf("autoscaling:UpdateAutoScalingGroup of %s: %w", group.Name, err)
		}
		return nil
	}
	most = max(most, 1)
	_, err := g.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{
		ClusterName: &g.cluster, NodegroupName: &group.Nodegroup,
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: &least, MaxSize: &most, DesiredSize: &desired},
	})
	if err != nil {
		return fmt.Errorf("eks:UpdateNodegroupConfig of %s: %w", group.Nodegroup, err)
	}
	return nil
}

// named returns the groups of the list that exist.
func (g *groups) named(ctx context.Context, list []Group) ([]scalingtypes.AutoScalingGroup, error) {
	var out []scalingtypes.AutoScalingGroup
	for part := range slices.Chunk(list, 50) {
		var names []string
		for _, group := range part {
			names = append(names, group.Name)
		}
		found, err := g.describe(ctx, autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: names})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// countsInstances reports whether size and units count a group's instances because its own size is in vCPUs or memory:
// AWS need not say how much of that an instance is.
func countsInstances(a *scalingtypes.AutoScalingGroup) bool {
	kind := aws.ToString(a.DesiredCapacityType)
	return kind == "vcpu" || kind == "memory-mib"
}

// size returns how many units the instances of a restored group have together. Where instances are counted, it is the
// number that exist, and at least one.
func (g *Group) size(a *scalingtypes.AutoScalingGroup) int {
	if countsInstances(a) {
		return max(len(a.Instances), min(int(g.Desired), 1))
	}
	return int(g.Desired)
}

// units returns how many units of its group's size an instance is: its weight, or 1 if it has none or instances are
// counted.
func units(a *scalingtypes.AutoScalingGroup, i *scalingtypes.Instance) int {
	if weight, err := strconv.Atoi(aws.ToString(i.WeightedCapacity)); err == nil && !countsInstances(a) {
		return weight
	}
	return 1
}

// members returns the group names of the groups' instances, by instance ID.
func (g *groups) members(ctx context.Context, list []Group) (map[string]string, error) {
	found, err := g.named(ctx, list)
	out := map[string]string{}
	for _, a := range found {
		for _, i := range a.Instances {
			out[aws.ToString(i.InstanceId)] = aws.ToString(a.AutoScalingGroupName)
		}
	}
	return out, err
}

// existing returns the titles of the groups that exist, and of the node groups that EKS still has.
func (g *groups) existing(ctx context.Context, list []Group) ([]string, error) {
	found, err := g.named(ctx, list)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list {
		there := slices.ContainsFunc(found, func(a scalingtypes.AutoScalingGroup) bool {
			return *a.AutoScalingGroupName == list[i].Name
		})
		if !there && list[i].Nodegroup != "" {
			n, err := g.nodegroup(ctx, list[i].Nodegroup)
			if err != nil {
				return nil, err
			}
			there = n != nil
		}
		if there {
			out = append(out, list[i].Title())
		}
	}
	return out, nil
}

// nodegroup returns a node group of EKS by name, nil if it does not exist.
func (g *groups) nodegroup(ctx context.Context, name string) (*ekstypes.Nodegroup, error) {
	out, err := g.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &g.cluster, NodegroupName: &name})
	if _, missing := errors.AsType[*ekstypes.ResourceNotFoundException](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("eks:DescribeNodegroup %s: %w", name, err)
	}
	return out.Nodegroup, nil
}

// remove deletes a group, if it exists.
func (g *groups) remove(ctx context.Context, group *Group) error {
	left, err := g.existing(ctx, []Group{*group})
	if err != nil || len(left) == 0 {
		return err
	}
	if group.Nodegroup != "" {
		_, err = g.eks.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{
			ClusterName: &g.cluster, NodegroupName: &group.Nodegroup,
		})
		if err != nil {
			return fmt.Errorf("eks:DeleteNodegroup %s: %w", group.Nodegroup, err)
		}
		return nil
	}
	_, err = g.scaling.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: &group.Name,
	})
	if err != nil {
		return fmt.Errorf("autoscaling:DeleteAutoScalingGroup %s: %w", group.Name, err)
	}
	return nil
}

// restore makes a group what it was, and creates it again if it was deleted. EKS then gives the Auto Scaling group of
// a node group another name, which restore writes into group.
func (g *groups) restore(ctx context.Context, group *Group) error {
	left, err := g.existing(ctx, []Group{*group})
	if err == nil && len(left) == 0 {
		err = g.create(ctx, group)
	}
	if err == nil && group.Nodegroup != "" {
		err = g.rename(ctx, group)
	}
	if err != nil {
		return err
	}
	resumed := group.Suspend
	if !slices.Contains(resumed, launch) { // somebody suspended it before, but the nodes must come back first
		resumed = append(slices.Clone(resumed), launch)
	}
	_, err = g.scaling.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{
		AutoScalingGroupName: &group.Name, ScalingProcesses: resumed,
	})
	if err != nil {
		return fmt.Errorf("autoscaling:ResumeProcesses of %s: %w", group.Name, err)
	}
	found, err := g.named(ctx, []Group{*group})
	if err != nil {
		return err
	}
	desired := group.Desired
	for _, a := range found { // Cluster Autoscaler may have added nodes since an interrupted restore
		desired = max(desired, min(aws.ToInt32(a.DesiredCapacity), group.Max))
	}
	return g.resize(ctx, group, group.Min, group.Max, desired)
}

// create creates a group from its definition.
func (g *groups) create(ctx context.Context, group *Group) error {
	if group.Nodegroup == "" {
		in, err := scalingDefinition(group)
		if err != nil {
			return err
		}
		if _, err := g.scaling.CreateAutoScalingGroup(ctx, in); err != nil {
			return fmt.Errorf("autoscaling:CreateAutoScalingGroup %s: %w", group.Name, err)
		}
		return nil
	}
	in, err := nodegroupDefinition(group)
	if err != nil {
		return err
	}
	if _, err := g.eks.CreateNodegroup(ctx, in); err != nil {
		return fmt.Errorf("eks:CreateNodegroup %s: %w", group.Nodegroup, err)
	}
	return nil
}

// nodegroupDefinition returns the definition of a node group of EKS as AWS accepts it, as scalingDefinition does.
func nodegroupDefinition(group *Group) (*eks.CreateNodegroupInput, error) {
	in := &eks.CreateNodegroupInput{}
	if err := json.Unmarshal(group.Definition, in); err != nil {
		return nil, fmt.Errorf("definition of node group %s: %w", group.Nodegroup, err)
	}
	maps.DeleteFunc(in.Tags, func(key, _ string) bool { return strings.HasPrefix(key, "aws:") })
	return in, nil
}

// scalingDefinition returns the definition of an Auto Scaling group as AWS accepts it: without the tags that only AWS
// may set, such as those of groups that CloudFormation created.
func scalingDefinition(group *Group) (*autoscaling.CreateAutoScalingGroupInput, error) {
	in := &autoscaling.CreateAutoScalingGroupInput{}
	if err := json.Unmarshal(group.Definition, in); err != nil {
		return nil, fmt.Errorf("definition of group %s: %w", group.Name, err)
	}
	in.Tags = slices.DeleteFunc(in.Tags, func(t scalingtypes.Tag) bool {
		return strings.HasPrefix(aws.ToString(t.Key), "aws:")
	})
	return in, nil
}

// rename records the current name of a node group's Auto Scaling group.
func (g *groups) rename(ctx context.Context, group *Group) error {
	n, err := g.nodegroup(ctx, group.Nodegroup)
	if err != nil {
		return err
	}
	if n == nil || n.Resources == nil || len(n.Resources.AutoScalingGroups) == 0 {
		return fmt.Errorf("node group %s has no Auto Scaling group yet; try again in a minute", group.Nodegroup)
	}
	group.Name = aws.ToString(n.Resources.AutoScalingGroups[0].Name)
	return nil
}
