package awsapi

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

var placementGroups = kind[types.PlacementGroup]{
	filters: `group-name group-arn state strategy spread-level tag-key=Tags.Key tag-value=Tags.Value`,
	ids: []naming{
		{"GroupIds", "GroupId", "InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown."},
		{"GroupNames", "GroupName", "InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown."},
	},
}

func describePlacementGroups(
	c *call, in *ec2.DescribePlacementGroupsInput,
) (*ec2.DescribePlacementGroupsOutput, error) {
	var all []types.PlacementGroup
	for _, g := range c.region.PlacementGroups() {
		all = append(all, c.placementGroupOf(g))
	}
	found, err := placementGroups.choose(in, all)
	return &ec2.DescribePlacementGroupsOutput{PlacementGroups: found}, err
}

func (c *call) placementGroupOf(g region.PlacementGroup) types.PlacementGroup {
	x := types.PlacementGroup{
		GroupId: &g.ID, GroupName: &g.Name, State: types.PlacementGroupStateAvailable, Tags: tagsOf(g.Tags),
		Strategy: types.PlacementStrategy(g.Strategy),
		GroupArn: new("arn:aws:ec2:" + c.region.Name() + ":" + region.AccountID + ":placement-group/" + g.Name),
	}
	switch g.Strategy {
	case region.PartitionPlacement:
		x.PartitionCount = new(int32(g.Partitions))
	case region.SpreadPlacement:
		x.SpreadLevel = types.SpreadLevelRack
	}
	return x
}

func createPlacementGroup(c *call, in *ec2.CreatePlacementGroupInput) (*ec2.CreatePlacementGroupOutput, error) {
	if in.SpreadLevel == types.SpreadLevelHost {
		return nil, invalidParameter("SpreadLevel", string(in.SpreadLevel), "rack: host is for AWS Outposts")
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	g, err := c.region.CreatePlacementGroup(region.PlacementGroup{
		Name: aws.ToString(in.GroupName), Strategy: string(in.Strategy), Partitions: int(aws.ToInt32(in.PartitionCount)),
		Tags: tagsFor(types.ResourceTypePlacementGroup, in.TagSpecifications),
	})
	if err != nil {
		return nil, err
	}
	return &ec2.CreatePlacementGroupOutput{PlacementGroup: new(c.placementGroupOf(g))}, nil
}

func deletePlacementGroup(c *call, in *ec2.DeletePlacementGroupInput) (*ec2.DeletePlacementGroupOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	return &ec2.DeletePlacementGroupOutput{}, c.region.DeletePlacementGroup(*in.GroupName)
}

// placementChoice reads the placement group and partition of a launch. The zone is read elsewhere.
func placementChoice(group, id *string, partition *int32) (region.PlacementChoice, error) {
	out := region.PlacementChoice{Group: aws.ToString(id), Partition: int(aws.ToInt32(partition))}
	if name := aws.ToString(group); name != "" {
		if out.Group != "" {
			return out, failure(400, "InvalidParameterCombination",
				"The parameters placementGroupName and placementGroupId cannot be used together")
		}
		out.Group = name
	}
	if out.Partition != 0 && out.Group == "" {
		return out, failure(400, "InvalidParameterCombination", "PartitionNumber needs a placement group")
	}
	return out, nil
}

// placed adds the placement groups of instances to their descriptions.
func (c *call) placed(list []types.Instance, from []region.Instance) {
	if !slices.ContainsFunc(from, func(i region.Instance) bool { return i.PlacementGroupID != "" }) {
		return
	}
	names := map[string]string{}
	for _, g := range c.region.PlacementGroups() {
		names[g.ID] = g.Name
	}
	for n, i := range from {
		if p := list[n].Placement; i.PlacementGroupID != "" {
			p.GroupId, p.GroupName = &i.PlacementGroupID, new(names[i.PlacementGroupID])
			if i.Partition > 0 {
				p.PartitionNumber = new(int32(i.Partition))
			}
		}
	}
}
