package awsapi

import (
	"cmp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/nodeless/nodeless/region"
)

// refusal is a call that must fail with a code, "" meaning ValidationError, and a message that contains all texts.
type refusal struct {
	name  string
	err   error
	code  string
	texts []string
}

func wantRefused(t *testing.T, list []refusal) {
	t.Helper()
	for _, r := range list {
		t.Run(r.name, func(t *testing.T) {
			wantCode(t, r.err, cmp.Or(r.code, "ValidationError"))
			for _, text := range r.texts {
				if r.err != nil && !strings.Contains(r.err.Error(), text) {
					t.Errorf("%v, want it to say %q", r.err, text)
				}
			}
		})
	}
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }

func TestEC2NamesTheFieldThatIsOutOfRange(t *testing.T) {
	c, ctx := ec2.NewFromConfig(configFor(serve(t), "us-west-2")), t.Context()
	one, many, none := aws.Int32(1), aws.Int32(1001), aws.Int32(0)
	const value = "InvalidParameterValue"
	wantRefused(t, []refusal{
		{"a page of 1 subnet", errorOf(c.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{MaxResults: one})), value, []string{"maxResults", "between 5 and 1000"}},
		{"a page of 0 groups", errorOf(c.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{MaxResults: none})), value, []string{"maxResults"}},
		{"a page of 1001", errorOf(c.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{MaxResults: many})), value, []string{"1001", "maxResults"}},
		{"a page of 101 types", errorOf(c.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(101)})), value, []string{"between 5 and 100"}},
		{"a page of 0 templates", errorOf(c.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{MaxResults: none})), value, []string{"between 1 and 200"}},
		{"an instance", errorOf(c.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"ma1"}})), "InvalidInstanceID.Malformed", []string{`"ma1"`}},
		{"an instance to terminate", errorOf(c.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{"i-xyz"}})), "InvalidInstanceID.Malformed", []string{`"i-xyz"`}},
		{"an image", errorOf(c.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{"linux"}})), "InvalidAMIID.Malformed", []string{`"linux"`}},
		{"a group", errorOf(c.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"default"}})), "InvalidGroupId.Malformed", []string{`"default"`}},
		{"an interface", errorOf(c.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eth0"}})), "InvalidNetworkInterfaceId.Malformed", []string{`"eth0"`}},
		{"a template", errorOf(c.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{"web"}})), "InvalidLaunchTemplateId.Malformed", []string{`"web"`}},
	})
}

func TestASecurityGroupRuleNeedsAProtocolAndItsPorts(t *testing.T) {
	p := newPlace(t)
	c, ctx, id := ec2.NewFromConfig(configFor(p.url, "us-west-2")), t.Context(), p.region.SecurityGroups()[0].ID
	allow := func(protocol string, from, to *int32) error {
		return errorOf(c.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{
			GroupId: &id, IpProtocol: &protocol, FromPort: from, ToPort: to, CidrIp: aws.String("10.0.0.0/8"),
		}))
	}
	const value, ports = "InvalidParameterValue", "Must specify both from and to ports with TCP/UDP"
	wantRefused(t, []refusal{
		{"tcp without ports", allow("tcp", nil, nil), value, []string{ports}},
		{"udp without the last port", allow("udp", aws.Int32(53), nil), value, []string{ports}},
		{"6 without ports", allow("6", nil, nil), value, []string{ports}},
		{"no protocol", allow("foo", aws.Int32(1), aws.Int32(2)), value, []string{"'foo'", "protocol"}},
		{"protocol 256", allow("256", nil, nil), value, []string{"'256'"}},
	})
	for _, protocol := range []string{"icmp", "50", "-1"} {
		if err := allow(protocol, nil, nil); err != nil {
			t.Error(err)
		}
	}
	if err := allow("tcp", aws.Int32(80), aws.Int32(80)); err != nil {
		t.Error(err)
	}
}

