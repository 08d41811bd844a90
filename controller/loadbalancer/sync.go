package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// tagCluster marks the resources that a cluster's controller created, and may change and delete. The other tags hold
// the ID of the stack that a resource belongs to.
const (
	tagCluster = "elbv2.k8s.aws/cluster"
	tagIngress = "ingress.k8s.aws/stack"
	tagService = "service.k8s.aws/stack"
)

// syncer makes AWS match the stacks.
type syncer struct {
	elb     *elb.Client
	ec2     *ec2.Client
	cluster string
}

// made is what the cluster's controller has created at AWS, by name.
type made struct {
	balancers      map[string]types.LoadBalancer
	owners         map[string]owner // of balancers
	groups         map[string]types.TargetGroup
	securityGroups map[string]ec2types.SecurityGroup
}

// owner is the stack of a load balancer, as the balancer's tags say.
type owner struct{ tagKey, id string }

func ownerOf(tags []types.Tag) owner {
	for _, t := range tags {
		if key := aws.ToString(t.Key); key == tagIngress || key == tagService {
			return owner{key, aws.ToString(t.Value)}
		}
	}
	return owner{}
}

// list returns the resources that the cluster owns.
func (s *syncer) list(ctx context.Context) (*made, error) {
	securityGroups, err := s.listGroups(ctx)
	if err != nil {
		return nil, err
	}
	out := &made{
		balancers: map[string]types.LoadBalancer{}, owners: map[string]owner{}, groups: map[string]types.TargetGroup{},
		securityGroups: securityGroups,
	}
	byARN := map[string]func([]types.Tag){}
	balancers := elb.NewDescribeLoadBalancersPaginator(s.elb, &elb.DescribeLoadBalancersInput{})
	for balancers.HasMorePages() {
		page, err := balancers.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list load balancers: %w", err)
		}
		for _, b := range page.LoadBalancers {
			byARN[*b.LoadBalancerArn] = func(tags []types.Tag) { out.add(b, ownerOf(tags)) }
		}
	}
	groups := elb.NewDescribeTargetGroupsPaginator(s.elb, &elb.DescribeTargetGroupsInput{})
	for groups.HasMorePages() {
		page, err := groups.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list target groups: %w", err)
		}
		for _, g := range page.TargetGroups {
			byARN[*g.TargetGroupArn] = func([]types.Tag) { out.groups[*g.TargetGroupName] = g }
		}
	}
	for arns := range slices.Chunk(slices.Sorted(maps.Keys(byARN)), 20) { // DescribeTags accepts no more
		tags, err := s.elb.DescribeTags(ctx, &elb.DescribeTagsInput{ResourceArns: arns})
		if err != nil {
			return nil, fmt.Errorf("read the tags of load balancers: %w", err)
		}
		for _, d := range tags.TagDescriptions {
			if slices.ContainsFunc(d.Tags, func(t types.Tag) bool {
				return aws.ToString(t.Key) == tagCluster && aws.ToString(t.Value) == s.cluster
			}) {
				byARN[*d.ResourceArn](d.Tags)
			}
		}
	}
	return out, nil
}

func (m *made) add(b types.LoadBalancer, of owner) {
	m.balancers[*b.LoadBalancerName], m.owners[*b.LoadBalancerName] = b, of
}

// sync makes the load balancer of a stack, with everything that belongs to it, match the stack, and returns it. It
// leaves another stack's load balancer alone: an annotation can ask for any name.
func (s *syncer) sync(ctx context.Context, have *made, want *stack) (*types.LoadBalancer, error) {
	b, ok := have.balancers[want.name]
	if of := have.owners[want.name]; ok && of != want.owner() {
		return nil, fmt.Errorf("load balancer %s of %s: the name is already that of the load balancer of %s; choose another",
			want.name, want.id, of.id)
	}
	arns := map[string]string{} // of target groups, by name
	for _, name := range slices.Sorted(maps.Keys(want.targetGroups)) {
		arn, err := s.syncGroup(ctx, have, want, want.targetGroups[name])
		if err != nil {
			return nil, fmt.Errorf("target group %s: %w", name, err)
		}
		arns[name] = arn
	}
	if !ok {
		var err error
		if b, err = s.create(ctx, have, want); err != nil {
			return nil, err
		}
		have.add(b, want.owner())
	}
	if err := s.syncPorts(ctx, have, want); err != nil {
		return nil, err
	}
	if err := s.setBalancerAttributes(ctx, *b.LoadBalancerArn, want.attributes); err != nil {
		return nil, fmt.Errorf("attributes of load balancer %s: %w", want.name, err)
	}
	return &b, s.syncListeners(ctx, b, want, arns)
}

