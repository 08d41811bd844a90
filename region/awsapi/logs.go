package awsapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/nodeless/nodeless/region"
)

func invalidLogs(format string, args ...any) error {
	return failure(400, "InvalidParameterException", fmt.Sprintf(format, args...))
}

// logGroupARN returns a group's ARN without the ":*" that IAM policies add.
func (c *call) logGroupARN(name string) string {
	return "arn:aws:logs:" + c.region.Name() + ":" + region.AccountID + ":log-group:" + name
}

// logGroupOf returns the name of a group that a request identifies by name, or by identifier, a name or an ARN.
func (c *call) logGroupOf(name, identifier *string) (string, error) {
	switch {
	case name != nil && identifier != nil:
		return "", invalidLogs("LogGroup name and LogGroup identifier are mutually exclusive parameters.")
	case name == nil && identifier == nil:
		return "", invalidLogs("You must specify either logGroupName or logGroupIdentifier.")
	case name != nil:
		return *name, nil
	}
	return strings.TrimSuffix(strings.TrimPrefix(*identifier, c.logGroupARN("")), ":*"), nil
}

func createLogGroup(
	c *call, in *cloudwatchlogs.CreateLogGroupInput,
) (*cloudwatchlogs.CreateLogGroupOutput, error) {
	if in.LogGroupClass != "" && in.LogGroupClass != types.LogGroupClassStandard {
		return nil, invalidLogs("logGroupClass %s: the simulated region has STANDARD alone", in.LogGroupClass)
	}
	return &cloudwatchlogs.CreateLogGroupOutput{}, c.region.CreateLogGroup(aws.ToString(in.LogGroupName), in.Tags)
}

func deleteLogGroup(
	c *call, in *cloudwatchlogs.DeleteLogGroupInput,
) (*cloudwatchlogs.DeleteLogGroupOutput, error) {
	return &cloudwatchlogs.DeleteLogGroupOutput{}, c.region.DeleteLogGroup(aws.ToString(in.LogGroupName))
}

func putRetentionPolicy(
	c *call, in *cloudwatchlogs.PutRetentionPolicyInput,
) (*cloudwatchlogs.PutRetentionPolicyOutput, error) {
	days := int(aws.ToInt32(in.RetentionInDays))
	if days == 0 {
		days = -1 // invalid, where 0 would mean no retention
	}
	return &cloudwatchlogs.PutRetentionPolicyOutput{}, c.region.SetLogRetention(aws.ToString(in.LogGroupName), days)
}

func deleteRetentionPolicy(
	c *call, in *cloudwatchlogs.DeleteRetentionPolicyInput,
) (*cloudwatchlogs.DeleteRetentionPolicyOutput, error) {
	return &cloudwatchlogs.DeleteRetentionPolicyOutput{}, c.region.SetLogRetention(aws.ToString(in.LogGroupName), 0)
}

func createLogStream(
	c *call, in *cloudwatchlogs.CreateLogStreamInput,
) (*cloudwatchlogs.CreateLogStreamOutput, error) {
	return &cloudwatchlogs.CreateLogStreamOutput{},
		c.region.CreateLogStream(aws.ToString(in.LogGroupName), aws.ToString(in.LogStreamName))
}

func deleteLogStream(
	c *call, in *cloudwatchlogs.DeleteLogStreamInput,
) (*cloudwatchlogs.DeleteLogStreamOutput, error) {
	return &cloudwatchlogs.DeleteLogStreamOutput{},
		c.region.DeleteLogStream(aws.ToString(in.LogGroupName), aws.ToString(in.LogStreamName))
}

// usualLogPage is the default page size for groups and streams.
const usualLogPage = 50

// logPage returns a page of a sorted list, after the item whose key is the token.
func logPage[T any](list []T, limit *int32, token *string, key func(T) string) ([]T, *string, error) {
	size := sizeOf(limit, usualLogPage)
	if token != nil {
		i := slices.IndexFunc(list, func(v T) bool { return key(v) == *token })
		if i < 0 {
			return nil, nil, invalidLogs("The specified nextToken is invalid.")
		}
		list = list[i+1:]
	}
	if len(list) <= size {
		return list, nil, nil
	}
	return list[:size], new(key(list[size-1])), nil
}

func describeLogGroups(
	c *call, in *cloudwatchlogs.DescribeLogGroupsInput,
) (*cloudwatchlogs.DescribeLogGroupsOutput, error) {
	if in.LogGroupNamePrefix != nil && in.LogGroupNamePattern != nil {
		return nil, invalidLogs("LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters.")
	}
	found := slices.DeleteFunc(c.region.LogGroups(), func(g region.LogGroup) bool {
		return !strings.HasPrefix(g.Name, aws.ToString(in.LogGroupNamePrefix)) ||
			!strings.Contains(strings.ToLower(g.Name), strings.ToLower(aws.ToString(in.LogGroupNamePattern)))
	})
	found, next, err := logPage(found, in.Limit, in.NextToken, func(g region.LogGroup) string { return g.Name })
	out := &cloudwatchlogs.DescribeLogGroupsOutput{LogGroups: []types.LogGroup{}, NextToken: next}
	for _, g := range found {
		x := types.LogGroup{
			LogGroupName: &g.Name, Arn: new(c.logGroupARN(g.Name) + ":*"), LogGroupArn: new(c.logGroupARN(g.Name)),
			CreationTime: new(g.CreatedAt.UnixMilli()), StoredBytes: &g.StoredBytes, MetricFilterCount: new(int32(0)),
			LogGroupClass: types.LogGroupClassStandard,
		}
		if g.RetentionDays > 0 {
			x.RetentionInDays = new(int32(g.RetentionDays)) //nolint:gosec // one of region's values
		}
		out.LogGroups = append(out.LogGroups, x)
	}
	return out, err
}

func describeLogStreams(
	c *call, in *cloudwatchlogs.DescribeLogStreamsInput,
) (*cloudwatchlogs.DescribeLogStreamsOutput, error) {
	group, err := c.logGroupOf(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	byTime := in.OrderBy == types.OrderByLastEventTime
	if byTime && in.LogStreamNamePrefix != nil {
		return nil, invalidLogs("Cannot order by LastEventTime with a logStreamNamePrefix.")
	}
	found, err := c.region.LogStreams(group, aws.ToString(in.LogStreamNamePrefix))
	if err != nil {
		return nil, err
	}
	if byTime {
		slices.SortStableFunc(found, func(a, b region.LogStream) int { return cmp.Compare(a.LastEvent, b.LastEvent) })
	}
	if aws.ToBool(in.Descending) {
		slices.Reverse(found)
	}
	found, next, err := logPage(found, in.Limit, in.NextToken, func(s region.LogStream) string { return s.Name })
	out := &cloudwatchlogs.DescribeLogStreamsOutput{LogStreams: []types.LogStream{}, NextToken: next}
	for _, s := range found {
		x := types.LogStream{
			LogStreamName: &s.Name, Arn: new(c.logGroupARN(s.Group) + ":log-stream:" + s.Name),
			CreationTime: new(s.CreatedAt.UnixMilli()),
			StoredBytes:  new(int64(0)), //nolint:staticcheck // always 0 since June 2019, and answered by AWS
		}
		if s.LastIngest > 0 {
			x.FirstEventTimestamp, x.LastEventTimestamp, x.LastIngestionTime = &s.FirstEvent, &s.LastEvent, &s.LastIngest
		}
		out.LogStreams = append(out.LogStreams, x)
	}
	return out, err
}