// EC2 sets the bits of a subnet's block that are outside its mask to 0 (API reference, CreateSubnet).
func TestTheBlockOfASubnetIsMadeCanonical(t *testing.T) {
	p := newPlace(t)
	out, err := ec2.NewFromConfig(configFor(p.url, "us-west-2")).CreateSubnet(t.Context(), &ec2.CreateSubnetInput{
		VpcId: &p.region.Subnets()[0].VPC, CidrBlock: aws.String("10.9.0.18/24"),
	})
	if err != nil || *out.Subnet.CidrBlock != "10.9.0.0/24" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAutoScalingNamesTheFieldThatIsOutOfRange(t *testing.T) {
	s := newScaler(t)
	c, ctx, web := s.groups, t.Context(), aws.String("web")
	group := func(change func(*autoscaling.CreateAutoScalingGroupInput)) error {
		return s.group(t, change)
	}
	hook := func(seconds int32) error {
		return errorOf(c.PutLifecycleHook(ctx, &autoscaling.PutLifecycleHookInput{
			AutoScalingGroupName: web, LifecycleHookName: web, HeartbeatTimeout: &seconds,
			LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_LAUNCHING"),
		}))
	}
	wantRefused(t, []refusal{
		{"a page of 101", errorOf(c.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: aws.Int32(101)})), "", []string{"'101' at 'maxRecords'", "less than or equal to 100"}},
		{"a page of 0", errorOf(c.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{MaxRecords: aws.Int32(0)})), "", []string{"'0' at 'maxRecords'"}},
		{"a page of 51 instances", errorOf(c.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{MaxRecords: aws.Int32(51)})), "", []string{"less than or equal to 50"}},
		{"a health check", group(func(in *autoscaling.CreateAutoScalingGroupInput) { in.HealthCheckType = aws.String("foo") }), "", []string{"'foo' at 'healthCheckType'"}},
		{"a negative size", group(func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize = aws.Int32(-1) }), "", []string{"minSize"}},
		{"a negative grace period", group(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.HealthCheckGracePeriod = aws.Int32(-1)
		}), "", []string{"healthCheckGracePeriod"}},
		{"a negative cooldown", group(func(in *autoscaling.CreateAutoScalingGroupInput) { in.DefaultCooldown = aws.Int32(-1) }), "", []string{"defaultCooldown"}},
		{"negative pools", group(func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.MixedInstancesPolicy = &asgtypes.MixedInstancesPolicy{
				InstancesDistribution: &asgtypes.InstancesDistribution{SpotInstancePools: aws.Int32(-3)},
			}
		}), "", []string{"'-3' at 'mixedInstancesPolicy.instancesDistribution.spotInstancePools'"}},
		{"a heartbeat of 0", hook(0), "", []string{"'0' at 'heartbeatTimeout'"}},
		{"a heartbeat of 2 h", hook(7201), "", []string{"less than or equal to 7200"}},
		{"a negative warm-up", errorOf(c.StartInstanceRefresh(ctx, &autoscaling.StartInstanceRefreshInput{
			AutoScalingGroupName: web, Preferences: &asgtypes.RefreshPreferences{InstanceWarmup: aws.Int32(-5)},
		})), "", []string{"'-5' at 'preferences.instanceWarmup'"}},
	})
}

