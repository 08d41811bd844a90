package transition

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
)

// allExtras names what the groups have that Back would not restore.
func (g *groups) allExtras(ctx context.Context, list []Group) ([]string, error) {
	var out []string
	for i := range list {
		more, err := g.extras(ctx, &list[i])
		if err != nil {
			return nil, err
		}
		for _, what := range more {
			out = append(out, list[i].Title()+": "+what)
		}
	}
	return out, nil
}

// extras names what a group has besides its definition and lifecycle hooks, if the group exists.
func (g *groups) extras(ctx context.Context, group *Group) ([]string, error) {
	found, err := g.named(ctx, []Group{*group})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var out []string
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%s (%d)", what, n))
		}
	}
	name := &group.Name
	policies, err := g.scaling.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{AutoScalingGroupName: name})
	if err != nil {
		return nil, fmt.Errorf("autoscaling:DescribePolicies of %s: %w", *name, err)
	}
	add(len(policies.ScalingPolicies), "scaling policies")
	actions, err := g.scaling.DescribeScheduledActions(ctx, &autoscaling.DescribeScheduledActionsInput{
		AutoScalingGroupName: name,
	})
	if err != nil {
		return nil, fmt.Errorf("autoscaling:DescribeScheduledActions of %s: %w", *name, err)
	}
	add(len(actions.ScheduledUpdateGroupActions), "scheduled actions")
	notices, err := g.scaling.DescribeNotificationConfigurations(ctx,
		&autoscaling.DescribeNotificationConfigurationsInput{AutoScalingGroupNames: []string{*name}})
	if err != nil {
		return nil, fmt.Errorf("autoscaling:DescribeNotificationConfigurations of %s: %w", *name, err)
	}
	add(len(notices.NotificationConfigurations), "notifications")
	if group.Nodegroup != "" { // EKS enables the metrics and creates the warm pool of a node group
		return out, nil
	}
	add(len(found[0].EnabledMetrics), "enabled metrics")
	if found[0].WarmPoolConfiguration != nil {
		out = append(out, "a warm pool")
	}
	return out, nil
}
