package logs

import (
	"context"
	"fmt"
	"time"
)

// lostEvery is how often it is told that lines were lost.
const lostEvery = time.Minute

// send sends the batch. What is left of it in the end is to be sent again.
func (l *lane) send() error {
	ctx, cancel := lingering(l.ctx, linger)
	again, refused, err := l.route.router.deliver(ctx, l.out, l.batch)
	cancel()
	l.refused += int64(refused)
	l.batch = again
	if err != nil {
		if l.tries++; l.out.Retries < 0 || l.tries <= l.out.Retries {
			return err
		}
		l.refused += int64(len(l.batch))
		l.batch = nil
	}
	l.tries = 0
	if err == nil && l.failing {
		l.failing = false
		l.route.tell(false, "LogOutputRecovered", fmt.Sprintf("output %s takes lines again", l.out))
		l.tellLost(true)
	}
	l.advance()
	if refused > 0 || err != nil {
		l.tellLost(false)
	}
	return nil
}

// linger is how long a request that is on its way is waited for when the lane is to end: who gave up at once would send the same again.
const linger = 2 * time.Second

// lingering ends some time after its parent.
func lingering(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() { time.AfterFunc(d, cancel) })
	return ctx, func() { stop(); cancel() }
}

// fail tells, once, that the output takes nothing.
func (l *lane) fail(err error) {
	if l.failing || l.ctx.Err() != nil {
		return
	}
	l.failing = true
	l.route.tell(true, "LogOutputFailed", fmt.Sprintf("output %s to %s: %v; it is tried again, and lines wait where the pod's log is stored (%s)", l.out, l.out.To, err, stored))
}

// stored is how much of a container's log the host keeps.
const stored = "up to 20 MiB of each container's last two runs"

// tellLost tells, now and then, how many lines did not get to the output; at the end also of those that wait.
func (l *lane) tellLost(end bool) {
	lost := l.refused
	for _, tail := range l.tails {
		lost += tail.Lost()
	}
	if lost == l.told || !end && time.Since(l.toldAt) < lostEvery {
		return
	}
	l.told, l.toldAt = lost, time.Now()
	l.route.tell(true, "LogLinesLost", fmt.Sprintf("%d lines did not get to output %s since they were refused, or forgotten before they could be sent", lost, l.out))
}