func TestIAMAndSTSNameTheFieldThatIsOutOfRange(t *testing.T) {
	a := newAccount(t)
	c, ctx := iam.NewFromConfig(a.as(root)), t.Context()
	ann := a.user(t, "ann", "")
	role := func(name, path string, seconds *int32) error {
		const trust = `{"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "arn:aws:iam::123456789012:user/ann"}}}`
		return errorOf(c.CreateRole(ctx, &iam.CreateRoleInput{
			RoleName: &name, Path: &path, AssumeRolePolicyDocument: aws.String(trust), MaxSessionDuration: seconds,
		}))
	}
	assume := func(name, session string, seconds int32) error {
		return errorOf(sts.NewFromConfig(ann).AssumeRole(ctx, &sts.AssumeRoleInput{
			RoleArn: aws.String("arn:aws:iam::123456789012:role/" + name), RoleSessionName: &session, DurationSeconds: &seconds,
		}))
	}
	for name, seconds := range map[string]*int32{"hour": nil, "day": aws.Int32(7200)} {
		if err := role(name, "/", seconds); err != nil {
			t.Fatal(err)
		}
	}
	const exceeds = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
	wantRefused(t, []refusal{
		{"a page of 0 users", errorOf(c.ListUsers(ctx, &iam.ListUsersInput{MaxItems: aws.Int32(0)})), "", []string{"'0' at 'maxItems'"}},
		{"a page of 1001 roles", errorOf(c.ListRoles(ctx, &iam.ListRolesInput{MaxItems: aws.Int32(1001)})), "", []string{"'1001' at 'maxItems'"}},
		{"a role's name", role("a b", "/", nil), "", []string{"'a b' at 'roleName'"}},
		{"a role's path", role("a", "team", nil), "", []string{"'team' at 'path'"}},
		{"a role's sessions", role("a", "/", aws.Int32(60)), "", []string{"'60' at 'maxSessionDuration'"}},
		{"a user's name", errorOf(c.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String(strings.Repeat("a", 65))})), "", []string{"userName"}},
		{"a profile's path", errorOf(c.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
			InstanceProfileName: aws.String("a"), Path: aws.String("team"),
		})), "", []string{"'team' at 'path'"}},
		{"a session's name", assume("hour", "a b", 3600), "", []string{"'a b' at 'roleSessionName'"}},
		{"a session of a minute", assume("hour", "ann", 60), "", []string{"'60' at 'durationSeconds'"}},
		{"a session longer than usual", assume("hour", "ann", 3601), "", []string{exceeds}},
		{"a session longer than its role's", assume("day", "ann", 7201), "", []string{exceeds}},
	})
	if err := assume("day", "ann", 7200); err != nil {
		t.Error(err)
	}
	if out, err := c.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("day")}); err != nil ||
		*out.Role.MaxSessionDuration != 7200 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestELBNamesTheFieldThatIsOutOfRange(t *testing.T) {
	b := loadBalanced(t)
	c, ctx := b.client, t.Context()
	group := func(key, value string) error {
		return errorOf(c.ModifyTargetGroupAttributes(ctx, &elb.ModifyTargetGroupAttributesInput{
			TargetGroupArn: b.group.TargetGroupArn, Attributes: []elbtypes.TargetGroupAttribute{{Key: &key, Value: &value}},
		}))
	}
	balancer := func(key, value string) error {
		return errorOf(c.ModifyLoadBalancerAttributes(ctx, &elb.ModifyLoadBalancerAttributesInput{
			LoadBalancerArn: b.balancer.LoadBalancerArn,
			Attributes:      []elbtypes.LoadBalancerAttribute{{Key: &key, Value: &value}},
		}))
	}
	modify := func(in elb.ModifyTargetGroupInput) error {
		in.TargetGroupArn = b.group.TargetGroupArn
		return errorOf(c.ModifyTargetGroup(ctx, &in))
	}
	var list []refusal
	for key, values := range map[string]string{
		"slow_start.duration_seconds": "1 29 901 x", "stickiness.lb_cookie.duration_seconds": "0 604801",
		"deregistration_delay.timeout_seconds": "3601 -1", "load_balancing.algorithm.type": "random",
		"stickiness.type": "source_ip cookie", "stickiness.enabled": "yes",
	} {
		for value := range strings.FieldsSeq(values) {
			list = append(list, refusal{key + " " + value, group(key, value), "", []string{key, value}})
		}
	}
	for key, value := range map[string]string{
		"idle_timeout.timeout_seconds": "4001", "client_keep_alive.seconds": "59",
		"routing.http.desync_mitigation_mode": "paranoid",
	} {
		list = append(list, refusal{key, balancer(key, value), "", []string{key, value}})
	}
	list = append(list, []refusal{
		{"a page of 401", errorOf(c.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{PageSize: aws.Int32(401)})), "", []string{"pageSize"}},
		{"a threshold of 0", modify(elb.ModifyTargetGroupInput{HealthyThresholdCount: aws.Int32(0)}), "", []string{"'0' at 'healthyThresholdCount'"}},
		{"an interval of 0", modify(elb.ModifyTargetGroupInput{HealthCheckIntervalSeconds: aws.Int32(0)}), "", []string{"healthCheckIntervalSeconds"}},
	}...)
	wantRefused(t, list)
	for key, value := range map[string]string{
		"slow_start.duration_seconds": "30", "stickiness.enabled": "true", "deregistration_delay.timeout_seconds": "0",
		"load_balancing.algorithm.type": "least_outstanding_requests", "load_balancing.cross_zone.enabled": "true",
	} {
		if err := group(key, value); err != nil {
			t.Error(err)
		}
	}
}

