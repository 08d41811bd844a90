package region

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// queues is SQS.
type queues struct {
	*core
	byName map[string]*queue
}

func newQueues(c *core) *queues { return &queues{core: c, byName: map[string]*queue{}} }

// queue is an SQS queue.
type queue struct {
	Name     string
	messages []*Message
	arrived  chan struct{} // closed and replaced when a message arrives
}

// Message is a message on a queue.
type Message struct {
	ID, Body   string
	Sequence   uint64 // order of sending
	SentAt     time.Time
	Receipt    string    `json:"-"` // of the last delivery
	VisibleAt  time.Time `json:"-"` // not saved: a restart makes all messages visible; at-least-once delivery allows it
	Deliveries int       `json:"-"`
}

const (
	// maxMessages bounds a queue without readers; the oldest messages are dropped.
	maxMessages = 10_000
	// retention is how long a message is kept, as in Karpenter's installation of its queue.
	retention = 5 * time.Minute
)

// ensure creates a queue unless it exists.
func (s *queues) ensure(name string) {
	if s.byName[name] == nil && name != "" {
		q := &queue{Name: name}
		s.byName[name] = q
		s.store.put(bucketQueues, name, q)
	}
}

// find finds a queue and drops its old messages.
func (s *queues) find(name string) (*queue, error) {
	q := s.byName[name]
	if q == nil {
		return nil, apiError("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
	}
	s.dropOld(q)
	return q, nil
}

// dropOld drops a queue's expired messages and those beyond maxMessages.
func (s *queues) dropOld(q *queue) {
	old := s.clock.Now().Add(-retention)
	n := 0
	for n < len(q.messages) && (len(q.messages)-n > maxMessages || q.messages[n].SentAt.Before(old)) {
		s.store.remove(bucketMessages, q.key(q.messages[n]))
		n++
	}
	q.messages = slices.Delete(q.messages, 0, n)
}

func (q *queue) key(m *Message) string { return q.Name + "/" + m.ID }

// Queue returns how many messages are in a queue, or an error if it does not exist.
func (s *queues) Queue(name string) (waiting int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(name)
	if err != nil {
		return 0, err
	}
	return len(q.messages), nil
}

// QueueDepth returns how many messages of a queue are visible, and how many are hidden after delivery.
func (s *queues) QueueDepth(name string) (visible, hidden int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(name)
	if err != nil {
		return 0, 0, err
	}
	now := s.clock.Now()
	for _, m := range q.messages {
		if m.VisibleAt.After(now) {
			hidden++
		}
	}
	return len(q.messages) - hidden, hidden, nil
}

// SendMessage puts a message on a queue.
func (s *queues) SendMessage(name, body string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(name)
	if err != nil {
		return "", err
	}
	id := s.send(q, body)
	return id, s.commit()
}

func (s *queues) send(q *queue, body string) string {
	now := s.clock.Now()
	m := &Message{ID: s.newID(), Body: body, Sequence: s.sequence, SentAt: now, VisibleAt: now}
	q.messages = append(q.messages, m)
	s.store.put(bucketMessages, q.key(m), m)
	s.dropOld(q)
	if q.arrived != nil {
		close(q.arrived)
		q.arrived = nil
	}
	return m.ID
}

// ReceiveMessage returns up to n visible messages and hides them for the visibility time.
func (s *queues) ReceiveMessage(name string, n int, visibility time.Duration) ([]Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return q.receive(n, visibility, s.clock.Now()), s.commit()
}

// PollMessages is ReceiveMessage with SQS's long polling: it waits up to wait for the first message. If ctx ends
// first, it returns no messages and no error.
func (s *queues) PollMessages(
	ctx context.Context, name string, n int, visibility, wait time.Duration,
) ([]Message, error) {
	end := s.clock.Now().Add(wait)
	for {
		got, arrived, look, err := s.receiveOrWait(name, n, visibility, end)
		if err != nil || len(got) > 0 || arrived == nil {
			return got, err
		}
		if clock.SleepOr(ctx, s.clock, look, arrived) != nil {
			return nil, nil //nolint:nilerr // a caller who left gets no messages, which is no fault
		}
	}
}

// receiveOrWait returns messages or, if there are none, a channel that is closed when one arrives and the time after
// which to look again. The channel is nil once end has passed.
func (s *queues) receiveOrWait(
	name string, n int, visibility time.Duration, end time.Time,
) (got []Message, arrived <-chan struct{}, look time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(name)
	if err != nil {
		return nil, nil, 0, err
	}
	now := s.clock.Now()
	if got := q.receive(n, visibility, now); len(got) > 0 || !now.Before(end) {
		return got, nil, 0, s.commit()
	}
	for _, m := range q.messages { // all are hidden: wait for the first to become visible
		if m.VisibleAt.Before(end) {
			end = m.VisibleAt
		}
	}
	if q.arrived == nil {
		q.arrived = make(chan struct{})
	}
	return nil, q.arrived, end.Sub(now), s.commit()
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

// DeleteMessage deletes a received message by the receipt of any of its deliveries. As on SQS, it ignores an unknown
// receipt.
func (s *queues) DeleteMessage(name, receipt string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(name)
	if err != nil {
		return err
	}
	id, _, ok := strings.Cut(receipt, "-")
	n := slices.IndexFunc(q.messages, func(m *Message) bool { return ok && m.ID == id })
	if n >= 0 {
		s.store.remove(bucketMessages, q.key(q.messages[n]))
		q.messages = slices.Delete(q.messages, n, n+1)
	}
	return s.commit()
}

// sendAll sends a message to every queue.
func (s *queues) sendAll(body string) {
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		s.send(s.byName[name], body)
	}
}
