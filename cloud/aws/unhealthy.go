package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/cloud"
)

// unhealthyAfter is how long a check must have been failing before the instance counts as unhealthy
// (github.com/aws/karpenter-provider-aws/pkg/providers/instancestatus).
const unhealthyAfter = 2 * time.Minute

// unhealthyFilters find unhealthy instances. EC2 combines filters by AND, so each needs its own call. The codes are
// those of upcoming events (docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceStatusEvent.html).
var unhealthyFilters = []ec2types.Filter{
	{Name: awssdk.String("instance-status.status"), Values: []string{"impaired"}},
	{Name: awssdk.String("system-status.status"), Values: []string{"impaired"}},
	{
		Name:   awssdk.String("event.code"),
		Values: []string{"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"},
	},
}

var _ cloud.HealthChecker = (*Provider)(nil)

// Unhealthy returns the instances that have failed EC2's checks for two minutes or face maintenance. They need not be
// the cluster's.
func (p *Provider) Unhealthy(ctx context.Context) (_ []cloud.Interruption, err error) {
	defer p.called("Unhealthy", p.now(), &err)
	seen := map[string]bool{}
	var out []cloud.Interruption
	var failed []error
	for _, filter := range unhealthyFilters {
		pages := ec2.NewDescribeInstanceStatusPaginator(p.ec2,
			&ec2.DescribeInstanceStatusInput{Filters: []ec2types.Filter{filter}})
		failed = append(failed, eachPage(ctx, pages, "describe instance status", "ec2:DescribeInstanceStatus",
			func(page *ec2.DescribeInstanceStatusOutput) {
				for _, s := range page.InstanceStatuses {
					if id := awssdk.ToString(s.InstanceId); !seen[id] {
						seen[id] = true
						out = append(out, problemsOf(s, p.now())...)
					}
				}
			}))
	}
	return out, errors.Join(failed...)
}

// problemsOf returns the problems of an instance. An impaired volume does not count: it may belong to a single pod.
func problemsOf(s ec2types.InstanceStatus, now time.Time) []cloud.Interruption {
	var out []cloud.Interruption
	add := func(kind cloud.InterruptionKind, at time.Time) {
		out = append(out, cloud.Interruption{InstanceIDs: []string{awssdk.ToString(s.InstanceId)}, Kind: kind, At: at})
	}
	if since, ok := failedSince(s.InstanceStatus); ok && now.Sub(since) >= unhealthyAfter {
		add(cloud.InstanceFailed, since)
	}
	if since, ok := failedSince(s.SystemStatus); ok && now.Sub(since) >= unhealthyAfter {
		add(cloud.SystemFailed, since)
	}
	if slices.ContainsFunc(s.Events, isDue) {
		add(cloud.MaintenanceDue, now)
	}
	return out
}

// isDue reports whether an event is still to come. EC2 lists events for up to a week after their end, with the
// description marked (docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceStatusEvent.html).
func isDue(e ec2types.InstanceStatusEvent) bool {
	description := awssdk.ToString(e.Description)
	return !strings.HasPrefix(description, "[Completed]") && !strings.HasPrefix(description, "[Canceled]")
}

// failedSince returns when the first failing check of a status began to fail.
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
