package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/nodeless/nodeless/cloud"
)

func TestNoticesOfEventBridge(t *testing.T) {
	for _, tc := range []struct {
		body string
		want cloud.InterruptionKind
		ids  string
	}{
		{`{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","time":"2026-01-01T00:00:00Z","detail":{"instance-id":"i-1","instance-action":"terminate"}}`, cloud.SpotInterruption, "i-1"},
		{`{"source":"aws.ec2","detail-type":"EC2 Capacity Reservation Instance Interruption Warning","detail":{"instance-id":"i-1","instance-action":"terminate"}}`, cloud.ReservationInterruption, "i-1"},
		{
			`{"source":"aws.ec2","detail-type":"EC2 Instance Rebalance Recommendation","detail":{"instance-id":"i-1"}}`,
			cloud.RebalanceRecommendation, "i-1",
		},
		{`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"stopping"}}`, cloud.InstanceStopping, "i-1"},
		{`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"terminated"}}`, cloud.InstanceTerminating, "i-1"},
		{`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"running"}}`, cloud.NoOp, ""},
		{`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-1"},{"entityValue":"vol-1"},{"entityValue":"i-2"}]}}`, cloud.ScheduledChange, "i-1 i-2"},
		{`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"vol-1"}]}}`, cloud.NoOp, ""},
		{`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"RDS","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-1"}]}}`, cloud.NoOp, ""},
		{`{"source":"aws.s3","detail-type":"Object Created","detail":{"bucket":{"name":"b"}}}`, cloud.NoOp, ""},
		{`{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{}}`, cloud.Malformed, ""},
		{
			`{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":7}}`,
			cloud.Malformed, "",
		},
		{`{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","time":"yesterday","detail":{"instance-id":"i-1"}}`, cloud.Malformed, ""},
		{`{"Records":[]}`, cloud.Malformed, ""},
		{`{}`, cloud.Malformed, ""},
		{`[]`, cloud.Malformed, ""},
		{`not json`, cloud.Malformed, ""},
		{``, cloud.Malformed, ""},
	} {
		got := parseNotice(tc.body)
		if got.Kind != tc.want || strings.Join(got.InstanceIDs, " ") != tc.ids ||
			(got.Kind == cloud.Malformed) != (got.Note != "") {
			t.Errorf("%s gave %+v, want %q of %q", tc.body, got, tc.want, tc.ids)
		}
	}
}

// Messages stay in the queue until they are done; messages that are done are deleted even if others cannot be.
func TestMessagesStayUntilTheyAreDone(t *testing.T) {
	a, p, _ := stage(t, func(o *Options) { o.InterruptionQueue = "demo" })
	spot := `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"i-1"}}`
	for _, id := range []string{"1", "2", "3"} {
		a.messages = append(a.messages, sqstypes.Message{
			MessageId: awssdk.String("m" + id), ReceiptHandle: awssdk.String("r" + id), Body: &spot,
			Attributes: map[string]string{"SentTimestamp": "1767225600000"},
		})
	}
	notices, err := p.Interruptions(t.Context())
	if err != nil || len(notices) != 3 || len(a.messages) != 3 {
		t.Fatalf("notices %v, %v; %d messages left", notices, err, len(a.messages))
	}
	if sent := notices[0].Sent.UTC().Year(); sent != 2026 {
		t.Errorf("sent in %d", sent)
	}
	a.stuck = "r2"
	if err := p.Done(t.Context(), notices...); err == nil || !strings.Contains(err.Error(), "1 of 3") {
		t.Errorf("one message cannot be deleted, and the error is %v", err)
	}
	var left []string
	for _, m := range a.messages {
		left = append(left, *m.MessageId)
	}
	if !slices.Equal(left, []string{"m2"}) {
		t.Errorf("left are %v", left)
	}
}

// counted is an observer that lists the calls and whether they failed.
type counted []string

func (c *counted) Call(provider, method string, _ time.Duration, err error) {
	*c = append(*c, fmt.Sprint(provider, " ", method, " ", err != nil))
}

func (*counted) Batch(string, time.Duration, int) {}

func (*counted) UserData(string, int) {}

func TestCallsToTheQueueAreCounted(t *testing.T) {
	a, p, _ := stage(t, func(o *Options) { o.InterruptionQueue = "demo" })
	got := &counted{}
	p.Observe(got)
	a.fail["ReceiveMessage"] = []error{apiError("ServiceUnavailable", "down")}
	a.fail["DeleteMessageBatch"] = []error{apiError("AccessDenied", "no")}
	for range 2 {
		_, _ = p.Interruptions(t.Context())
	}
	_ = p.Done(t.Context(), cloud.Interruption{Handle: "r1"})
	_ = p.Done(t.Context())
	if want := (counted{"aws Interruptions true", "aws Interruptions false", "aws Done true"}); !slices.Equal(*got, want) {
		t.Errorf("counted %q, want %q", *got, want)
	}
}
