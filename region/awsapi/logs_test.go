package awsapi

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
)

func TestTheSDKWritesAndReadsLogs(t *testing.T) {
	p := newPlace(t)
	client := cloudwatchlogs.NewFromConfig(configFor(p.url, "us-west-2"))
	group, stream := aws.String("g"), aws.String("s")
	must[*cloudwatchlogs.CreateLogGroupOutput](t)(client.CreateLogGroup(t.Context(),
		&cloudwatchlogs.CreateLogGroupInput{LogGroupName: group}))
	must[*cloudwatchlogs.CreateLogStreamOutput](t)(client.CreateLogStream(t.Context(),
		&cloudwatchlogs.CreateLogStreamInput{LogGroupName: group, LogStreamName: stream}))
	_, err := client.CreateLogStream(t.Context(),
		&cloudwatchlogs.CreateLogStreamInput{LogGroupName: group, LogStreamName: stream})
	wantCode(t, err, "ResourceAlreadyExistsException")
	now := p.clock.Now().UnixMilli()
	put := &cloudwatchlogs.PutLogEventsInput{LogGroupName: group, LogStreamName: stream}
	for i := range 30 {
		put.LogEvents = append(put.LogEvents, types.InputLogEvent{
			Timestamp: aws.Int64(now + int64(i)), Message: aws.String(fmt.Sprint("line ", i)),
		})
	}
	must[*cloudwatchlogs.PutLogEventsOutput](t)(client.PutLogEvents(t.Context(), put))
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(client, &cloudwatchlogs.FilterLogEventsInput{
		LogGroupIdentifier: aws.String("arn:aws:logs:us-west-2:123456789012:log-group:g:*"), Limit: aws.Int32(8),
	})
	n := 0
	for pages.HasMorePages() {
		for _, e := range must[*cloudwatchlogs.FilterLogEventsOutput](t)(pages.NextPage(t.Context())).Events {
			if want := fmt.Sprint("line ", n); *e.Message != want || *e.Timestamp != now+int64(n) || *e.IngestionTime != now {
				t.Errorf("%+v, want %s", e, want)
			}
			n++
		}
	}
	if n != 30 {
		t.Errorf("%d events", n)
	}
	got := must[*cloudwatchlogs.GetLogEventsOutput](t)(client.GetLogEvents(t.Context(), &cloudwatchlogs.GetLogEventsInput{
		LogGroupName: group, LogStreamName: stream, StartTime: aws.Int64(now + 10), EndTime: aws.Int64(now + 12),
	}))
	if len(got.Events) != 2 || *got.Events[0].Message != "line 10" || *got.Events[1].Message != "line 11" {
		t.Errorf("%+v", got.Events)
	}
	_, err = client.GetLogEvents(t.Context(), &cloudwatchlogs.GetLogEventsInput{
		LogGroupName: group, LogStreamName: stream, NextToken: aws.String("f/1"),
	})
	wantCode(t, err, "InvalidParameterException")
	put.LogEvents[3].Timestamp = aws.Int64(now - 1)
	_, err = client.PutLogEvents(t.Context(), put)
	wantCode(t, err, "InvalidParameterException")
}
