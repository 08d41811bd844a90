package awsapi

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/nodeless/nodeless/region"
)

// listenerOf converts a listener to ELB's type.
func listenerOf(l region.Listener) types.Listener {
	return types.Listener{
		ListenerArn: &l.ListenerARN, LoadBalancerArn: &l.LoadBalancerARN, Port: new(int32(l.Port)),
		Protocol: types.ProtocolEnum(l.Protocol), DefaultActions: actionsOf(l.DefaultActions),
	}
}

// actionsOf converts actions to ELB's type, in which a forward action to one target group names it twice.
func actionsOf(actions []region.ListenerAction) []types.Action {
	out := copyOf[[]types.Action](actions)
	for i, a := range actions {
		if to := a.Forwards(); len(to) == 1 {
			out[i].TargetGroupArn = &to[0].TargetGroupARN
		}
		if to := a.Forwards(); len(to) > 0 {
			out[i].ForwardConfig = &types.ForwardActionConfig{TargetGroups: copyOf[[]types.TargetGroupTuple](to)}
		}
	}
	return out
}

func createListener(c *call, in *elb.CreateListenerInput) (*elb.CreateListenerOutput, error) {
	l, err := c.region.CreateListener(region.Listener{
		LoadBalancerARN: *in.LoadBalancerArn, Port: int(aws.ToInt32(in.Port)), Protocol: string(in.Protocol),
		DefaultActions: copyOf[[]region.ListenerAction](in.DefaultActions), Tags: elbTagMap(in.Tags),
	})
	if err != nil {
		return nil, err
	}
	return &elb.CreateListenerOutput{Listeners: []types.Listener{listenerOf(l)}}, nil
}

func describeListeners(c *call, in *elb.DescribeListenersInput) (*elb.DescribeListenersOutput, error) {
	arn := func(l region.Listener) string { return l.ListenerARN }
	all, err := elbNamed(c.region.Listeners(), in.ListenerArns, arn, "ListenerNotFound", "Listener")
	if err != nil {
		return nil, err
	}
	if of := in.LoadBalancerArn; of != nil {
		if _, err := c.region.LoadBalancingTags(*of); err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(l region.Listener) bool { return l.LoadBalancerARN != *of })
	}
	list, next, err := page(all, in.PageSize, elbPageSize, in.Marker, arn)
	out := &elb.DescribeListenersOutput{Listeners: []types.Listener{}, NextMarker: next}
	for _, l := range list {
		out.Listeners = append(out.Listeners, listenerOf(l))
	}
	return out, err
}

func modifyListener(c *call, in *elb.ModifyListenerInput) (*elb.ModifyListenerOutput, error) {
	l, err := c.region.ModifyListener(*in.ListenerArn, region.Listener{
		Port: int(aws.ToInt32(in.Port)), Protocol: string(in.Protocol),
		DefaultActions: copyOf[[]region.ListenerAction](in.DefaultActions),
	})
	if err != nil {
		return nil, err
	}
	return &elb.ModifyListenerOutput{Listeners: []types.Listener{listenerOf(l)}}, nil
}

func deleteListener(c *call, in *elb.DeleteListenerInput) (*elb.DeleteListenerOutput, error) {
	return &elb.DeleteListenerOutput{}, c.region.DeleteListener(*in.ListenerArn)
}

// ruleOf converts a rule to ELB's type.
func ruleOf(r region.ListenerRule) types.Rule {
	out := types.Rule{
		RuleArn: &r.RuleARN, Priority: new(strconv.Itoa(r.Priority)), IsDefault: new(false),
		Conditions: []types.RuleCondition{}, Actions: actionsOf(r.Actions),
	}
	for _, k := range r.Conditions {
		x := types.RuleCondition{Field: &k.Field}
		switch k.Field {
		case "path-pattern":
			x.Values, x.PathPatternConfig = k.Values, &types.PathPatternConditionConfig{Values: k.Values}
		case "host-header":
			x.Values, x.HostHeaderConfig = k.Values, &types.HostHeaderConditionConfig{Values: k.Values}
		case "http-request-method":
			x.HttpRequestMethodConfig = &types.HttpRequestMethodConditionConfig{Values: k.Values}
		case "source-ip":
			x.SourceIpConfig = &types.SourceIpConditionConfig{Values: k.Values}
		}
		out.Conditions = append(out.Conditions, x)
	}
	return out
}

