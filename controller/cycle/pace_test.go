package cycle

import (
	"testing"
	"time"
)

// With a batching window, pods that arrive one by one are planned for together.
func TestAWindowThatWasAskedForIsWaited(t *testing.T) {
	start := time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)
	p := Pace{Idle: time.Second, Max: 4 * time.Second}
	p.Change(start)
	if at, _ := p.Due(); !at.Equal(start.Add(time.Second)) {
		t.Errorf("a lone pod: due %s", at.Sub(start))
	}
	for i := range 10 {
		p.Change(start.Add(time.Duration(i) * 500 * time.Millisecond))
	}
	if at, _ := p.Due(); !at.Equal(start.Add(4 * time.Second)) {
		t.Errorf("pods that keep coming: due %s after the first", at.Sub(start))
	}
	p.Settled()
	p.Change(start)
	if at, _ := p.Due(); !at.Equal(start.Add(time.Second)) {
		t.Errorf("after a plan: due %s", at.Sub(start))
	}
}
