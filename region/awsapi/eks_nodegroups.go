package awsapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/nodeless/nodeless/region"
)

// effects maps EKS's taint effects to Kubernetes'.
var effects = map[types.TaintEffect]string{
	types.TaintEffectNoSchedule: "NoSchedule", types.TaintEffectNoExecute: "NoExecute",
	types.TaintEffectPreferNoSchedule: "PreferNoSchedule",
}

func nodegroupTaints(list []types.Taint) ([]region.NodegroupTaint, error) {
	var out []region.NodegroupTaint
	for _, t := range list {
		effect := effects[t.Effect]
		if effect == "" || aws.ToString(t.Key) == "" {
			return nil, failure(400, "InvalidParameterException", fmt.Sprintf("taint %s: the effect '%s' is not one of %v",
				aws.ToString(t.Key), t.Effect, types.TaintEffectNoSchedule.Values()))
		}
		out = append(out, region.NodegroupTaint{Key: *t.Key, Value: aws.ToString(t.Value), Effect: effect})
	}
	return out, nil
}

func createNodegroup(c *call, in *eks.CreateNodegroupInput) (*eks.CreateNodegroupOutput, error) {
	if err := c.checkNodegroup(in); err != nil {
		return nil, err
	}
	taints, err := nodegroupTaints(in.Taints)
	if err != nil {
		return nil, err
	}
	want := region.NodegroupSettings{
		ClientToken: aws.ToString(in.ClientRequestToken), Min: 1, Max: 2, Desired: 2,
		InstanceTypes: in.InstanceTypes, Spot: in.CapacityType == types.CapacityTypesSpot,
		AMIType: string(in.AmiType), DiskGiB: int(aws.ToInt32(in.DiskSize)), Subnets: in.Subnets,
		Role: aws.ToString(in.NodeRole), Labels: in.Labels, Taints: taints, Tags: in.Tags,
		Drain: c.kubernetes.Kubernetes != nil, WantRelease: aws.ToString(in.ReleaseVersion),
	}
	if t := in.LaunchTemplate; t != nil {
		want.Template = region.TemplateRef{
			ID: aws.ToString(t.Id), Name: aws.ToString(t.Name), Version: aws.ToString(t.Version),
		}
	}
	setSizes(&want, in.ScalingConfig, in.UpdateConfig)
	n, err := c.region.CreateNodegroup(aws.ToString(in.ClusterName), aws.ToString(in.NodegroupName), want)
	if err != nil {
		return nil, tokenReused(err)
	}
	if k := c.kubernetes.Kubernetes; k != nil {
		if err := k.MapRole(c.ctx, instanceRole(want.Role)); err != nil {
			return nil, err
		}
	}
	return &eks.CreateNodegroupOutput{Nodegroup: nodegroupOf(n)}, nil
}

// tokenReused returns EKS's error for a client token that was used before with other parameters in place of EC2's.
func tokenReused(err error) error {
	if e, ok := asAPIError(err); ok && e.Code == "IdempotentParameterMismatch" {
		return failure(400, "InvalidRequestException", e.Message)
	}
	return err
}

// checkNodegroup returns an error if a new node group has settings that are wrong, or that would be ignored.
func (c *call) checkNodegroup(in *eks.CreateNodegroupInput) error {
	cluster, err := c.region.Cluster(aws.ToString(in.ClusterName))
	if err != nil {
		return err
	}
	version := aws.ToString(in.Version)
	unserved := map[string]bool{
		"remoteAccess": in.RemoteAccess != nil, "nodeRepairConfig": in.NodeRepairConfig != nil,
		"warmPoolConfig":                   in.WarmPoolConfig != nil,
		"version other than the cluster's": version != "" && version != region.MinorVersion(cluster.Version),
		"capacityType CAPACITY_BLOCK":      in.CapacityType == types.CapacityTypesCapacityBlock,
	}
	if name := firstSet(unserved); name != "" {
		return failure(400, "InvalidParameterException",
			"The simulated region does not serve "+name+" of node groups: leave it out.")
	}
	role, invalid := roleARN.FindStringSubmatch(aws.ToString(in.NodeRole)), ""
	switch {
	case role == nil:
		invalid = "The provided role '" + aws.ToString(in.NodeRole) + "' is not the ARN of a role"
	case !c.hasRole(role[1]):
		invalid = "The role with name " + role[1] + " cannot be found."
	case in.DiskSize != nil && in.LaunchTemplate != nil:
		invalid = "Disk size must be specified within the launch template."
	}
	if invalid != "" {
		return failure(400, "InvalidParameterException", invalid)
	}
	return cmp.Or(checkUpdateConfig(in.UpdateConfig), c.checkSubnets(in.Subnets), checkTags(in.Tags))
}

