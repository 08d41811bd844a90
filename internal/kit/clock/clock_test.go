package clock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func TestCallsComeInOrderOfTimeThenOfAsking(t *testing.T) {
	v := NewVirtual(start)
	var got []string
	say := func(word string) func() { return func() { got = append(got, word) } }
	v.AfterFunc(2*time.Second, say("two"))
	v.AfterFunc(time.Second, say("one, first asked"))
	v.AfterFunc(time.Second, say("one, then asked"))
	v.AfterFunc(-time.Second, say("long due"))
	v.Advance(time.Second)
	if want := []string{"long due", "one, first asked", "one, then asked"}; !slices.Equal(got, want) {
		t.Errorf("after one second: %q, want %q", got, want)
	}
	if at, ok := v.Next(); !ok || !at.Equal(start.Add(2*time.Second)) {
		t.Errorf("next call is due at %s %t", at, ok)
	}
}

func TestACallMayAskForCallsOnTheWay(t *testing.T) {
	v := NewVirtual(start)
	var at []time.Duration
	var tick func()
	tick = func() {
		at = append(at, v.Now().Sub(start))
		v.AfterFunc(time.Second, tick)
	}
	v.AfterFunc(time.Second, tick)
	v.Advance(3 * time.Second)
	if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("ticked at %v, want %v", at, want)
	}
	if now := v.Now(); !now.Equal(start.Add(3 * time.Second)) {
		t.Errorf("the clock stands at %s", now)
	}
}

func TestAStoppedCallDoesNotCome(t *testing.T) {
	v := NewVirtual(start)
	called := false
	timer := v.AfterFunc(time.Second, func() { called = true })
	if !timer.Stop() || timer.Stop() {
		t.Error("Stop takes a call back once")
	}
	v.Advance(time.Minute)
	if _, ok := v.Next(); called || ok {
		t.Error("a call came that was taken back")
	}
}

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
