package awsapi

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// balanced is a client of ELB with a load balancer on two subnets and a target group of type ip.
type balanced struct {
	t        *testing.T
	region   *region.Region
	clock    *clock.Virtual
	client   *elb.Client
	balancer types.LoadBalancer
	group    types.TargetGroup
}

func loadBalanced(t *testing.T) *balanced {
	t.Helper()
	r, v, config := memoryRegion(t)
	b := &balanced{t: t, region: r, clock: v, client: elb.NewFromConfig(config)}
	b.balancer = must[*elb.CreateLoadBalancerOutput](t)(b.client.CreateLoadBalancer(t.Context(),
		b.balancerInput())).LoadBalancers[0]
	b.group = must[*elb.CreateTargetGroupOutput](t)(b.client.CreateTargetGroup(t.Context(), &elb.CreateTargetGroupInput{
		Name: aws.String("game"), Protocol: "HTTP", Port: aws.Int32(80), TargetType: "ip", VpcId: aws.String(region.VPCID),
		HealthCheckPath: aws.String("/healthz"), Matcher: &types.Matcher{HttpCode: aws.String("200-299")},
	})).TargetGroups[0]
	return b
}

func (b *balanced) balancerInput() *elb.CreateLoadBalancerInput {
	subnets := b.region.Subnets()
	return &elb.CreateLoadBalancerInput{
		Name: aws.String("k8s-game2048"), Subnets: []string{subnets[0].ID, subnets[1].ID},
		Tags: []types.Tag{{Key: aws.String("elbv2.k8s.aws/cluster"), Value: aws.String("prod")}},
	}
}

func (b *balanced) forward() []types.Action {
	return []types.Action{{Type: "forward", TargetGroupArn: b.group.TargetGroupArn}}
}

func (b *balanced) listen(port int32) types.Listener {
	b.t.Helper()
	return must[*elb.CreateListenerOutput](b.t)(b.client.CreateListener(b.t.Context(), &elb.CreateListenerInput{
		LoadBalancerArn: b.balancer.LoadBalancerArn, Port: &port, Protocol: "HTTP", DefaultActions: b.forward(),
	})).Listeners[0]
}

// state returns the state and reason of the first target in DescribeTargetHealth, "" if there is none.
func (b *balanced) state() string {
	b.t.Helper()
	found := must[*elb.DescribeTargetHealthOutput](b.t)(b.client.DescribeTargetHealth(b.t.Context(),
		&elb.DescribeTargetHealthInput{TargetGroupArn: b.group.TargetGroupArn})).TargetHealthDescriptions
	if len(found) == 0 {
		return ""
	}
	return string(found[0].TargetHealth.State) + " " + string(found[0].TargetHealth.Reason)
}

func TestALoadBalancerIsProvisionedThenActive(t *testing.T) {
	b := loadBalanced(t)
	x := b.balancer
	if x.State.Code != "provisioning" || x.Type != "application" || x.Scheme != "internet-facing" ||
		len(x.AvailabilityZones) != 2 || len(x.SecurityGroups) != 1 || !x.CreatedTime.Equal(b.clock.Now()) ||
		!strings.HasPrefix(*x.LoadBalancerArn, "arn:aws:elasticloadbalancing:us-west-2:123456789012:loadbalancer/app/k8s-game2048/") ||
		!strings.HasSuffix(*x.DNSName, ".us-west-2.elb.localhost") {
		t.Errorf("created %+v", x)
	}
	b.clock.Advance(time.Minute)
	found := must[*elb.DescribeLoadBalancersOutput](t)(b.client.DescribeLoadBalancers(t.Context(),
		&elb.DescribeLoadBalancersInput{Names: []string{"k8s-game2048"}})).LoadBalancers
	if len(found) != 1 || found[0].State.Code != "active" {
		t.Errorf("a minute later: %+v", found)
	}
	again := must[*elb.CreateLoadBalancerOutput](t)(b.client.CreateLoadBalancer(t.Context(), b.balancerInput()))
	if *again.LoadBalancers[0].LoadBalancerArn != *x.LoadBalancerArn {
		t.Errorf("the same request made another one: %s", *again.LoadBalancers[0].LoadBalancerArn)
	}
	other := b.balancerInput()
	other.Scheme = "internal"
	_, err := b.client.CreateLoadBalancer(t.Context(), other)
	wantCode(t, err, "DuplicateLoadBalancerName")
	tags := must[*elb.DescribeTagsOutput](t)(b.client.DescribeTags(t.Context(),
		&elb.DescribeTagsInput{ResourceArns: []string{*x.LoadBalancerArn}})).TagDescriptions
	if len(tags) != 1 || len(tags[0].Tags) != 1 || *tags[0].Tags[0].Value != "prod" {
		t.Errorf("tags %+v", tags)
	}
	for range 2 { // deleting it again is not an error on AWS either
		must[*elb.DeleteLoadBalancerOutput](t)(b.client.DeleteLoadBalancer(t.Context(),
			&elb.DeleteLoadBalancerInput{LoadBalancerArn: x.LoadBalancerArn}))
	}
	_, err = b.client.DescribeLoadBalancers(t.Context(),
		&elb.DescribeLoadBalancersInput{LoadBalancerArns: []string{*x.LoadBalancerArn}})
	wantCode(t, err, "LoadBalancerNotFound")
}

