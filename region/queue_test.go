package region_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodeless/nodeless/region"
)

func TestAnOldReceiptDeletesToo(t *testing.T) {
	p := seeded(t, region.Config{})
	if _, err := p.SendMessage("prod", "hello"); err != nil {
		t.Fatal(err)
	}
	first, err := p.ReceiveMessage("prod", 1, time.Second)
	if err != nil || len(first) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	p.clock.Advance(time.Second)
	if again, err := p.ReceiveMessage("prod", 1, time.Second); err != nil || len(again) != 1 ||
		again[0].Receipt == first[0].Receipt {
		t.Fatalf("second delivery %+v, %v", again, err)
	}
	if err := p.DeleteMessage("prod", "garbage"); err != nil {
		t.Error(err)
	}
	if err := p.DeleteMessage("prod", first[0].Receipt); err != nil {
		t.Error(err)
	}
	if n, err := p.Queue("prod"); n != 0 || err != nil {
		t.Errorf("%d messages left, %v", n, err)
	}
}

func TestAMessageNobodyReadsGoes(t *testing.T) {
	p := seeded(t, region.Config{})
	if _, err := p.SendMessage("prod", "hello"); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(4 * time.Minute)
	if visible, hidden, err := p.QueueDepth("prod"); visible != 1 || hidden != 0 || err != nil {
		t.Errorf("after 4 minutes %d and %d messages, %v", visible, hidden, err)
	}
	p.clock.Advance(2 * time.Minute)
	if n, err := p.Queue("prod"); n != 0 || err != nil {
		t.Errorf("after 6 minutes %d messages, %v", n, err)
	}
}

func TestALongPollEndsWithAMessageWithTimeOrWithItsCaller(t *testing.T) {
	p := seeded(t, region.Config{})
	type answer struct {
		messages []region.Message
		err      error
	}
	poll := func(ctx context.Context) <-chan answer {
		out := make(chan answer, 1)
		go func() {
			m, err := p.PollMessages(ctx, "prod", 10, time.Minute, 20*time.Second)
			out <- answer{m, err}
		}()
		return out
	}
	ctx, leave := context.WithCancel(t.Context())
	left := poll(ctx)
	leave()
	if a := <-left; a.err != nil || len(a.messages) != 0 {
		t.Errorf("a caller that left got %+v", a)
	}
	waiting := poll(t.Context())
	if _, err := p.SendMessage("prod", "hello"); err != nil {
		t.Fatal(err)
	}
	if a := <-waiting; a.err != nil || len(a.messages) != 1 {
		t.Errorf("with a message: %+v", a)
	}
	waiting = poll(t.Context())
	for due := false; !due; _, due = p.clock.Next() { // until the call waits
	}
	p.clock.Advance(20 * time.Second)
	if a := <-waiting; a.err != nil || len(a.messages) != 0 {
		t.Errorf("without: %+v", a)
	}
}
