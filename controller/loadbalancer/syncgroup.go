package loadbalancer

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// syncGroup makes a target group and its targets match the stack, and returns its ARN.
func (s *syncer) syncGroup(ctx context.Context, have *made, of *stack, want *targetGroup) (string, error) {
	g, ok := have.groups[want.name]
	h := want.health
	var matcher *types.Matcher
	if h.codes != "" {
		matcher = &types.Matcher{HttpCode: &h.codes}
	}
	switch {
	case !ok:
		created, err := s.elb.CreateTargetGroup(ctx, &elb.CreateTargetGroupInput{
			Name: &want.name, Protocol: types.ProtocolEnum(want.protocol), Port: &want.port,
			TargetType: types.TargetTypeEnum(want.targetType), Tags: s.tags(of), Matcher: matcher,
			HealthCheckProtocol: types.ProtocolEnum(h.protocol), HealthCheckPort: &h.port,
			HealthCheckPath: optional(h.path), HealthCheckIntervalSeconds: &h.interval, HealthCheckTimeoutSeconds: &h.timeout,
			HealthyThresholdCount: &h.healthy, UnhealthyThresholdCount: &h.unhealthy,
		})
		if err != nil {
			return "", err
		}
		g = created.TargetGroups[0]
	case healthOf(g) != h:
		_, err := s.elb.ModifyTargetGroup(ctx, &elb.ModifyTargetGroupInput{
			TargetGroupArn: g.TargetGroupArn, Matcher: matcher, HealthCheckProtocol: types.ProtocolEnum(h.protocol),
			HealthCheckPort: &h.port, HealthCheckPath: optional(h.path), HealthCheckIntervalSeconds: &h.interval,
			HealthCheckTimeoutSeconds: &h.timeout, HealthyThresholdCount: &h.healthy, UnhealthyThresholdCount: &h.unhealthy,
		})
		if err != nil {
			return "", err
		}
	}
	if err := s.setAttributes(ctx, *g.TargetGroupArn, want.attributes); err != nil {
		return "", err
	}
	return *g.TargetGroupArn, s.syncTargets(ctx, *g.TargetGroupArn, want.targets)
}

func healthOf(g types.TargetGroup) healthCheck {
	h := healthCheck{
		protocol: string(g.HealthCheckProtocol), port: aws.ToString(g.HealthCheckPort), path: aws.ToString(g.HealthCheckPath),
		interval: aws.ToInt32(g.HealthCheckIntervalSeconds), timeout: aws.ToInt32(g.HealthCheckTimeoutSeconds),
		healthy: aws.ToInt32(g.HealthyThresholdCount), unhealthy: aws.ToInt32(g.UnhealthyThresholdCount),
	}
	if g.Matcher != nil {
		h.codes = aws.ToString(g.Matcher.HttpCode)
	}
	return h
}

// setAttributes changes the attributes of a target group that differ from want.
func (s *syncer) setAttributes(ctx context.Context, group string, want map[string]string) error {
	if len(want) == 0 {
		return nil
	}
	found, err := s.elb.DescribeTargetGroupAttributes(ctx,
		&elb.DescribeTargetGroupAttributesInput{TargetGroupArn: &group})
	if err != nil {
		return err
	}
	have := map[string]string{}
	for _, a := range found.Attributes {
		have[aws.ToString(a.Key)] = aws.ToString(a.Value)
	}
	var set []types.TargetGroupAttribute
	for _, k := range differing(have, want) {
		set = append(set, types.TargetGroupAttribute{Key: &k, Value: new(want[k])})
	}
	if len(set) == 0 {
		return nil
	}
	_, err = s.elb.ModifyTargetGroupAttributes(ctx,
		&elb.ModifyTargetGroupAttributesInput{TargetGroupArn: &group, Attributes: set})
	return err
}

// health returns the state of each registered or draining target of a group.
func (s *syncer) health(ctx context.Context, group string) (map[target]types.TargetHealth, error) {
	found, err := s.elb.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &group})
	if err != nil {
		return nil, err
	}
	out := map[target]types.TargetHealth{}
	for _, d := range found.TargetHealthDescriptions {
		out[target{*d.Target.Id, aws.ToInt32(d.Target.Port)}] = *d.TargetHealth
	}
	return out, nil
}

// syncTargets registers and deregisters targets.
func (s *syncer) syncTargets(ctx context.Context, group string, want []target) error {
	have, err := s.health(ctx, group)
	if err != nil {
		return err
	}
	wanted := map[target]bool{}
	var register, deregister []types.TargetDescription
	for _, t := range want {
		wanted[t] = true
		if h, ok := have[t]; !ok || h.State == types.TargetHealthStateEnumDraining {
			register = append(register, types.TargetDescription{Id: &t.id, Port: &t.port})
		}
	}
	for t, h := range have {
		if !wanted[t] && h.State != types.TargetHealthStateEnumDraining {
			deregister = append(deregister, types.TargetDescription{Id: &t.id, Port: &t.port})
		}
	}
	if len(register) > 0 {
		if _, err := s.elb.RegisterTargets(ctx,
			&elb.RegisterTargetsInput{TargetGroupArn: &group, Targets: register}); err != nil {
			return err
		}
	}
	if len(deregister) > 0 {
		_, err = s.elb.DeregisterTargets(ctx, &elb.DeregisterTargetsInput{TargetGroupArn: &group, Targets: deregister})
	}
	return err
}

// prune deletes the resources that the cluster owns and no stack wants, load balancers before the groups they forward
// to and the security groups they are in.
func (s *syncer) prune(ctx context.Context, have *made, stacks []*stack) error {
	balancers, groups := map[owner]string{}, map[string]bool{}
	for _, k := range stacks {
		balancers[k.owner()] = k.name
		for name := range k.targetGroups {
			groups[name] = true
		}
	}
	var failed []error
	for name, b := range have.balancers {
		if balancers[have.owners[name]] != name {
			_, err := s.elb.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerArn: b.LoadBalancerArn})
			failed = append(failed, err)
		}
	}
	for name, g := range have.groups {
		if !groups[name] {
			_, err := s.elb.DeleteTargetGroup(ctx, &elb.DeleteTargetGroupInput{TargetGroupArn: g.TargetGroupArn})
			failed = append(failed, err)
		}
	}
	return errors.Join(append(failed, s.pruneGroups(ctx, have, stacks))...)
}
