package aws

import (
	"context"
	"errors"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/cloud"
)

// ailingAfter is how long a check must have failed before the instance is given up (karpenter.md §6.5).
const ailingAfter = 2 * time.Minute

// ailments are the questions that find instances which do not do well. EC2 joins filters of several names by AND, so
// each is a call of its own. The codes are those of an event that is still to come (node-groups-and-ips.md §5.2).
var ailments = []ec2types.Filter{
	{Name: awssdk.String("instance-status.status"), Values: []string{"impaired"}},
	{Name: awssdk.String("system-status.status"), Values: []string{"impaired"}},
	{
		Name:   awssdk.String("event.code"),
		Values: []string{"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"},
	},
}

var _ cloud.HealthChecker = (*Provider)(nil)

// Ailing asks EC2 for instances that fail its checks for two minutes or have maintenance ahead. They may be anybody's.
func (p *Provider) Unhealthy(ctx context.Context) ([]cloud.Interruption, error) {
	seen := map[string]bool{}
	var out []cloud.Interruption
	var failed []error
	for _, filter := range ailments {
		pages := ec2.NewDescribeInstanceStatusPaginator(p.ec2,
			&ec2.DescribeInstanceStatusInput{Filters: []ec2types.Filter{filter}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				failed = append(failed, wrap("look for instances that fail their checks", "ec2:DescribeInstanceStatus", err))
				break
			}
			for _, s := range page.InstanceStatuses {
				if id := awssdk.ToString(s.InstanceId); !seen[id] {
					seen[id] = true
					out = append(out, ailmentsOf(s, p.now())...)
				}
			}
		}
	}
	return out, errors.Join(failed...)
}

// ailmentsOf is what is wrong with one instance. An ailing volume is not: it may be one pod's alone.
func ailmentsOf(s ec2types.InstanceStatus, now time.Time) []cloud.Interruption {
	var out []cloud.Interruption
	add := func(kind cloud.InterruptionKind, at time.Time) {
		out = append(out, cloud.Interruption{InstanceIDs: []string{awssdk.ToString(s.InstanceId)}, Kind: kind, At: at})
	}
	if since, ok := failedSince(s.InstanceStatus); ok && now.Sub(since) >= ailingAfter {
		add(cloud.InstanceFailed, since)
	}
	if since, ok := failedSince(s.SystemStatus); ok && now.Sub(since) >= ailingAfter {
		add(cloud.SystemFailed, since)
	}
	if len(s.Events) > 0 {
		add(cloud.MaintenanceDue, now)
	}
	return out
}

// failedSince is when the first of a status's checks that fail began to.
func failedSince(s *ec2types.InstanceStatusSummary) (since time.Time, failed bool) {
	if s == nil {
		return since, false
	}
	for _, d := range s.Details {
		if at := awssdk.ToTime(d.ImpairedSince); d.Status == ec2types.StatusTypeFailed && (!failed || at.Before(since)) {
			since, failed = at, true
		}
	}
	return since, failed
}
