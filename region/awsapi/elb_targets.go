package awsapi

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/nodeless/nodeless/region"
)

// targetGroupOf converts a target group to ELB's type.
func (c *call) targetGroupOf(g region.TargetGroup) types.TargetGroup {
	g.Targets, g.Tags, g.Attributes = nil, nil, nil
	out := copyOf[types.TargetGroup](g)
	out.HealthCheckEnabled, out.IpAddressType = new(true), types.TargetGroupIpAddressTypeEnumIpv4
	out.LoadBalancerArns = append([]string{}, c.region.LoadBalancersOf(g.TargetGroupARN)...)
	if g.Codes != "" {
		out.Matcher = &types.Matcher{HttpCode: &g.Codes}
	}
	return out
}

// healthCheckOf converts the health check parameters that CreateTargetGroup and ModifyTargetGroup share.
func healthCheckOf(in *elb.ModifyTargetGroupInput) (region.HealthCheck, error) {
	if in.HealthCheckEnabled != nil && !*in.HealthCheckEnabled {
		return region.HealthCheck{}, failure(400, "ValidationError",
			"Health check enabled must be true for target groups of the types ip and instance")
	}
	h := copyOf[region.HealthCheck](in)
	if in.Matcher != nil {
		h.Codes = aws.ToString(in.Matcher.HttpCode)
	}
	return h, nil
}

func createTargetGroup(c *call, in *elb.CreateTargetGroupInput) (*elb.CreateTargetGroupOutput, error) {
	h, err := healthCheckOf(&elb.ModifyTargetGroupInput{
		HealthCheckEnabled: in.HealthCheckEnabled, HealthCheckIntervalSeconds: in.HealthCheckIntervalSeconds,
		HealthCheckPath: in.HealthCheckPath, HealthCheckPort: in.HealthCheckPort,
		HealthCheckProtocol: in.HealthCheckProtocol, HealthCheckTimeoutSeconds: in.HealthCheckTimeoutSeconds,
		HealthyThresholdCount: in.HealthyThresholdCount, UnhealthyThresholdCount: in.UnhealthyThresholdCount,
		Matcher: in.Matcher,
	})
	if err != nil {
		return nil, err
	}
	g, err := c.region.CreateTargetGroup(region.TargetGroup{
		TargetGroupName: *in.Name, Protocol: string(in.Protocol), ProtocolVersion: aws.ToString(in.ProtocolVersion),
		Port: int(aws.ToInt32(in.Port)), TargetType: string(in.TargetType), VPCID: aws.ToString(in.VpcId),
		HealthCheck: h, Tags: elbTagMap(in.Tags),
	})
	if err != nil {
		return nil, err
	}
	return &elb.CreateTargetGroupOutput{TargetGroups: []types.TargetGroup{c.targetGroupOf(g)}}, nil
}

func describeTargetGroups(c *call, in *elb.DescribeTargetGroupsInput) (*elb.DescribeTargetGroupsOutput, error) {
	arn := func(g region.TargetGroup) string { return g.TargetGroupARN }
	all, err := elbNamed(c.region.TargetGroups(), in.TargetGroupArns, arn, "TargetGroupNotFound", "Target group")
	if err != nil {
		return nil, err
	}
	all, err = elbNamed(all, in.Names, func(g region.TargetGroup) string { return g.TargetGroupName },
		"TargetGroupNotFound", "Target group")
	if err != nil {
		return nil, err
	}
	if in.LoadBalancerArn != nil {
		all = slices.DeleteFunc(all, func(g region.TargetGroup) bool {
			return !slices.Contains(c.region.LoadBalancersOf(g.TargetGroupARN), *in.LoadBalancerArn)
		})
	}
	list, next, err := page(all, in.PageSize, elbPageSize, in.Marker, arn)
	out := &elb.DescribeTargetGroupsOutput{TargetGroups: []types.TargetGroup{}, NextMarker: next}
	for _, g := range list {
		out.TargetGroups = append(out.TargetGroups, c.targetGroupOf(g))
	}
	return out, err
}