func TestAListenerHasRulesByPriorityAndADefault(t *testing.T) {
	b := loadBalanced(t)
	l := b.listen(80)
	rule := func(priority int32, path string) (*elb.CreateRuleOutput, error) {
		return b.client.CreateRule(t.Context(), &elb.CreateRuleInput{
			ListenerArn: l.ListenerArn, Priority: &priority,
			Conditions: []types.RuleCondition{{
				Field: aws.String("path-pattern"), PathPatternConfig: &types.PathPatternConditionConfig{Values: []string{path}},
			}},
			Actions: b.forward(),
		})
	}
	must[*elb.CreateRuleOutput](t)(rule(2, "/b*"))
	must[*elb.CreateRuleOutput](t)(rule(1, "/a*"))
	_, err := rule(1, "/c")
	wantCode(t, err, "PriorityInUse")
	rules := must[*elb.DescribeRulesOutput](t)(b.client.DescribeRules(t.Context(),
		&elb.DescribeRulesInput{ListenerArn: l.ListenerArn})).Rules
	var order []string
	for _, r := range rules {
		order = append(order, *r.Priority)
	}
	if strings.Join(order, " ") != "1 2 default" || rules[0].Conditions[0].PathPatternConfig.Values[0] != "/a*" ||
		*rules[2].Actions[0].TargetGroupArn != *b.group.TargetGroupArn ||
		*rules[2].Actions[0].ForwardConfig.TargetGroups[0].TargetGroupArn != *b.group.TargetGroupArn {
		t.Errorf("rules %v: %+v", order, rules)
	}
	must[*elb.ModifyRuleOutput](t)(b.client.ModifyRule(t.Context(), &elb.ModifyRuleInput{
		RuleArn: rules[0].RuleArn, Actions: []types.Action{{
			Type: "fixed-response", FixedResponseConfig: &types.FixedResponseActionConfig{StatusCode: aws.String("404")},
		}},
	}))
	must[*elb.ModifyListenerOutput](t)(b.client.ModifyListener(t.Context(),
		&elb.ModifyListenerInput{ListenerArn: l.ListenerArn, Port: aws.Int32(8080)}))
	found := must[*elb.DescribeListenersOutput](t)(b.client.DescribeListeners(t.Context(),
		&elb.DescribeListenersInput{LoadBalancerArn: b.balancer.LoadBalancerArn})).Listeners
	if len(found) != 1 || *found[0].Port != 8080 || len(found[0].DefaultActions) != 1 {
		t.Errorf("listeners %+v", found)
	}
	_, err = b.client.DeleteTargetGroup(t.Context(), &elb.DeleteTargetGroupInput{TargetGroupArn: b.group.TargetGroupArn})
	wantCode(t, err, "ResourceInUse")
	must[*elb.DeleteRuleOutput](t)(b.client.DeleteRule(t.Context(), &elb.DeleteRuleInput{RuleArn: rules[1].RuleArn}))
	must[*elb.DeleteListenerOutput](t)(b.client.DeleteListener(t.Context(),
		&elb.DeleteListenerInput{ListenerArn: l.ListenerArn}))
	_, err = b.client.DescribeRules(t.Context(), &elb.DescribeRulesInput{ListenerArn: l.ListenerArn})
	wantCode(t, err, "ListenerNotFound")
	must[*elb.DeleteTargetGroupOutput](t)(b.client.DeleteTargetGroup(t.Context(),
		&elb.DeleteTargetGroupInput{TargetGroupArn: b.group.TargetGroupArn}))
}

func TestATargetIsUnusedInitialHealthyDrainingAndGone(t *testing.T) {
	b := loadBalanced(t)
	g := b.group
	if *g.HealthCheckPath != "/healthz" || *g.Matcher.HttpCode != "200-299" || *g.HealthCheckIntervalSeconds != 30 ||
		*g.HealthCheckTimeoutSeconds != 5 || *g.HealthyThresholdCount != 5 || *g.HealthCheckPort != "traffic-port" {
		t.Errorf("target group %+v", g)
	}
	target := []types.TargetDescription{{Id: aws.String("10.0.0.9"), Port: aws.Int32(8080)}}
	must[*elb.RegisterTargetsOutput](t)(b.client.RegisterTargets(t.Context(),
		&elb.RegisterTargetsInput{TargetGroupArn: g.TargetGroupArn, Targets: target}))
	want := func(when, state string) {
		t.Helper()
		if got := b.state(); got != state {
			t.Errorf("%s: %q, want %q", when, got, state)
		}
	}
	want("without a listener", "unused Target.NotInUse")
	b.listen(80)
	want("with one", "initial Elb.RegistrationInProgress")
	b.region.SetTargetHealth(*g.TargetGroupArn, region.Target{ID: "10.0.0.9", Port: 8080},
		region.TargetHealth{State: region.TargetHealthy})
	want("checked", "healthy ")
	must[*elb.ModifyTargetGroupAttributesOutput](t)(b.client.ModifyTargetGroupAttributes(t.Context(),
		&elb.ModifyTargetGroupAttributesInput{
			TargetGroupArn: g.TargetGroupArn, Attributes: []types.TargetGroupAttribute{{
				Key: aws.String("deregistration_delay.timeout_seconds"), Value: aws.String("30"),
			}},
		}))
	must[*elb.DeregisterTargetsOutput](t)(b.client.DeregisterTargets(t.Context(),
		&elb.DeregisterTargetsInput{TargetGroupArn: g.TargetGroupArn, Targets: target}))
	want("deregistered", "draining Target.DeregistrationInProgress")
	b.clock.Advance(30 * time.Second)
	want("after its delay", "")
}

