package aws

import (
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/cloud"
)

// EC2 lists an event for up to a week after its end, and marks it in the description.
func TestMaintenanceIsDueOnlyUntilItIsOver(t *testing.T) {
	event := func(description string) ec2types.InstanceStatusEvent {
		return ec2types.InstanceStatusEvent{Code: "instance-reboot", Description: awssdk.String(description)}
	}
	for _, tc := range []struct {
		due    bool
		events []ec2types.InstanceStatusEvent
	}{
		{false, nil},
		{true, []ec2types.InstanceStatusEvent{event("The instance is scheduled for a reboot")}},
		{false, []ec2types.InstanceStatusEvent{event("[Completed] The instance is scheduled for a reboot")}},
		{false, []ec2types.InstanceStatusEvent{event("[Canceled] The instance is scheduled for a reboot")}},
		{true, []ec2types.InstanceStatusEvent{event("[Completed] A reboot"), event("A reboot")}},
	} {
		got := problemsOf(ec2types.InstanceStatus{InstanceId: awssdk.String("i-1"), Events: tc.events}, time.Unix(0, 0))
		if due := len(got) == 1 && got[0].Kind == cloud.MaintenanceDue; due != tc.due || !due && len(got) > 0 {
			t.Errorf("%d events: %v, want maintenance due: %t", len(tc.events), got, tc.due)
		}
	}
}
