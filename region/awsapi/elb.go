package awsapi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/nodeless/nodeless/region"
)

// elbPageSize is ELB's default page size.
const elbPageSize = 400

// elbNamed returns the resources that a request names, all of them if it names none. code and what make the error for
// an unknown name.
func elbNamed[T any](list []T, names []string, key func(T) string, code, what string) ([]T, error) {
	if len(names) == 0 {
		return list, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(list, func(v T) bool { return key(v) == name }) {
			return nil, failure(400, code, fmt.Sprintf("%s '%s' not found", what, name))
		}
	}
	return slices.DeleteFunc(list, func(v T) bool { return !slices.Contains(names, key(v)) }), nil
}

// elbTagMap converts the tags of a request.
func elbTagMap(tags []types.Tag) map[string]string { return tagMap(copyOf[[]ec2types.Tag](tags)) }

// loadBalancerOf converts a load balancer to ELB's type.
func (c *call) loadBalancerOf(b region.LoadBalancer) types.LoadBalancer {
	state := types.LoadBalancerStateEnumProvisioning
	if b.Active {
		state = types.LoadBalancerStateEnumActive
	}
	out := types.LoadBalancer{
		LoadBalancerArn: &b.ARN, LoadBalancerName: &b.Name, DNSName: &b.DNSName, CreatedTime: &b.CreatedAt,
		CanonicalHostedZoneId: new("Z1H1FL5HABSF5"), Type: types.LoadBalancerTypeEnum(b.Type),
		Scheme: types.LoadBalancerSchemeEnum(b.Scheme), VpcId: new(region.VPCID), IpAddressType: types.IpAddressTypeIpv4,
		State: &types.LoadBalancerState{Code: state}, SecurityGroups: b.SecurityGroups,
	}
	for _, s := range c.region.Subnets() {
		if slices.Contains(b.Subnets, s.ID) {
			out.AvailabilityZones = append(out.AvailabilityZones, types.AvailabilityZone{
				ZoneName: &s.Zone, SubnetId: &s.ID, LoadBalancerAddresses: []types.LoadBalancerAddress{},
			})
		}
	}
	return out
}

func createLoadBalancer(c *call, in *elb.CreateLoadBalancerInput) (*elb.CreateLoadBalancerOutput, error) {
	subnets := slices.Clone(in.Subnets)
	for _, m := range in.SubnetMappings {
		subnets = append(subnets, aws.ToString(m.SubnetId))
	}
	if in.IpAddressType != "" && in.IpAddressType != types.IpAddressTypeIpv4 {
		return nil, failure(400, "InvalidConfigurationRequest", "The subnets of the simulated region have no IPv6 addresses")
	}
	b, err := c.region.CreateLoadBalancer(region.LoadBalancer{
		Name: *in.Name, Type: string(in.Type), Scheme: string(in.Scheme), Subnets: subnets,
		SecurityGroups: in.SecurityGroups, Tags: elbTagMap(in.Tags),
	})
	if err != nil {
		return nil, err
	}
	return &elb.CreateLoadBalancerOutput{LoadBalancers: []types.LoadBalancer{c.loadBalancerOf(b)}}, nil
}

func describeLoadBalancers(c *call, in *elb.DescribeLoadBalancersInput) (*elb.DescribeLoadBalancersOutput, error) {
	arn := func(b region.LoadBalancer) string { return b.ARN }
	all, err := elbNamed(c.region.LoadBalancers(), in.LoadBalancerArns, arn, "LoadBalancerNotFound", "Load balancer")
	if err != nil {
		return nil, err
	}
	all, err = elbNamed(all, in.Names, func(b region.LoadBalancer) string { return b.Name }, "LoadBalancerNotFound",
		"Load balancer")
	if err != nil {
		return nil, err
	}
	list, next, err := page(all, in.PageSize, elbPageSize, in.Marker, arn)
	out := &elb.DescribeLoadBalancersOutput{LoadBalancers: []types.LoadBalancer{}, NextMarker: next}
	for _, b := range list {
		out.LoadBalancers = append(out.LoadBalancers, c.loadBalancerOf(b))
	}
	return out, err
}

func deleteLoadBalancer(c *call, in *elb.DeleteLoadBalancerInput) (*elb.DeleteLoadBalancerOutput, error) {
	return &elb.DeleteLoadBalancerOutput{}, c.region.DeleteLoadBalancer(*in.LoadBalancerArn)
}

// attributesOf converts attributes, sorted by key; A is the SDK's attribute type of one kind of resource.
func attributesOf[A any](attributes map[string]string) []A {
	out := []A{}
	for _, k := range slices.Sorted(maps.Keys(attributes)) {
		out = append(out, copyOf[A](types.LoadBalancerAttribute{Key: &k, Value: new(attributes[k])}))
	}
	return out
}

func describeLoadBalancerAttributes(
	c *call, in *elb.DescribeLoadBalancerAttributesInput,
) (*elb.DescribeLoadBalancerAttributesOutput, error) {
	found, err := elbNamed(c.region.LoadBalancers(), []string{*in.LoadBalancerArn},
		func(b region.LoadBalancer) string { return b.ARN }, "LoadBalancerNotFound", "Load balancer")
	if err != nil {
		return nil, err
	}
	return &elb.DescribeLoadBalancerAttributesOutput{
		Attributes: attributesOf[types.LoadBalancerAttribute](found[0].Attributes),
	}, nil
}

func modifyLoadBalancerAttributes(
	c *call, in *elb.ModifyLoadBalancerAttributesInput,
) (*elb.ModifyLoadBalancerAttributesOutput, error) {
	all, err := c.region.ModifyLoadBalancerAttributes(*in.LoadBalancerArn, tagMap(copyOf[[]ec2types.Tag](in.Attributes)))
	return &elb.ModifyLoadBalancerAttributesOutput{Attributes: attributesOf[types.LoadBalancerAttribute](all)}, err
}

func elbAddTags(c *call, in *elb.AddTagsInput) (*elb.AddTagsOutput, error) {
	return &elb.AddTagsOutput{}, c.region.TagLoadBalancing(in.ResourceArns, elbTagMap(in.Tags), nil)
}

func elbRemoveTags(c *call, in *elb.RemoveTagsInput) (*elb.RemoveTagsOutput, error) {
	return &elb.RemoveTagsOutput{}, c.region.TagLoadBalancing(in.ResourceArns, nil, in.TagKeys)
}

// elbDescribeTags handles at most 20 resources per request, as ELB does.
func elbDescribeTags(c *call, in *elb.DescribeTagsInput) (*elb.DescribeTagsOutput, error) {
	if len(in.ResourceArns) > 20 {
		return nil, failure(400, "ValidationError", "A maximum of '20' resource ARNs can be specified")
	}
	out := &elb.DescribeTagsOutput{TagDescriptions: []types.TagDescription{}}
	for _, arn := range in.ResourceArns {
		tags, err := c.region.LoadBalancingTags(arn)
		if err != nil {
			return nil, err
		}
		out.TagDescriptions = append(out.TagDescriptions,
			types.TagDescription{ResourceArn: &arn, Tags: copyOf[[]types.Tag](tagsOf(tags))})
	}
	return out, nil
}