// setBalancerAttributes changes the attributes of a load balancer that differ from want.
func (s *syncer) setBalancerAttributes(ctx context.Context, balancer string, want map[string]string) error {
	if len(want) == 0 {
		return nil
	}
	found, err := s.elb.DescribeLoadBalancerAttributes(ctx,
		&elb.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &balancer})
	if err != nil {
		return err
	}
	have := map[string]string{}
	for _, a := range found.Attributes {
		have[aws.ToString(a.Key)] = aws.ToString(a.Value)
	}
	var set []types.LoadBalancerAttribute
	for _, k := range differing(have, want) {
		set = append(set, types.LoadBalancerAttribute{Key: &k, Value: new(want[k])})
	}
	if len(set) == 0 {
		return nil
	}
	_, err = s.elb.ModifyLoadBalancerAttributes(ctx,
		&elb.ModifyLoadBalancerAttributesInput{LoadBalancerArn: &balancer, Attributes: set})
	return err
}

// differing returns the keys whose values differ from want, in order.
func differing(have, want map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(k string) bool {
		v, ok := have[k]
		return ok && v == want[k]
	})
}

func (s *syncer) create(ctx context.Context, have *made, want *stack) (types.LoadBalancer, error) {
	subnets, vpc, err := s.subnets(ctx, want.subnets)
	if err != nil {
		return types.LoadBalancer{}, err
	}
	groups := want.groups
	if want.managesGroup() {
		id, err := s.securityGroup(ctx, have, want, vpc)
		if err != nil {
			return types.LoadBalancer{}, err
		}
		groups = []string{id}
	}
	created, err := s.elb.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
		Name: &want.name, Type: types.LoadBalancerTypeEnum(want.kind), Scheme: types.LoadBalancerSchemeEnum(want.scheme),
		Subnets: subnets, SecurityGroups: groups, Tags: s.tags(want),
	})
	if err != nil {
		return types.LoadBalancer{}, fmt.Errorf("create load balancer %s: %w", want.name, err)
	}
	return created.LoadBalancers[0], nil
}

// tags returns the tags of a stack's resources.
func (s *syncer) tags(want *stack) []types.Tag {
	all := maps.Clone(want.tags)
	delete(all, tagIngress)
	delete(all, tagService)
	all[tagCluster], all[want.tagKey] = s.cluster, want.id
	var out []types.Tag
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, types.Tag{Key: &k, Value: new(all[k])})
	}
	return out
}

// subnets returns the subnets of a load balancer and their VPC: the requested ones, otherwise one per zone of those
// that EKS's subnet tags offer to load balancers.
func (s *syncer) subnets(ctx context.Context, asked []string) (ids []string, vpc *string, err error) {
	filter := ec2types.Filter{
		Name: aws.String("tag-key"), Values: []string{"kubernetes.io/role/elb", "kubernetes.io/role/internal-elb"},
	}
	if len(asked) > 0 {
		filter = ec2types.Filter{Name: aws.String("subnet-id"), Values: asked}
	}
	found, err := s.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{filter}})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("find subnets for load balancers: %w", err)
	case len(found.Subnets) < len(asked):
		return nil, nil, fmt.Errorf("of the subnets %v only %d exist", asked, len(found.Subnets))
	case len(found.Subnets) == 0:
		return nil, nil, errors.New("no subnet has the tag kubernetes.io/role/elb or kubernetes.io/role/internal-elb")
	case len(asked) > 0:
		return asked, found.Subnets[0].VpcId, nil
	}
	byZone := map[string]string{}
	for _, n := range found.Subnets {
		if id := byZone[*n.AvailabilityZone]; id == "" || *n.SubnetId < id {
			byZone[*n.AvailabilityZone] = *n.SubnetId
		}
	}
	return slices.Sorted(maps.Values(byZone)), found.Subnets[0].VpcId, nil
}

