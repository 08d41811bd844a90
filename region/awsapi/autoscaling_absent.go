package awsapi

import (
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// A group of the region has no scaling policies, scheduled actions and notifications: calls that would create them are
// refused, and calls that list them return none.

func describePolicies(*call, *autoscaling.DescribePoliciesInput) (*autoscaling.DescribePoliciesOutput, error) {
	return &autoscaling.DescribePoliciesOutput{ScalingPolicies: []types.ScalingPolicy{}}, nil
}

func describeScheduledActions(
	*call, *autoscaling.DescribeScheduledActionsInput,
) (*autoscaling.DescribeScheduledActionsOutput, error) {
	return &autoscaling.DescribeScheduledActionsOutput{
		ScheduledUpdateGroupActions: []types.ScheduledUpdateGroupAction{},
	}, nil
}

func describeNotificationConfigurations(
	*call, *autoscaling.DescribeNotificationConfigurationsInput,
) (*autoscaling.DescribeNotificationConfigurationsOutput, error) {
	return &autoscaling.DescribeNotificationConfigurationsOutput{
		NotificationConfigurations: []types.NotificationConfiguration{},
	}, nil
}
