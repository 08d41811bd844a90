package aws

import (
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/nodeless/nodeless/cloud"
)

func TestNoticesOfEventBridge(t *testing.T) {
	for body, want := range map[string]cloud.InterruptionKind{
		`{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","time":"2026-01-01T00:00:00Z","detail":{"instance-id":"i-1","instance-action":"terminate"}}`: cloud.SpotInterruption,
		`{"source":"aws.ec2","detail-type":"EC2 Instance Rebalance Recommendation","detail":{"instance-id":"i-1"}}`:                                                              cloud.RebalanceRecommendation,
		`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"stopping"}}`:                                          cloud.MachineStopping,
		`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"terminated"}}`:                                        cloud.MachineTerminating,
		`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"running"}}`:                                           "",
		`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-1"}]}}`:   cloud.ScheduledChange,
		`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"RDS","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-1"}]}}`:   "",
		`not json`: "",
	} {
		got := parseNotices([]byte(body))
		if (want == "" && len(got) != 0) || (want != "" && (len(got) != 1 || got[0].Kind != want || got[0].MachineID != "i-1")) {
			t.Errorf("%s gave %+v, want %q", body, got, want)
		}
	}
}

// A message stays until all its notices are done; noise goes at once.
func TestMessagesStayUntilTheyAreDone(t *testing.T) {
	a, p, _ := stage(t, func(o *Options) { o.InterruptionQueue = "demo" })
	two := `{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-1"},{"entityValue":"i-2"}]}}`
	a.messages = []sqstypes.Message{
		{MessageId: awssdk.String("m1"), ReceiptHandle: awssdk.String("r1"), Body: &two},
		{MessageId: awssdk.String("m2"), ReceiptHandle: awssdk.String("r2"), Body: awssdk.String("{}")},
	}
	notices, err := p.Interruptions(t.Context())
	if err != nil || len(notices) != 2 || len(a.messages) != 1 {
		t.Fatalf("notices %v, %v; %d messages left", notices, err, len(a.messages))
	}
	if err := p.Done(t.Context(), notices[0]); err != nil {
		t.Fatal(err)
	}
	a.messages[0].ReceiptHandle = awssdk.String("r3")
	again, err := p.Interruptions(t.Context())
	if err != nil || len(again) != 1 || again[0].MachineID != "i-2" {
		t.Fatalf("again %v, %v", again, err)
	}
	if err := p.Done(t.Context(), again[0]); err != nil || len(a.messages) != 0 {
		t.Errorf("%v; %d messages left", err, len(a.messages))
	}
}