// syncListeners makes the listeners of a load balancer, and their rules, match the stack.
func (s *syncer) syncListeners(
	ctx context.Context, b types.LoadBalancer, want *stack, arns map[string]string,
) error {
	listed, err := s.elb.DescribeListeners(ctx, &elb.DescribeListenersInput{LoadBalancerArn: b.LoadBalancerArn})
	if err != nil {
		return fmt.Errorf("listeners of load balancer %s: %w", want.name, err)
	}
	have := map[int32]types.Listener{}
	for _, l := range listed.Listeners {
		if want.listeners[*l.Port] != nil {
			have[*l.Port] = l
			continue
		}
		if _, err := s.elb.DeleteListener(ctx, &elb.DeleteListenerInput{ListenerArn: l.ListenerArn}); err != nil {
			return fmt.Errorf("delete listener %d of load balancer %s: %w", *l.Port, want.name, err)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(want.listeners)) {
		l := want.listeners[port]
		arn := aws.ToString(have[port].ListenerArn)
		fallback := actionOf(l.fallback, arns)
		switch old, ok := have[port]; {
		case !ok:
			created, err := s.elb.CreateListener(ctx, &elb.CreateListenerInput{
				LoadBalancerArn: b.LoadBalancerArn, Port: &port, Protocol: types.ProtocolEnum(l.protocol),
				DefaultActions: fallback, Tags: s.tags(want),
			})
			if err != nil {
				return fmt.Errorf("create listener %d of load balancer %s: %w", port, want.name, err)
			}
			arn = *created.Listeners[0].ListenerArn
		case !sameActions(old.DefaultActions, fallback):
			_, err := s.elb.ModifyListener(ctx, &elb.ModifyListenerInput{ListenerArn: &arn, DefaultActions: fallback})
			if err != nil {
				return fmt.Errorf("change listener %d of load balancer %s: %w", port, want.name, err)
			}
		}
		if want.kind != "application" {
			continue
		}
		if err := s.syncRules(ctx, arn, l.rules, arns); err != nil {
			return fmt.Errorf("rules of listener %d of load balancer %s: %w", port, want.name, err)
		}
	}
	return nil
}

// syncRules gives a listener its rules, whose priority is their position. It modifies the rules at positions that
// remain.
func (s *syncer) syncRules(ctx context.Context, listener string, rules []rule, arns map[string]string) error {
	have := map[string]types.Rule{}
	pages := elb.NewDescribeRulesPaginator(s.elb, &elb.DescribeRulesInput{ListenerArn: &listener})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, r := range page.Rules {
			if !aws.ToBool(r.IsDefault) {
				have[*r.Priority] = r
			}
		}
	}
	for n, r := range rules {
		priority := strconv.Itoa(n + 1)
		old, ok := have[priority]
		delete(have, priority)
		conditions, actions := conditionsOf(r.conditions), actionOf(r.action, arns)
		var err error
		switch {
		case !ok:
			_, err = s.elb.CreateRule(ctx, &elb.CreateRuleInput{
				ListenerArn: &listener, Priority: new(int32(n + 1)), Conditions: conditions, Actions: actions,
			})
		case !sameActions(old.Actions, actions) || !sameConditions(old.Conditions, conditions):
			_, err = s.elb.ModifyRule(ctx, &elb.ModifyRuleInput{RuleArn: old.RuleArn, Conditions: conditions, Actions: actions})
		}
		if err != nil {
			return err
		}
	}
	for _, r := range have {
		if _, err := s.elb.DeleteRule(ctx, &elb.DeleteRuleInput{RuleArn: r.RuleArn}); err != nil {
			return err
		}
	}
	return nil
}

func conditionsOf(conditions []condition) []types.RuleCondition {
	var out []types.RuleCondition
	for _, c := range conditions {
		x := types.RuleCondition{Field: &c.field}
		if c.field == "host-header" {
			x.HostHeaderConfig = &types.HostHeaderConditionConfig{Values: c.values}
		} else {
			x.PathPatternConfig = &types.PathPatternConditionConfig{Values: c.values}
		}
		out = append(out, x)
	}
	return out
}

// sameConditions compares the configuration of each field, which AWS returns beside the older Values.
func sameConditions(a, b []types.RuleCondition) bool {
	return slices.EqualFunc(a, b, func(x, y types.RuleCondition) bool {
		return *x.Field == *y.Field && reflect.DeepEqual(x.HostHeaderConfig, y.HostHeaderConfig) &&
			reflect.DeepEqual(x.PathPatternConfig, y.PathPatternConfig)
	})
}

// actionOf returns an action in the API's form.
func actionOf(a action, arns map[string]string) []types.Action {
	switch {
	case a.fixed != nil:
		return []types.Action{{Type: types.ActionTypeEnumFixedResponse, FixedResponseConfig: &types.FixedResponseActionConfig{
			StatusCode: &a.fixed.StatusCode, ContentType: optional(a.fixed.ContentType),
			MessageBody: optional(a.fixed.MessageBody),
		}}}
	case a.redirect != nil:
		return []types.Action{{Type: types.ActionTypeEnumRedirect, RedirectConfig: &types.RedirectActionConfig{
			StatusCode: types.RedirectActionStatusCodeEnum(a.redirect.StatusCode), Host: optional(a.redirect.Host),
			Path: optional(a.redirect.Path), Port: optional(a.redirect.Port), Protocol: optional(a.redirect.Protocol),
			Query: optional(a.redirect.Query),
		}}}
	}
	return []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: new(arns[a.targetGroup])}}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func sameActions(a, b []types.Action) bool {
	return slices.EqualFunc(a, b, func(x, y types.Action) bool {
		return x.Type == y.Type && aws.ToString(x.TargetGroupArn) == aws.ToString(y.TargetGroupArn) &&
			reflect.DeepEqual(x.FixedResponseConfig, y.FixedResponseConfig) &&
			reflect.DeepEqual(x.RedirectConfig, y.RedirectConfig)
	})
}
