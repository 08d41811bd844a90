package clock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestASleepEndsWithItsTimeItsWakeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := NewVirtual(start)
		ctx, cancel := context.WithCancel(t.Context())
		wake, results := make(chan struct{}, 1), make(chan error)
		sleep := func() { results <- SleepOr(ctx, v, time.Minute, wake) }
		go sleep()
		synctest.Wait()
		v.Advance(59 * time.Second)
		select {
		case err := <-results:
			t.Fatalf("it ends early: %v", err)
		default:
		}
		v.Advance(time.Second)
		if err := <-results; err != nil {
			t.Errorf("its time is over: %v", err)
		}
		wake <- struct{}{}
		go sleep()
		if err := <-results; err != nil {
			t.Errorf("it is woken: %v", err)
		}
		cancel()
		if err := Sleep(ctx, v, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("its context is done: %v", err)
		}
	})
}