// hasRole reports whether the account has a role, given the path and name in its ARN.
func (c *call) hasRole(path string) bool {
	_, err := c.region.Role(path[strings.LastIndex(path, "/")+1:])
	return err == nil
}

// checkUpdateConfig returns an error unless an update configuration has exactly one of its numbers.
func checkUpdateConfig(u *types.NodegroupUpdateConfig) error {
	if u != nil && (u.MaxUnavailable == nil) == (u.MaxUnavailablePercentage == nil) {
		return failure(400, "InvalidParameterException",
			"updateConfig: give either maxUnavailable or maxUnavailablePercentage, but not both")
	}
	return nil
}

func setSizes(s *region.NodegroupSettings, sizes *types.NodegroupScalingConfig, update *types.NodegroupUpdateConfig) {
	if sizes != nil {
		setNumber(&s.Min, sizes.MinSize)
		setNumber(&s.Max, sizes.MaxSize)
		setNumber(&s.Desired, cmp.Or(sizes.DesiredSize, sizes.MinSize))
	}
	if update != nil {
		s.MaxUnavailable, s.MaxUnavailablePercent = 0, 0
		setNumber(&s.MaxUnavailable, update.MaxUnavailable)
		setNumber(&s.MaxUnavailablePercent, update.MaxUnavailablePercentage)
	}
}

// nodegroupOf converts a node group to EKS's type.
func nodegroupOf(n region.NodegroupState) *types.Nodegroup {
	out := &types.Nodegroup{
		NodegroupName: &n.Name, NodegroupArn: &n.ARN, ClusterName: &n.Cluster, Version: &n.Version,
		ReleaseVersion: optional(n.Release), CreatedAt: &n.CreatedAt, ModifiedAt: &n.ModifiedAt,
		Status: types.NodegroupStatus(n.Status), CapacityType: types.CapacityTypesOnDemand,
		ScalingConfig: &types.NodegroupScalingConfig{
			MinSize: number32(n.Min), MaxSize: number32(n.Max), DesiredSize: number32(n.Desired),
		},
		InstanceTypes: n.InstanceTypes, Subnets: n.Subnets, AmiType: types.AMITypes(n.AMIType), NodeRole: &n.Role,
		Labels: merged(n.Labels), Taints: []types.Taint{}, Tags: merged(n.Tags), Health: &types.NodegroupHealth{
			Issues: []types.Issue{},
		},
		Resources: &types.NodegroupResources{},
		UpdateConfig: &types.NodegroupUpdateConfig{
			MaxUnavailable: number32(max(n.MaxUnavailable, 1)),
		},
	}
	if n.Group != "" {
		out.Resources.AutoScalingGroups = []types.AutoScalingGroup{{Name: &n.Group}}
	}
	if n.Spot {
		out.CapacityType = types.CapacityTypesSpot
	}
	if n.Template == (region.TemplateRef{}) {
		out.DiskSize = number32(cmp.Or(n.DiskGiB, 20))
	} else {
		out.LaunchTemplate = &types.LaunchTemplateSpecification{
			Id: optional(n.Template.ID), Name: optional(n.Template.Name), Version: optional(n.Template.Version),
		}
	}
	if n.MaxUnavailablePercent > 0 {
		out.UpdateConfig = &types.NodegroupUpdateConfig{MaxUnavailablePercentage: number32(n.MaxUnavailablePercent)}
	}
	for _, t := range n.Taints {
		x := types.Taint{Key: &t.Key, Value: optional(t.Value)}
		for effect, name := range effects {
			if name == t.Effect {
				x.Effect = effect
			}
		}
		out.Taints = append(out.Taints, x)
	}
	switch {
	case n.Invalid != "":
		out.Health.Issues = append(out.Health.Issues, types.Issue{
			Code: types.NodegroupIssueCodeEc2LaunchTemplateInvalidConfiguration, Message: &n.Issue, ResourceIds: []string{},
		})
	case n.Issue != "":
		out.Health.Issues = append(out.Health.Issues, types.Issue{
			Code: types.NodegroupIssueCodeAsgInstanceLaunchFailures, Message: &n.Issue, ResourceIds: []string{n.Group},
		})
	}
	return out
}

