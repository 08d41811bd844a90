package region

import (
	"context"
	"maps"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Bucket is a token bucket: a call takes one token, or is refused with RequestLimitExceeded.
type Bucket struct {
	Size      float64
	PerSecond float64
}

// DefaultThrottle has the shape of the limits AWS publishes for EC2 (request token buckets by kind of call), several times
// as generous, so that a laptop's experiments meet them only when something runs away. The key "" is for all others.
var DefaultThrottle = map[string]Bucket{
	"":                   {Size: 1000, PerSecond: 200},
	"CreateFleet":        {Size: 1000, PerSecond: 200},
	"RunInstances":       {Size: 1000, PerSecond: 100},
	"TerminateInstances": {Size: 1000, PerSecond: 100},
	"CreateTags":         {Size: 500, PerSecond: 100},
}

type bucketState struct {
	tokens float64
	at     time.Time
}

// fault is an error or delay that was injected.
type fault struct {
	Error *APIError
	Times int
	Delay time.Duration
}

// Call is one API call as the region saw it.
type Call struct {
	Time    time.Time
	API     string
	Token   string // client token
	Summary string
	Error   string // code of the error it got; "" if none
}

const keptCalls = 20_000

// callLog keeps the last calls and counts all of them.
type callLog struct {
	ring     []Call
	next     int
	counters map[string]int
}

// Admit is asked before each API call: it waits out injected delays, applies throttling and injected errors, and logs the
// call. The returned function takes the call's own result.
func (r *Region) Admit(ctx context.Context, api, clientToken, summary string) (done func(error), err error) {
	at := r.clock.Now()
	err = r.admit(ctx, api)
	finish := func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls.add(Call{Time: at, API: api, Token: clientToken, Summary: summary, Error: code(err)})
	}
	if err != nil {
		finish(err)
		return nil, err
	}
	return finish, nil
}

func code(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := err.(*APIError); ok { //nolint:errorlint // the region's own errors are not wrapped
		return e.Code
	}
	return "InternalError"
}

func (r *Region) admit(ctx context.Context, api string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.faults[api]; f != nil {
		if f.Delay > 0 {
			if err := r.wait(ctx, f.Delay); err != nil {
				return err
			}
		}
		if f.Times > 0 {
			f.Times--
			err := f.Error
			if saved := r.keepFault(api, f); saved != nil {
				return saved
			}
			return err
		}
	}
	return r.throttle(api)
}

// wait lets time pass without the lock.
func (r *Region) wait(ctx context.Context, d time.Duration) error {
	r.mu.Unlock()
	defer r.mu.Lock()
	return clock.Sleep(ctx, r.clock, d)
}

func (r *Region) throttle(api string) error {
	key := api
	limit, ok := r.c.Throttle[key]
	if !ok {
		key = ""
		if limit, ok = r.c.Throttle[key]; !ok {
			return nil
		}
	}
	now := r.clock.Now()
	b := r.buckets[key]
	if b == nil {
		b = &bucketState{tokens: limit.Size, at: now}
		r.buckets[key] = b
	}
	b.tokens = min(limit.Size, b.tokens+now.Sub(b.at).Seconds()*limit.PerSecond)
	b.at = now
	if b.tokens < 1 {
		return &APIError{Code: "RequestLimitExceeded", Message: "Request limit exceeded.", HTTPStatus: 503}
	}
	b.tokens--
	return nil
}

// Fail makes the next calls of an API fail.
func (r *Region) Fail(api string, err *APIError, times int) {
	r.inject(api, func(f *fault) { f.Error, f.Times = err, max(times, 0) })
}

// Delay makes every call of an API take so much longer; 0 ends that.
func (r *Region) Delay(api string, d time.Duration) {
	r.inject(api, func(f *fault) { f.Delay = max(d, 0) })
}

func (r *Region) inject(api string, change func(*fault)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.faults[api]
	if f == nil {
		f = &fault{}
		r.faults[api] = f
	}
	change(f)
	if err := r.keepFault(api, f); err != nil {
		r.log.Error("region: state not saved", "fault", api, "error", err)
	}
}

// keepFault makes a fault durable, or drops one that is used up. The caller holds the lock.
func (r *Region) keepFault(api string, f *fault) error {
	if f.Times == 0 && f.Delay == 0 {
		delete(r.faults, api)
		r.store.remove(bucketFaults, api)
	} else {
		r.store.put(bucketFaults, api, f)
	}
	return r.commit()
}

func (l *callLog) add(c Call) {
	if l.counters == nil {
		l.counters = map[string]int{}
	}
	l.counters[c.API]++
	if len(l.ring) < keptCalls {
		l.ring = append(l.ring, c)
		return
	}
	l.ring[l.next] = c
	l.next = (l.next + 1) % keptCalls
}

// Calls are the last API calls, oldest first.
func (r *Region) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Call, 0, len(r.calls.ring))
	out = append(out, r.calls.ring[r.calls.next:]...)
	return append(out, r.calls.ring[:r.calls.next]...)
}

// Counters is how often each API was called since the process started.
func (r *Region) Counters() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.calls.counters)
}
