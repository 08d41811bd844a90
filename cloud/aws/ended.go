package aws

import (
	"context"
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/cloud"
)

// Ended reads EC2's state reason of an instance that ends or has ended; EC2 shows it for about an hour.
func (p *Provider) Ended(ctx context.Context, id string) (_ cloud.Ending, err error) {
	defer p.called("Ended", p.now(), &err)
	answer, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if isUnknownInstance(code(err)) {
		return cloud.Ending{}, nil
	}
	if err != nil {
		err = wrap("describe instances", "ec2:DescribeInstances", err)
		return cloud.Ending{}, fmt.Errorf("ask why instance %s ended: %w", id, err)
	}
	for _, r := range answer.Reservations {
		for _, i := range r.Instances {
			if i.StateReason != nil && i.State != nil && hasEnded(i.State.Name) {
				return endingOf(awssdk.ToString(i.StateReason.Code), awssdk.ToString(i.StateReason.Message)), nil
			}
		}
	}
	return cloud.Ending{}, nil
}

func hasEnded(s ec2types.InstanceStateName) bool {
	return s == ec2types.InstanceStateNameShuttingDown || s == ec2types.InstanceStateNameTerminated
}

// endingOf knows which state reasons are of instances that cannot start: a key that cannot be used, a volume or
// snapshot that cannot be had (EC2 user guide, "Troubleshoot Amazon EC2 instance launch issues", instance terminates
// immediately).
func endingOf(code, message string) cloud.Ending {
	out := cloud.Ending{Code: code, Message: message}
	switch code {
	case "Client.UserInitiatedShutdown", "Client.UserInitiatedHibernate", "Client.InstanceInitiatedShutdown": // on purpose
	case "Server.InternalError":
		out.AtLaunch = true
	default:
		out.AtLaunch = strings.HasPrefix(code, "Client.")
	}
	return out
}