// Requests that AWS rejects are rejected with AWS's error code.
func TestLoadBalancingRefusesWhatAWSRefuses(t *testing.T) {
	b := loadBalanced(t)
	b.listen(80)
	balancer := func(change func(*elb.CreateLoadBalancerInput)) error {
		in := b.balancerInput()
		in.Name = aws.String("other")
		change(in)
		_, err := b.client.CreateLoadBalancer(t.Context(), in)
		return err
	}
	register := func(id string) error {
		_, err := b.client.RegisterTargets(t.Context(), &elb.RegisterTargetsInput{
			TargetGroupArn: b.group.TargetGroupArn, Targets: []types.TargetDescription{{Id: &id}},
		})
		return err
	}
	listen := func(in elb.CreateListenerInput) error {
		in.LoadBalancerArn = b.balancer.LoadBalancerArn
		if in.DefaultActions == nil {
			in.DefaultActions = b.forward()
		}
		_, err := b.client.CreateListener(t.Context(), &in)
		return err
	}
	_, attribute := b.client.ModifyTargetGroupAttributes(t.Context(), &elb.ModifyTargetGroupAttributesInput{
		TargetGroupArn: b.group.TargetGroupArn,
		Attributes:     []types.TargetGroupAttribute{{Key: aws.String("no.such"), Value: aws.String("1")}},
	})
	_, group := b.client.CreateTargetGroup(t.Context(), &elb.CreateTargetGroupInput{
		Name: aws.String("slow"), Protocol: "HTTP", Port: aws.Int32(80), HealthCheckIntervalSeconds: aws.Int32(4),
	})
	for _, c := range []struct {
		what, code string
		err        error
	}{
		{"a name of 33 letters", "ValidationError", balancer(func(in *elb.CreateLoadBalancerInput) {
			in.Name = aws.String(strings.Repeat("a", 33))
		})},
		{"a reserved name", "ValidationError", balancer(func(in *elb.CreateLoadBalancerInput) {
			in.Name = aws.String("internal-x")
		})},
		{"an unknown subnet", "SubnetNotFound", balancer(func(in *elb.CreateLoadBalancerInput) { in.Subnets[0] = "subnet-1" })},
		{"one zone", "ValidationError", balancer(func(in *elb.CreateLoadBalancerInput) { in.Subnets = in.Subnets[:1] })},
		{"an unknown group", "InvalidSecurityGroup", balancer(func(in *elb.CreateLoadBalancerInput) {
			in.SecurityGroups = []string{"sg-1"}
		})},
		{"a taken port", "DuplicateListener", listen(elb.CreateListenerInput{Port: aws.Int32(80), Protocol: "HTTP"})},
		{"a foreign protocol", "UnsupportedProtocol", listen(elb.CreateListenerInput{Port: aws.Int32(81), Protocol: "TCP"})},
		{"port 0", "ValidationError", listen(elb.CreateListenerInput{Port: aws.Int32(0), Protocol: "HTTP"})},
		{"an unknown target group", "TargetGroupNotFound", listen(elb.CreateListenerInput{
			Port: aws.Int32(81), Protocol: "HTTP",
			DefaultActions: []types.Action{{Type: "forward", TargetGroupArn: aws.String("arn:x")}},
		})},
		{"a public address", "InvalidTarget", register("8.8.8.8")},
		{"no address", "ValidationError", register("i-123")},
		{"an unknown attribute", "ValidationError", attribute},
		{"an interval of 4 s", "ValidationError", group},
	} {
		t.Run(c.what, func(t *testing.T) { wantCode(t, c.err, c.code) })
	}
}

// Clients that do not validate requests get an error that names the missing parameter.
func TestAParameterThatELBNeedsIsNamed(t *testing.T) {
	err := (&call{parameters: newParameters(url.Values{})}).decode(&elb.CreateListenerInput{})
	if err == nil || !strings.HasPrefix(err.Error(), "ValidationError") || !strings.Contains(err.Error(), "LoadBalancerArn") {
		t.Errorf("error %v", err)
	}
}