func modifyTargetGroup(c *call, in *elb.ModifyTargetGroupInput) (*elb.ModifyTargetGroupOutput, error) {
	h, err := healthCheckOf(in)
	if err != nil {
		return nil, err
	}
	g, err := c.region.ModifyTargetGroup(*in.TargetGroupArn, h)
	if err != nil {
		return nil, err
	}
	return &elb.ModifyTargetGroupOutput{TargetGroups: []types.TargetGroup{c.targetGroupOf(g)}}, nil
}

func deleteTargetGroup(c *call, in *elb.DeleteTargetGroupInput) (*elb.DeleteTargetGroupOutput, error) {
	return &elb.DeleteTargetGroupOutput{}, c.region.DeleteTargetGroup(*in.TargetGroupArn)
}

// targetGroup returns a target group by ARN.
func (c *call) targetGroup(arn string) (region.TargetGroup, error) {
	found, err := elbNamed(c.region.TargetGroups(), []string{arn},
		func(g region.TargetGroup) string { return g.TargetGroupARN }, "TargetGroupNotFound", "Target group")
	if err != nil {
		return region.TargetGroup{}, err
	}
	return found[0], nil
}

func describeTargetGroupAttributes(
	c *call, in *elb.DescribeTargetGroupAttributesInput,
) (*elb.DescribeTargetGroupAttributesOutput, error) {
	g, err := c.targetGroup(*in.TargetGroupArn)
	return &elb.DescribeTargetGroupAttributesOutput{
		Attributes: attributesOf[types.TargetGroupAttribute](g.Attributes),
	}, err
}

func modifyTargetGroupAttributes(
	c *call, in *elb.ModifyTargetGroupAttributesInput,
) (*elb.ModifyTargetGroupAttributesOutput, error) {
	all, err := c.region.ModifyTargetGroupAttributes(*in.TargetGroupArn, tagMap(copyOf[[]ec2types.Tag](in.Attributes)))
	return &elb.ModifyTargetGroupAttributesOutput{Attributes: attributesOf[types.TargetGroupAttribute](all)}, err
}

// targetsOf converts the targets of a request.
func targetsOf(in []types.TargetDescription) []region.Target {
	var out []region.Target
	for _, t := range in {
		out = append(out, region.Target{
			ID: aws.ToString(t.Id), Port: int(aws.ToInt32(t.Port)), Zone: aws.ToString(t.AvailabilityZone),
		})
	}
	return out
}

func registerTargets(c *call, in *elb.RegisterTargetsInput) (*elb.RegisterTargetsOutput, error) {
	return &elb.RegisterTargetsOutput{}, c.region.RegisterTargets(*in.TargetGroupArn, targetsOf(in.Targets))
}

func deregisterTargets(c *call, in *elb.DeregisterTargetsInput) (*elb.DeregisterTargetsOutput, error) {
	return &elb.DeregisterTargetsOutput{}, c.region.DeregisterTargets(*in.TargetGroupArn, targetsOf(in.Targets))
}

func describeTargetHealth(c *call, in *elb.DescribeTargetHealthInput) (*elb.DescribeTargetHealthOutput, error) {
	g, err := c.targetGroup(*in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	targets := g.Targets
	if len(in.Targets) > 0 {
		targets = targetsOf(in.Targets)
	}
	out := &elb.DescribeTargetHealthOutput{TargetHealthDescriptions: []types.TargetHealthDescription{}}
	for _, t := range targets {
		t.Port = cmp.Or(t.Port, g.Port)
		h, err := c.region.TargetHealth(g.TargetGroupARN, t)
		if err != nil {
			return nil, err
		}
		x := types.TargetHealthDescription{
			Target: &types.TargetDescription{
				Id: &t.ID, Port: new(int32(t.Port)), AvailabilityZone: optional(t.Zone),
			},
			HealthCheckPort: &g.HealthCheckPort,
			TargetHealth: &types.TargetHealth{
				State: types.TargetHealthStateEnum(h.State), Reason: types.TargetHealthReasonEnum(h.Reason),
				Description: optional(h.Description),
			},
		}
		if g.HealthCheckPort == "traffic-port" {
			x.HealthCheckPort = new(strconv.Itoa(t.Port))
		}
		out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, x)
	}
	return out, nil
}