func TestEKSNamesTheFieldOfANodeGroupThatIsWrong(t *testing.T) {
	p := newPlace(t)
	c, ctx := eks.NewFromConfig(configFor(p.url, "us-west-2")), t.Context()
	if _, err := p.region.CreateLaunchTemplate("web", region.TemplateData{}, nil); err != nil {
		t.Fatal(err)
	}
	create := func(change func(*eks.CreateNodegroupInput)) error {
		in := &eks.CreateNodegroupInput{
			ClusterName: aws.String("nodeless"), NodegroupName: aws.String("web"), Subnets: []string{p.region.Subnets()[0].ID},
			NodeRole: aws.String("arn:aws:iam::123456789012:role/nodes"),
		}
		change(in)
		return errorOf(c.CreateNodegroup(ctx, in))
	}
	update := func(u ekstypes.NodegroupUpdateConfig) error {
		return create(func(in *eks.CreateNodegroupInput) { in.UpdateConfig = &u })
	}
	list := []refusal{
		{"a capacity type", create(func(in *eks.CreateNodegroupInput) { in.CapacityType = "on-demand" }), "", []string{"'on-demand'", "capacityType"}},
		{"a capacity block", create(func(in *eks.CreateNodegroupInput) { in.CapacityType = "CAPACITY_BLOCK" }), "", []string{"does not serve", "CAPACITY_BLOCK"}},
		{"another version", create(func(in *eks.CreateNodegroupInput) { in.Version = aws.String("1.33") }), "", []string{"does not serve", "version"}},
		{"a release", create(func(in *eks.CreateNodegroupInput) { in.ReleaseVersion = aws.String("1.34.0-20250101") }), "", []string{"has of amiType", "only the releaseVersion"}},
		{"no unavailable nodes", update(ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(0)}), "", []string{"'0' at 'updateConfig.maxUnavailable'"}},
		{"101 %", update(ekstypes.NodegroupUpdateConfig{MaxUnavailablePercentage: aws.Int32(101)}), "", []string{"'101' at 'updateConfig.maxUnavailablePercentage'"}},
		{"both", update(ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1), MaxUnavailablePercentage: aws.Int32(1)}), "", []string{"maxUnavailable", "not both"}},
		{"a negative disk", create(func(in *eks.CreateNodegroupInput) { in.DiskSize = aws.Int32(-5) }), "", []string{"'-5' at 'diskSize'"}},
		{"a disk besides a template", create(func(in *eks.CreateNodegroupInput) {
			in.DiskSize, in.LaunchTemplate = aws.Int32(40), &ekstypes.LaunchTemplateSpecification{Name: aws.String("web")}
		}), "", []string{"Disk size must be specified within the launch template"}},
		{"a missing role", create(func(in *eks.CreateNodegroupInput) {
			in.NodeRole = aws.String("arn:aws:iam::123456789012:role/missing-nodes")
		}), "", []string{"missing-nodes"}},
		{"an unknown subnet", create(func(in *eks.CreateNodegroupInput) { in.Subnets = []string{"subnet-1"} }), "", []string{"subnet-1"}},
		{"a page of 101", errorOf(c.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: aws.String("nodeless"), MaxResults: aws.Int32(101)})), "", []string{"'101' at 'maxResults'"}},
		{"a page of 0", errorOf(c.ListAddons(ctx, &eks.ListAddonsInput{ClusterName: aws.String("nodeless"), MaxResults: aws.Int32(0)})), "", []string{"'0' at 'maxResults'"}},
	}
	for i := range list {
		list[i].code = "InvalidParameterException"
	}
	wantRefused(t, list)
	if err := create(func(in *eks.CreateNodegroupInput) { in.Version = aws.String("1.34") }); err != nil {
		t.Errorf("the cluster's own version: %v", err)
	}
	if err := errorOf(c.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{
		ClusterName: aws.String("nodeless"), NodegroupName: aws.String("web"), UpdateConfig: &ekstypes.NodegroupUpdateConfig{},
	})); err == nil {
		t.Error("an update configuration with neither number is accepted")
	}
}