// conditionsOf converts conditions, whose values are either in Values or in the configuration of their field.
func conditionsOf(in []types.RuleCondition) []region.RuleCondition {
	var out []region.RuleCondition
	for _, k := range in {
		x := region.RuleCondition{Field: aws.ToString(k.Field), Values: k.Values}
		switch {
		case k.PathPatternConfig != nil:
			x.Values = k.PathPatternConfig.Values
		case k.HostHeaderConfig != nil:
			x.Values = k.HostHeaderConfig.Values
		case k.HttpRequestMethodConfig != nil:
			x.Values = k.HttpRequestMethodConfig.Values
		case k.SourceIpConfig != nil:
			x.Values = k.SourceIpConfig.Values
		}
		out = append(out, x)
	}
	return out
}

func createRule(c *call, in *elb.CreateRuleInput) (*elb.CreateRuleOutput, error) {
	r, err := c.region.CreateRule(region.ListenerRule{
		ListenerARN: *in.ListenerArn, Priority: int(aws.ToInt32(in.Priority)), Conditions: conditionsOf(in.Conditions),
		Actions: copyOf[[]region.ListenerAction](in.Actions), Tags: elbTagMap(in.Tags),
	})
	if err != nil {
		return nil, err
	}
	return &elb.CreateRuleOutput{Rules: []types.Rule{ruleOf(r)}}, nil
}

// describeRules lists a listener's rules in order of priority, the default rule last.
func describeRules(c *call, in *elb.DescribeRulesInput) (*elb.DescribeRulesOutput, error) {
	arn := func(r types.Rule) string { return *r.RuleArn }
	var all []types.Rule
	for _, r := range c.region.Rules() {
		if in.ListenerArn == nil || r.ListenerARN == *in.ListenerArn {
			all = append(all, ruleOf(r))
		}
	}
	if in.ListenerArn != nil {
		l, err := elbNamed(c.region.Listeners(), []string{*in.ListenerArn},
			func(l region.Listener) string { return l.ListenerARN }, "ListenerNotFound", "Listener")
		if err != nil {
			return nil, err
		}
		all = append(all, types.Rule{
			RuleArn: new(l[0].DefaultRuleARN()), Priority: new("default"), IsDefault: new(true),
			Conditions: []types.RuleCondition{}, Actions: actionsOf(l[0].DefaultActions),
		})
	}
	all, err := elbNamed(all, in.RuleArns, arn, "RuleNotFound", "Rule")
	if err != nil {
		return nil, err
	}
	if in.PageSize == nil && in.Marker == nil && len(all) <= elbPageSize {
		return &elb.DescribeRulesOutput{Rules: all}, nil // in order of priority
	}
	list, next, err := page(all, in.PageSize, elbPageSize, in.Marker, arn)
	return &elb.DescribeRulesOutput{Rules: list, NextMarker: next}, err
}

func modifyRule(c *call, in *elb.ModifyRuleInput) (*elb.ModifyRuleOutput, error) {
	r, err := c.region.ModifyRule(*in.RuleArn, region.ListenerRule{
		Conditions: conditionsOf(in.Conditions), Actions: copyOf[[]region.ListenerAction](in.Actions),
	})
	if err != nil {
		return nil, err
	}
	return &elb.ModifyRuleOutput{Rules: []types.Rule{ruleOf(r)}}, nil
}

func deleteRule(c *call, in *elb.DeleteRuleInput) (*elb.DeleteRuleOutput, error) {
	return &elb.DeleteRuleOutput{}, c.region.DeleteRule(*in.RuleArn)
}
