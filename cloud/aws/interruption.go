package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// How messages are received (karpenter.sh/docs/concepts/disruption, interruption; SQS delivers and deletes at most
// ten per call).
const (
	pollWait   = 20 * time.Second
	visibility = 20 * time.Second
	pollMax    = 10
	// burst is the number of concurrent calls when many messages are waiting; maxNotices ends a round of calls.
	burst      = 8
	maxNotices = 1000
)

// notices reads the interruption queue.
type notices struct {
	*account

	mu  sync.Mutex
	url string // of the queue; "" if not known
}

// Interruptions waits for messages from EventBridge on the queue. A single call waits while there are none; if it
// returns a full batch, several calls fetch the rest. So a thousand messages take a few round trips, and an idle
// queue costs one call every twenty seconds. Without a queue, Interruptions waits and returns nothing.
func (s *notices) Interruptions(ctx context.Context) (_ []cloud.Interruption, err error) {
	if s.o.InterruptionQueue == "" {
		return nil, clock.Sleep(ctx, s.o.Clock, pollWait)
	}
	defer s.called("Interruptions", s.now(), &err)
	url, err := s.queueURL(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.receive(ctx, url, pollWait)
	if err != nil {
		s.mu.Lock()
		s.url = "" // the queue may have been recreated
		s.mu.Unlock()
		return nil, err
	}
	if len(found) == pollMax {
		found = append(found, s.receiveRest(ctx, url)...)
	}
	out := make([]cloud.Interruption, len(found))
	for i, m := range found {
		out[i] = parseNotice(awssdk.ToString(m.Body))
		out[i].Handle, out[i].Sent = awssdk.ToString(m.ReceiptHandle), sentAt(m)
	}
	return out, nil
}

func (s *notices) receive(ctx context.Context, url string, wait time.Duration) ([]sqstypes.Message, error) {
	out, err := s.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: pollMax, WaitTimeSeconds: int32(wait.Seconds()),
		VisibilityTimeout:           int32(visibility.Seconds()),
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
	})
	if err != nil {
		return nil, wrap("receive from queue "+s.o.InterruptionQueue, "sqs:ReceiveMessage", err)
	}
	return out.Messages, nil
}

// receiveRest receives the messages behind a full batch, up to about maxNotices. It ignores errors, which the next
// call will meet again, so that they do not delay messages already received.
func (s *notices) receiveRest(ctx context.Context, url string) []sqstypes.Message {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var out []sqstypes.Message
	for range burst {
		wg.Go(func() {
			for {
				// A short poll queries only some of SQS's servers; the next long poll finds what it missed.
				got, err := s.receive(ctx, url, 0)
				mu.Lock()
				out = append(out, got...)
				enough := err != nil || len(got) == 0 || len(out) >= maxNotices
				mu.Unlock()
				if enough {
					return
				}
			}
		})
	}
	wg.Wait()
	return out
}

// sentAt returns when EventBridge put a message on the queue.
func sentAt(m sqstypes.Message) time.Time {
	ms, err := strconv.ParseInt(m.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Done deletes messages from the queue, ten per call, in several concurrent calls.
func (s *notices) Done(ctx context.Context, notices ...cloud.Interruption) (err error) {
	if len(notices) == 0 {
		return nil
	}
	defer s.called("Done", s.now(), &err)
	url, err := s.queueURL(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed []error
	var group errgroup.Group
	group.SetLimit(burst)
	for part := range slices.Chunk(notices, pollMax) {
		group.Go(func() error {
			if err := s.deleteMessages(ctx, url, part); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // failed has all errors
	return errors.Join(failed...)
}

func (s *notices) deleteMessages(ctx context.Context, url string, notices []cloud.Interruption) error {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &url}
	for i, n := range notices {
		in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{
			Id:            awssdk.String(strconv.Itoa(i)),
			ReceiptHandle: awssdk.String(n.Handle),
		})
	}
	act := "delete from queue " + s.o.InterruptionQueue
	out, err := s.sqs.DeleteMessageBatch(ctx, in)
	if err != nil {
		return wrap(act, "sqs:DeleteMessage", err)
	}
	if n := len(out.Failed); n > 0 {
		return fmt.Errorf("%s: %d of %d messages stay, the first since %s: %s", act, n, len(notices),
			awssdk.ToString(out.Failed[0].Code), awssdk.ToString(out.Failed[0].Message))
	}
	return nil
}

func (s *notices) queueURL(ctx context.Context) (string, error) {
	s.mu.Lock()
	url := s.url
	s.mu.Unlock()
	if url != "" {
		return url, nil
	}
	out, err := s.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &s.o.InterruptionQueue})
	if err != nil {
		return "", wrap("find interruption queue "+s.o.InterruptionQueue+" (create it or unset --interruption-queue)",
			"sqs:GetQueueUrl", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.url = awssdk.ToString(out.QueueUrl)
	return s.url, nil
}