// merged returns a copy of a map, never nil.
func merged(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

func listNodegroups(c *call, in *eks.ListNodegroupsInput) (*eks.ListNodegroupsOutput, error) {
	all, err := c.region.Nodegroups(aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	names, next, err := eksPage(names, in.MaxResults, in.NextToken)
	return &eks.ListNodegroupsOutput{Nodegroups: names, NextToken: next}, err
}

// nodegroup finds a node group.
func (c *call) nodegroup(cluster, name *string) (region.NodegroupState, error) {
	all, err := c.region.Nodegroups(aws.ToString(cluster))
	if err != nil {
		return region.NodegroupState{}, err
	}
	i := slices.IndexFunc(all, func(n region.NodegroupState) bool { return n.Name == aws.ToString(name) })
	if i < 0 {
		return region.NodegroupState{}, failure(404, "ResourceNotFoundException",
			"No node group found for name: "+aws.ToString(name)+".")
	}
	return all[i], nil
}

func describeNodegroup(c *call, in *eks.DescribeNodegroupInput) (*eks.DescribeNodegroupOutput, error) {
	n, err := c.nodegroup(in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeNodegroupOutput{Nodegroup: nodegroupOf(n)}, nil
}

func deleteNodegroup(c *call, in *eks.DeleteNodegroupInput) (*eks.DeleteNodegroupOutput, error) {
	n, err := c.region.DeleteNodegroup(aws.ToString(in.ClusterName), aws.ToString(in.NodegroupName))
	if err != nil {
		return nil, err
	}
	all, err := c.region.Nodegroups(n.Cluster)
	if err != nil {
		return nil, err
	}
	shared := slices.ContainsFunc(all, func(o region.NodegroupState) bool { return o.Name != n.Name && o.Role == n.Role })
	if k := c.kubernetes.Kubernetes; k != nil && !shared {
		if err := k.UnmapRole(c.ctx, instanceRole(n.Role)); err != nil {
			return nil, err
		}
	}
	return &eks.DeleteNodegroupOutput{Nodegroup: nodegroupOf(n)}, nil
}

func updateNodegroupConfig(
	c *call, in *eks.UpdateNodegroupConfigInput,
) (*eks.UpdateNodegroupConfigOutput, error) {
	var labels types.UpdateLabelsPayload
	var taints types.UpdateTaintsPayload
	if in.Labels != nil {
		labels = *in.Labels
	}
	if in.Taints != nil {
		taints = *in.Taints
	}
	added, err := nodegroupTaints(taints.AddOrUpdateTaints)
	if err := cmp.Or(err, checkUpdateConfig(in.UpdateConfig)); err != nil {
		return nil, err
	}
	removed, err := nodegroupTaints(taints.RemoveTaints)
	if err != nil {
		return nil, err
	}
	params := map[string]string{}
	if s := in.ScalingConfig; s != nil {
		for key, value := range map[string]*int32{"MinSize": s.MinSize, "MaxSize": s.MaxSize, "DesiredSize": s.DesiredSize} {
			if value != nil {
				params[key] = fmt.Sprint(*value)
			}
		}
	}
	change := func(s *region.NodegroupSettings) error {
		desired := s.Desired
		setSizes(s, in.ScalingConfig, in.UpdateConfig)
		if in.ScalingConfig != nil && in.ScalingConfig.DesiredSize == nil {
			s.Desired = desired
		}
		s.Labels = merged(s.Labels)
		maps.Copy(s.Labels, labels.AddOrUpdateLabels)
		for _, key := range labels.RemoveLabels {
			delete(s.Labels, key)
		}
		s.Taints = slices.DeleteFunc(slices.Clone(s.Taints), func(have region.NodegroupTaint) bool {
			return slices.ContainsFunc(slices.Concat(added, removed), func(t region.NodegroupTaint) bool {
				return t.Key == have.Key && t.Effect == have.Effect
			})
		})
		s.Taints = append(s.Taints, added...)
		return nil
	}
	u, err := c.region.UpdateNodegroupConfig(aws.ToString(in.ClusterName), aws.ToString(in.NodegroupName), params, change)
	if err != nil {
		return nil, err
	}
	return &eks.UpdateNodegroupConfigOutput{Update: updateOf(u)}, nil
}

// updateOf converts an update, which the region has already applied.
func updateOf(u region.NodegroupUpdate) *types.Update {
	out := &types.Update{
		Id: &u.ID, Type: types.UpdateType(u.Type), CreatedAt: &u.At, Status: types.UpdateStatusSuccessful,
		Errors: []types.ErrorDetail{}, Params: []types.UpdateParam{},
	}
	for _, key := range slices.Sorted(maps.Keys(u.Params)) {
		out.Params = append(out.Params, types.UpdateParam{
			Type: types.UpdateParamType(key), Value: new(u.Params[key]),
		})
	}
	return out
}

func describeUpdate(c *call, in *eks.DescribeUpdateInput) (*eks.DescribeUpdateOutput, error) {
	n, err := c.nodegroup(in.Name, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	for _, u := range n.Updates {
		if u.ID == aws.ToString(in.UpdateId) {
			return &eks.DescribeUpdateOutput{Update: updateOf(u)}, nil
		}
	}
	return nil, failure(404, "ResourceNotFoundException", "No update found for ID: "+aws.ToString(in.UpdateId))
}
