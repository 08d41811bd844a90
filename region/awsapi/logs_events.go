package awsapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/nodeless/nodeless/region"
)

func putLogEvents(c *call, in *cloudwatchlogs.PutLogEventsInput) (*cloudwatchlogs.PutLogEventsOutput, error) {
	events := make([]region.LogEvent, len(in.LogEvents))
	for i, e := range in.LogEvents {
		events[i] = region.LogEvent{Timestamp: aws.ToInt64(e.Timestamp), Message: aws.ToString(e.Message)}
	}
	r, err := c.region.PutLogEvents(aws.ToString(in.LogGroupName), aws.ToString(in.LogStreamName), events)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.PutLogEventsOutput{NextSequenceToken: new(strings.Repeat("0", 56))} // meaningless since 2023
	if r != (region.Rejected{}) {
		out.RejectedLogEventsInfo = &types.RejectedLogEventsInfo{
			TooNewLogEventStartIndex: index(r.TooNewFrom), TooOldLogEventEndIndex: index(r.TooOldTo),
			ExpiredLogEventEndIndex: index(r.ExpiredTo),
		}
	}
	return out, nil
}

func index(n *int) *int32 {
	if n == nil {
		return nil
	}
	return new(int32(*n)) //nolint:gosec // at most 10,000
}

// Limits of a page of events (CloudWatch Logs API reference, GetLogEvents and FilterLogEvents).
const (
	maxPageEvents = 10_000
	maxPageBytes  = 1 << 20
)

// eventID formats the position of an event as 56 digits, for IDs and, after f/ or b/, for tokens.
func eventID(at region.LogEventAt) string {
	return fmt.Sprintf("%020d%020d%016d", at.Timestamp, at.Sequence, at.Index)
}

func parseEventID(s string) (at region.LogEventAt, err error) {
	if len(s) == 56 {
		_, err = fmt.Sscanf(s[:20]+" "+s[20:40]+" "+s[40:], "%d %d %d", &at.Timestamp, &at.Sequence, &at.Index)
	}
	if len(s) != 56 || err != nil {
		return at, invalidLogs("The specified nextToken is invalid.")
	}
	return at, nil
}

// upTo returns how many of the events, in the given order, fit on a page; at least one if there is one.
func upTo(limit int, events func(yield func(int, region.LogEvent) bool)) (n int) {
	bytes := 0
	for _, e := range events {
		if bytes += len(e.Message); n == limit || n > 0 && bytes > maxPageBytes {
			return n
		}
		n++
	}
	return n
}

// getLogEvents returns a page of events and the tokens of the next and previous pages, which may still be empty.
func getLogEvents(c *call, in *cloudwatchlogs.GetLogEventsInput) (*cloudwatchlogs.GetLogEventsOutput, error) {
	group, err := c.logGroupOf(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	limit := sizeOf(in.Limit, maxPageEvents)
	stream := aws.ToString(in.LogStreamName)
	if streams, err := c.region.LogStreams(group, stream); err != nil {
		return nil, err
	} else if len(streams) == 0 || streams[0].Name != stream {
		return nil, failure(400, "ResourceNotFoundException", "The specified log stream does not exist.")
	}
	events, err := c.region.LogEvents(region.LogQuery{
		Group: group, Stream: func(name string) bool { return name == stream },
		From: aws.ToInt64(in.StartTime), Until: aws.ToInt64(in.EndTime),
	})
	if err != nil {
		return nil, err
	}
	found, first, last, err := turnPage(events, limit, aws.ToString(in.NextToken), aws.ToBool(in.StartFromHead))
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.GetLogEventsOutput{
		Events:            []types.OutputLogEvent{},
		NextForwardToken:  new("f/" + eventID(last)),
		NextBackwardToken: new("b/" + eventID(first)),
	}
	for _, e := range found {
		out.Events = append(out.Events, types.OutputLogEvent{
			IngestionTime: &e.Ingested, Message: &e.Message, Timestamp: &e.Timestamp,
		})
	}
	return out, nil
}

// turnPage returns the events of a page, and the positions of its first and last event.
func turnPage(
	events []region.LogEvent, limit int, token string, fromHead bool,
) (found []region.LogEvent, first, last region.LogEventAt, err error) {
	forward := fromHead
	if token != "" {
		direction, place, _ := strings.Cut(token, "/")
		at, err := parseEventID(place)
		if err != nil || direction != "f" && direction != "b" {
			return nil, first, last, invalidLogs("The specified nextToken is invalid.")
		}
		i, exact := slices.BinarySearchFunc(events, at, func(e region.LogEvent, at region.LogEventAt) int {
			return e.At.Compare(at)
		})
		forward = direction == "f"
		if forward && exact {
			i++
		}
		if forward {
			events = events[i:]
		} else {
			events = events[:i]
		}
		first, last = at, at
	}
	if forward {
		events = events[:upTo(limit, slices.All(events))]
	} else {
		events = events[len(events)-upTo(limit, slices.Backward(events)):]
	}
	if n := len(events); n > 0 {
		first, last = events[0].At, events[n-1].At
	}
	return events, first, last, nil
}

// maxStreamNames is the maximum number of streams that FilterLogEvents accepts.
const maxStreamNames = 100

func filterLogEvents(
	c *call, in *cloudwatchlogs.FilterLogEventsInput,
) (*cloudwatchlogs.FilterLogEventsOutput, error) {
	group, err := c.logGroupOf(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	limit := sizeOf(in.Limit, maxPageEvents)
	q := region.LogQuery{Group: group, From: aws.ToInt64(in.StartTime), Until: aws.ToInt64(in.EndTime)}
	if q.Match, err = region.LogPattern(aws.ToString(in.FilterPattern)); err != nil {
		return nil, err
	}
	switch n := len(in.LogStreamNames); {
	case n > 0 && in.LogStreamNamePrefix != nil:
		return nil, invalidLogs("logStreamNamePrefix and logStreamNames are mutually exclusive parameters.")
	case n > maxStreamNames:
		return nil, invalidLogs("1 validation error detected: Value at 'logStreamNames' failed to satisfy constraint: "+
			"Member must have length less than or equal to %d", maxStreamNames)
	case n > 0:
		q.Stream = func(name string) bool { return slices.Contains(in.LogStreamNames, name) }
	case in.LogStreamNamePrefix != nil:
		q.Stream = func(name string) bool { return strings.HasPrefix(name, *in.LogStreamNamePrefix) }
	}
	events, err := c.region.LogEvents(q)
	if err != nil {
		return nil, err
	}
	token := ""
	if in.NextToken != nil {
		token = "f/" + *in.NextToken
	}
	page, _, last, err := turnPage(events, limit, token, true)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.FilterLogEventsOutput{
		Events: []types.FilteredLogEvent{}, SearchedLogStreams: []types.SearchedLogStream{},
	}
	for _, e := range page {
		out.Events = append(out.Events, types.FilteredLogEvent{
			EventId: new(eventID(e.At)), IngestionTime: &e.Ingested, LogStreamName: &e.Stream, Message: &e.Message,
			Timestamp: &e.Timestamp,
		})
	}
	if n := len(events); len(page) > 0 && last != events[n-1].At {
		out.NextToken = new(eventID(last))
	}
	return out, nil
}
