package region

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// queue is an SQS queue.
type queue struct {
	Name     string
	messages []*Message
	arrived  chan struct{} // closed and replaced when a message comes
}

// Message is a message on a queue.
type Message struct {
	ID, Body   string
	Sequence   uint64 // order of sending
	SentAt     time.Time
	Receipt    string    `json:"-"` // of the last delivery
	VisibleAt  time.Time `json:"-"` // a restart makes every message visible again, as at-least-once delivery may
	Deliveries int       `json:"-"`
}

const (
	// maxMessages bounds a queue nobody reads; the oldest go.
	maxMessages = 10_000
	// retention is how long a message stays: what Karpenter's installation sets for its queue.
	retention = 5 * time.Minute
)

func (r *Region) ensureQueue(name string) {
	if r.queues[name] == nil && name != "" {
		q := &queue{Name: name}
		r.queues[name] = q
		r.store.put(bucketQueues, name, q)
	}
}

// findQueue finds a queue and drops what it has kept too long. The caller holds the lock.
func (r *Region) findQueue(name string) (*queue, error) {
	q := r.queues[name]
	if q == nil {
		return nil, &APIError{Code: "AWS.SimpleQueueService.NonExistentQueue", Message: "The specified queue does not exist.", HTTPStatus: 400}
	}
	old := r.clock.Now().Add(-retention)
	n := 0
	for n < len(q.messages) && (len(q.messages)-n > maxMessages || q.messages[n].SentAt.Before(old)) {
		r.store.remove(bucketMessages, q.key(q.messages[n]))
		n++
	}
	q.messages = slices.Delete(q.messages, 0, n)
	return q, nil
}

func (q *queue) key(m *Message) string { return q.Name + "/" + m.ID }

// Queue reports whether a queue exists, and how many messages wait in it.
func (r *Region) Queue(name string) (waiting int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.findQueue(name)
	if err != nil {
		return 0, err
	}
	return len(q.messages), nil
}

// QueueDepth is how many messages of a queue can be received now, and how many are hidden since they were.
func (r *Region) QueueDepth(name string) (visible, hidden int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.findQueue(name)
	if err != nil {
		return 0, 0, err
	}
	now := r.clock.Now()
	for _, m := range q.messages {
		if m.VisibleAt.After(now) {
			hidden++
		}
	}
	return len(q.messages) - hidden, hidden, nil
}

// SendMessage puts a message on a queue.
func (r *Region) SendMessage(name, body string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.findQueue(name)
	if err != nil {
		return "", err
	}
	id := r.send(q, body)
	return id, r.commit()
}

func (r *Region) send(q *queue, body string) string {
	now := r.clock.Now()
	m := &Message{ID: r.newID(), Body: body, Sequence: r.sequence, SentAt: now, VisibleAt: now}
	q.messages = append(q.messages, m)
	r.store.put(bucketMessages, q.key(m), m)
	if q.arrived != nil {
		close(q.arrived)
		q.arrived = nil
	}
	return m.ID
}

// ReceiveMessage gives up to n visible messages and hides them for the visibility time.
func (r *Region) ReceiveMessage(name string, n int, visibility time.Duration) ([]Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.findQueue(name)
	if err != nil {
		return nil, err
	}
	return q.receive(n, visibility, r.clock.Now()), r.commit()
}

// PollMessages is ReceiveMessage that waits up to wait for the first message (SQS's long poll). It ends early, without
// messages or error, when ctx does.
func (r *Region) PollMessages(ctx context.Context, name string, n int, visibility, wait time.Duration) ([]Message, error) {
	end := r.clock.Now().Add(wait)
	for {
		got, arrived, look, err := r.receiveOrWait(name, n, visibility, end)
		if err != nil || len(got) > 0 || arrived == nil {
			return got, err
		}
		if clock.SleepOr(ctx, r.clock, look, arrived) != nil {
			return nil, nil //nolint:nilerr // a caller who left gets no messages, which is no fault
		}
	}
}

// receiveOrWait gives messages, or else a channel that is closed when one comes and after how long to look again; a nil
// channel if end has come.
func (r *Region) receiveOrWait(name string, n int, visibility time.Duration, end time.Time) ([]Message, <-chan struct{}, time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.findQueue(name)
	if err != nil {
		return nil, nil, 0, err
	}
	now := r.clock.Now()
	if got := q.receive(n, visibility, now); len(got) > 0 || !now.Before(end) {
		return got, nil, 0, r.commit()
	}
	look := end
	for _, m := range q.messages { // all hidden: the first to show again counts
		if m.VisibleAt.Before(look) {
			look = m.VisibleAt
		}
	}
	if q.arrived == nil {
		q.arrived = make(chan struct{})
	}
	return nil, q.arrived, look.Sub(now), r.commit()
}

func (q *queue) receive(n int, visibility time.Duration, now time.Time) []Message {
	var out []Message
	for _, m := range q.messages {
		if len(out) == n {
			break
		}
		if m.VisibleAt.After(now) {
			continue
		}
		m.Deliveries++
		m.Receipt, m.VisibleAt = fmt.Sprintf("%s-%d", m.ID, m.Deliveries), now.Add(visibility)
		out = append(out, *m)
	}
	return out
}

// DeleteMessage takes a received message off its queue, by the receipt of any of its deliveries; an unknown receipt is
// ignored, as on SQS.
func (r *Region) DeleteMessage(name, receipt string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.findQueue(name)
	if err != nil {
		return err
	}
	id, _, ok := strings.Cut(receipt, "-")
	n := slices.IndexFunc(q.messages, func(m *Message) bool { return ok && m.ID == id })
	if n >= 0 {
		r.store.remove(bucketMessages, q.key(q.messages[n]))
		q.messages = slices.Delete(q.messages, n, n+1)
	}
	return r.commit()
}

// notify sends an EventBridge event to every queue. The caller holds the lock and commits.
func (r *Region) notify(detailType string, i *Instance, detail map[string]string) {
	detail["instance-id"] = i.ID
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": r.newID(), "source": "aws.ec2", "detail-type": detailType, "account": AccountID, "region": r.c.Name,
		"time":      r.clock.Now().UTC().Format(time.RFC3339),
		"resources": []string{fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", r.c.Name, AccountID, i.ID)},
		"detail":    detail,
	})
	if err != nil { // strings alone: cannot be
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.queues)) {
		r.send(r.queues[name], string(body))
	}
}

func (r *Region) notifySpot(i *Instance) {
	r.notify("EC2 Spot Instance Interruption Warning", i, map[string]string{"instance-action": "terminate"})
}

func (r *Region) notifyRebalance(i *Instance) {
	r.notify("EC2 Instance Rebalance Recommendation", i, map[string]string{})
}

func (r *Region) notifyState(i *Instance) {
	r.notify("EC2 Instance State-change Notification", i, map[string]string{"state": string(i.State)})
}
