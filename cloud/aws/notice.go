package aws

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/cloud"
)

// envelope is EventBridge's format of an event (karpenter.sh/docs/concepts/disruption, interruption, "Interruption
// messages on the queue").
type envelope struct {
	Source     string    `json:"source"`
	DetailType string    `json:"detail-type"`
	Time       time.Time `json:"time"`
	Detail     struct {
		InstanceID string `json:"instance-id"`
		State      string `json:"state"`
		// Of AWS Health:
		Service  string `json:"service"`
		Category string `json:"eventTypeCategory"`
		Affected []struct {
			Value string `json:"entityValue"`
		} `json:"affectedEntities"`
	} `json:"detail"`
}

// maxShown limits how much of an unreadable message is shown.
const maxShown = 200

// parseNotice reads a message. A message that does not concern the lifecycle of instances is NoOp; one that cannot be
// read, or that should name an instance and does not, is Malformed.
func parseNotice(body string) cloud.Interruption {
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return cloud.Interruption{Kind: cloud.Malformed, Note: fmt.Sprintf("%v: %.*q", err, maxShown, body)}
	}
	if e.Source == "" || e.DetailType == "" {
		return cloud.Interruption{Kind: cloud.Malformed, Note: fmt.Sprintf("no event of EventBridge: %.*q", maxShown, body)}
	}
	out := cloud.Interruption{Kind: e.kind(), At: e.Time}
	if out.Kind == cloud.NoOp {
		return out
	}
	ids := []string{e.Detail.InstanceID}
	if out.Kind == cloud.ScheduledChange {
		ids = nil
		for _, a := range e.Detail.Affected {
			ids = append(ids, a.Value)
		}
	}
	for _, id := range ids {
		if strings.HasPrefix(id, "i-") {
			out.InstanceIDs = append(out.InstanceIDs, id)
		}
	}
	switch {
	case len(out.InstanceIDs) > 0:
	case out.Kind == cloud.ScheduledChange: // of volumes, hosts, the whole account
		out.Kind = cloud.NoOp
	default:
		out.Kind, out.Note = cloud.Malformed, fmt.Sprintf("no instance is named: %.*q", maxShown, body)
	}
	return out
}

// kind returns the kind of an event; NoOp if it does not concern the lifecycle of instances.
func (e *envelope) kind() cloud.InterruptionKind {
	switch e.Source + "/" + e.DetailType {
	case "aws.ec2/EC2 Spot Instance Interruption Warning":
		return cloud.SpotInterruption
	case "aws.ec2/EC2 Capacity Reservation Instance Interruption Warning":
		return cloud.ReservationInterruption
	case "aws.ec2/EC2 Instance Rebalance Recommendation":
		return cloud.RebalanceRecommendation
	case "aws.ec2/EC2 Instance State-change Notification":
		switch strings.ToLower(e.Detail.State) {
		case "stopping", "stopped":
			return cloud.InstanceStopping
		case "shutting-down", "terminated":
			return cloud.InstanceTerminating
		}
	case "aws.health/AWS Health Event":
		if e.Detail.Service == "EC2" && e.Detail.Category == "scheduledChange" {
			return cloud.ScheduledChange
		}
	}
	return cloud.NoOp
}
