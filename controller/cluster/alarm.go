package cluster

import (
	"time"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// alarm says that something has changed at a time at which nothing but the clock does: a hold on a pod ends, or a window of
// a budget opens or closes.
type alarm struct {
	at    time.Time
	timer clock.Timer
}

// setAlarm sets the alarm to what comes next.
func (w *World) setAlarm(now time.Time) {
	at := w.out.wake
	if due := w.successors.due; len(due) > 0 && (at.IsZero() || due[0].since.Add(nominated).Before(at)) {
		at = due[0].since.Add(nominated)
	}
	for _, np := range w.pools.live {
		if next := translate.NextWindow(np, now); !next.IsZero() && (at.IsZero() || next.Before(at)) {
			at = next
		}
	}
	if at.Equal(w.alarm.at) {
		return
	}
	if w.alarm.timer != nil {
		w.alarm.timer.Stop()
	}
	w.alarm = alarm{at: at}
	if at.After(now) && at.Before(translate.Forever) {
		w.alarm.timer = w.clock.AfterFunc(at.Sub(now), w.poke)
	}
}
