package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/nodeless/nodeless/cloud"
)

// How messages are taken from the queue (node-groups-and-ips.md §5.2).
const (
	pollWait   = 20 * time.Second
	visibility = 20 * time.Second
	pollMax    = 10
)

// queue is the state of the interruption queue's reader.
type queue struct {
	mu   sync.Mutex
	url  string
	open map[string]*message // by message id
}

// message is one that was received and is not deleted; it comes again, under a new receipt, until it is.
type message struct {
	receipt string
	done    map[int]bool
	count   int
}

// Interruptions waits for messages of EventBridge on the queue and returns the notices in them. Messages that say nothing
// about machines are taken off the queue at once. Without a queue it waits and returns nothing.
func (p *Provider) Interruptions(ctx context.Context) ([]cloud.Interruption, error) {
	if p.o.InterruptionQueue == "" {
		return nil, p.sleep(ctx, pollWait)
	}
	url, err := p.queueURL(ctx)
	if err != nil {
		return nil, err
	}
	out, err := p.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: pollMax, WaitTimeSeconds: int32(pollWait.Seconds()), VisibilityTimeout: int32(visibility.Seconds()),
	})
	if err != nil {
		p.queue.mu.Lock()
		p.queue.url = "" // The queue may have been made anew.
		p.queue.mu.Unlock()
		return nil, wrap("receive from queue "+p.o.InterruptionQueue, "sqs:ReceiveMessage", err)
	}
	var notices []cloud.Interruption
	for _, m := range out.Messages {
		found := parseNotices([]byte(awssdk.ToString(m.Body)))
		if len(found) == 0 {
			if err := p.deleteMessage(ctx, awssdk.ToString(m.ReceiptHandle)); err != nil {
				p.log.Warn("message stays on the interruption queue", "error", err)
			}
			continue
		}
		notices = append(notices, p.queue.receive(awssdk.ToString(m.MessageId), awssdk.ToString(m.ReceiptHandle), found)...)
	}
	return notices, nil
}

// receive books a message and returns those of its notices that are not done.
func (q *queue) receive(id, receipt string, found []cloud.Interruption) []cloud.Interruption {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		q.open = map[string]*message{}
	}
	m := q.open[id]
	if m == nil {
		m = &message{done: map[int]bool{}, count: len(found)}
		q.open[id] = m
	}
	m.receipt = receipt
	var out []cloud.Interruption
	for i, notice := range found {
		if !m.done[i] {
			notice.Handle = strconv.Itoa(i) + " " + id
			out = append(out, notice)
		}
	}
	return out
}

// finish books a notice as done; it returns the receipt to delete when it was the last of its message.
func (q *queue) finish(id string, notice int) (receipt string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.open[id]
	if m == nil {
		return ""
	}
	if m.done[notice] = true; len(m.done) < m.count {
		return ""
	}
	delete(q.open, id)
	return m.receipt
}

// Done takes a notice off the queue; its message goes with the last of its notices.
func (p *Provider) Done(ctx context.Context, notice cloud.Interruption) error {
	number, id, ok := strings.Cut(notice.Handle, " ")
	i, err := strconv.Atoi(number)
	if !ok || err != nil {
		return fmt.Errorf("interruption of %s: handle %q is not from this queue", notice.MachineID, notice.Handle)
	}
	if receipt := p.queue.finish(id, i); receipt != "" {
		return p.deleteMessage(ctx, receipt)
	}
	return nil
}

func (p *Provider) deleteMessage(ctx context.Context, receipt string) error {
	url, err := p.queueURL(ctx)
	if err != nil {
		return err
	}
	_, err = p.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: &receipt})
	return wrap("delete from queue "+p.o.InterruptionQueue, "sqs:DeleteMessage", err)
}

func (p *Provider) queueURL(ctx context.Context) (string, error) {
	p.queue.mu.Lock()
	url := p.queue.url
	p.queue.mu.Unlock()
	if url != "" {
		return url, nil
	}
	out, err := p.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &p.o.InterruptionQueue})
	if err != nil {
		return "", wrap("find interruption queue "+p.o.InterruptionQueue+" (create it or unset --interruption-queue)", "sqs:GetQueueUrl", err)
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	p.queue.url = awssdk.ToString(out.QueueUrl)
	return p.queue.url, nil
}

// sleep waits on the provider's clock.
func (p *Provider) sleep(ctx context.Context, d time.Duration) error {
	over := make(chan struct{})
	timer := p.o.Clock.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// envelope is EventBridge's form of an event.
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

// parseNotices reads a message; one that is not about the life of machines has none.
func parseNotices(body []byte) []cloud.Interruption {
	var e envelope
	if json.Unmarshal(body, &e) != nil {
		return nil
	}
	var kind cloud.InterruptionKind
	ids := []string{e.Detail.InstanceID}
	switch e.Source + "/" + e.DetailType {
	case "aws.ec2/EC2 Spot Instance Interruption Warning", "aws.ec2/EC2 Capacity Reservation Instance Interruption Warning":
		kind = cloud.SpotInterruption
	case "aws.ec2/EC2 Instance Rebalance Recommendation":
		kind = cloud.RebalanceRecommendation
	case "aws.ec2/EC2 Instance State-change Notification":
		switch e.Detail.State {
		case "stopping", "stopped":
			kind = cloud.MachineStopping
		case "shutting-down", "terminated":
			kind = cloud.MachineTerminating
		}
	case "aws.health/AWS Health Event":
		if e.Detail.Service != "EC2" || e.Detail.Category != "scheduledChange" {
			return nil
		}
		kind, ids = cloud.ScheduledChange, nil
		for _, a := range e.Detail.Affected {
			ids = append(ids, a.Value)
		}
	}
	var out []cloud.Interruption
	for _, id := range ids {
		if kind != "" && strings.HasPrefix(id, "i-") {
			out = append(out, cloud.Interruption{MachineID: id, Kind: kind, At: e.Time})
		}
	}
	return out
}
