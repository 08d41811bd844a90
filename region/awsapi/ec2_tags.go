package awsapi

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// tagsOf returns tags sorted by key.
func tagsOf(tags map[string]string) []types.Tag {
	out := []types.Tag{}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: &k, Value: new(tags[k])})
	}
	return out
}

// tagMap is the inverse of tagsOf; a tag without a value gets an empty one.
func tagMap(tags []types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[*t.Key] = aws.ToString(t.Value)
	}
	return out
}

// tagsFor returns the tags that specifications assign to one kind of resource.
func tagsFor(kind types.ResourceType, specifications []types.TagSpecification) map[string]string {
	tags := map[string]string{}
	for _, s := range specifications {
		if s.ResourceType == kind {
			maps.Copy(tags, tagMap(s.Tags))
		}
	}
	return tags
}

// allTags returns every tag in the region.
func allTags(r *region.Region) []types.TagDescription {
	var all []types.TagDescription
	add := func(kind types.ResourceType, id string, tags map[string]string) {
		for _, t := range tagsOf(tags) {
			all = append(all, types.TagDescription{ResourceId: &id, ResourceType: kind, Key: t.Key, Value: t.Value})
		}
	}
	for _, i := range r.Instances() {
		add(types.ResourceTypeInstance, i.ID, i.Tags)
	}
	for _, t := range r.LaunchTemplates() {
		add(types.ResourceTypeLaunchTemplate, t.ID, t.Tags)
	}
	add(types.ResourceTypeVpc, region.VPCID, r.VPCTags())
	for _, s := range r.Subnets() {
		add(types.ResourceTypeSubnet, s.ID, s.Tags)
		reservations, _ := r.SubnetCIDRReservations(s.ID) // none of a subnet that was deleted just now
		for _, q := range reservations {
			add(types.ResourceTypeSubnetCidrReservation, q.ID, q.Tags)
		}
	}
	for _, e := range r.NetworkInterfaces() {
		add(types.ResourceTypeNetworkInterface, e.ID, e.Tags)
	}
	for _, g := range r.SecurityGroups() {
		add(types.ResourceTypeSecurityGroup, g.ID, g.Tags)
	}
	for _, c := range r.CapacityReservations() {
		add(types.ResourceTypeCapacityReservation, c.ID, c.Tags)
	}
	for _, g := range r.PlacementGroups() {
		add(types.ResourceTypePlacementGroup, g.ID, g.Tags)
	}
	for _, i := range r.Images() {
		add(types.ResourceTypeImage, i.ID, i.Tags)
	}
	return all
}

var tagDescriptions = kind[types.TagDescription]{
	key: "ResourceId Key", usual: 1000, filters: "resource-id resource-type key value",
}

func describeTags(c *call, in *ec2.DescribeTagsInput) (*ec2.DescribeTagsOutput, error) {
	found, next, err := tagDescriptions.answer(in, allTags(c.region))
	return &ec2.DescribeTagsOutput{Tags: found, NextToken: next}, err
}

func createTags(c *call, in *ec2.CreateTagsInput) (*ec2.CreateTagsOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	return &ec2.CreateTagsOutput{}, c.region.CreateTags(in.Resources, tagMap(in.Tags))
}

// deleteTags removes tags by key, or by key and value where the request has one. Unlike EC2, it does not delete all
// tags if the request names none.
func deleteTags(c *call, in *ec2.DeleteTagsInput) (*ec2.DeleteTagsOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	tags := map[string]*string{}
	for _, t := range in.Tags {
		tags[*t.Key] = t.Value
	}
	return &ec2.DeleteTagsOutput{}, c.region.DeleteTags(in.Resources, tags)
}
