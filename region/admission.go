package region

import (
	"context"
	"maps"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Bucket is a token bucket: a call takes one token, or is refused with RequestLimitExceeded.
type Bucket struct {
	Size      float64
	PerSecond float64
}

// DefaultThrottle has the shape of the limits that AWS publishes for EC2 (request token buckets by action), but is
// several times as generous: an experiment on a laptop hits it only if something runs away. The key "" is for all
// other actions.
var DefaultThrottle = map[string]Bucket{
	"":                   {Size: 1000, PerSecond: 200},
	"CreateFleet":        {Size: 1000, PerSecond: 200},
	"RunInstances":       {Size: 1000, PerSecond: 100},
	"TerminateInstances": {Size: 1000, PerSecond: 100},
	"CreateTags":         {Size: 500, PerSecond: 100},
}

// admission decides which calls to admit: it throttles, injects faults and keeps the log of calls.
type admission struct {
	*core
	faults  map[string]*fault       // by action; those of KMS keys by keyFault
	buckets map[string]*bucketState // by action
	calls   callLog
}

func newAdmission(c *core) *admission {
	return &admission{
		core: c, faults: map[string]*fault{}, buckets: map[string]*bucketState{},
		calls: callLog{counters: map[string]int{}},
	}
}

type bucketState struct {
	tokens float64
	at     time.Time
}

// fault is an injected error or delay.
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
	Error   string // code of the error it returned; "" if none
}

// callLog keeps the last keptCalls calls and counts all of them.
type callLog struct {
	ring     []Call
	next     int
	counters map[string]int
}

const keptCalls = 20_000

// Admit admits an API call: it waits out injected delays, applies throttling and injected errors, and logs the call.
// The caller passes the result of an admitted call to done.
func (a *admission) Admit(ctx context.Context, api, clientToken, summary string) (done func(error), err error) {
	// The strings may be parts of a request body, which the log must not keep.
	c := Call{
		Time: a.clock.Now(), API: strings.Clone(api), Token: strings.Clone(clientToken), Summary: strings.Clone(summary),
	}
	done = func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		c.Error = code(err)
		a.calls.add(c)
	}
	if err := a.admit(ctx, c.API); err != nil {
		done(err)
		return nil, err
	}
	return done, nil
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

func (a *admission) admit(ctx context.Context, api string) error {
	a.mu.Lock()
	f := a.faults[api]
	if f != nil && f.Delay > 0 {
		delay := f.Delay
		a.mu.Unlock()
		if err := clock.Sleep(ctx, a.clock, delay); err != nil {
			return err
		}
		a.mu.Lock()
	}
	defer a.mu.Unlock()
	if f != nil && f.Times > 0 {
		f.Times--
		err := f.Error
		if saved := a.keepFault(api, f); saved != nil {
			return saved
		}
		return err
	}
	return a.throttle(api)
}

func (a *admission) throttle(api string) error {
	key := api
	limit, ok := a.config.Throttle[key]
	if !ok {
		key = ""
		if limit, ok = a.config.Throttle[key]; !ok {
			return nil
		}
	}
	now := a.clock.Now()
	b := a.buckets[key]
	if b == nil {
		b = &bucketState{tokens: limit.Size, at: now}
		a.buckets[key] = b
	}
	b.tokens = min(limit.Size, b.tokens+now.Sub(b.at).Seconds()*limit.PerSecond)
	b.at = now
	if b.tokens < 1 {
		return apiError("RequestLimitExceeded", "Request limit exceeded.")
	}
	b.tokens--
	return nil
}

// Fail makes the next calls of an API fail.
func (a *admission) Fail(api string, err *APIError, times int) {
	a.inject(api, func(f *fault) { f.Error, f.Times = err, max(times, 0) })
}

// Delay delays every call of an API by d, until Delay is called again.
func (a *admission) Delay(api string, d time.Duration) {
	a.inject(api, func(f *fault) { f.Delay = max(d, 0) })
}

func (a *admission) inject(api string, change func(*fault)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.faults[api]
	if f == nil {
		f = &fault{}
		a.faults[api] = f
	}
	change(f)
	if err := a.keepFault(api, f); err != nil {
		a.log.Error("region: state not saved", "fault", api, "error", err)
	}
}

// keepFault makes a fault durable, or drops a used-up one.
func (a *admission) keepFault(api string, f *fault) error {
	if f.Times == 0 && f.Delay == 0 {
		delete(a.faults, api)
		a.store.remove(bucketFaults, api)
	} else {
		a.store.put(bucketFaults, api, f)
	}
	return a.commit()
}

func (l *callLog) add(c Call) {
	l.counters[c.API]++
	if len(l.ring) < keptCalls {
		l.ring = append(l.ring, c)
		return
	}
	l.ring[l.next] = c
	l.next = (l.next + 1) % keptCalls
}

// Calls returns the last API calls, oldest first.
func (a *admission) Calls() []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Call, 0, len(a.calls.ring))
	out = append(out, a.calls.ring[a.calls.next:]...)
	return append(out, a.calls.ring[:a.calls.next]...)
}

// Counters returns how often each API was called since the process started.
func (a *admission) Counters() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.calls.counters)
}

// The state reason of an instance whose volume cannot be decrypted: it shuts down as soon as it starts (EC2 user
// guide, "Instance terminates immediately").
const (
	reasonKey    = "Client.InvalidKMSKey.InvalidState"
	reasonKeyMsg = "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state"
)

// keyForm matches the identifiers of a KMS key: its ID, its alias, or the ARN of either (KMS developer guide, "Key
// identifiers").
var keyForm = regexp.MustCompile(`^(arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:(key/)?)?` +
	`([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|mrk-[0-9a-f]{32}|alias/[a-zA-Z0-9/_-]+)$`)

// SetKeyEnabled enables or disables a KMS key. Keys are enabled by default.
func (a *admission) SetKeyEnabled(key string, enabled bool) error {
	if !keyForm.MatchString(key) {
		return apiError("InvalidParameterValue", "key %q: give the ID, the alias or the ARN of a KMS key", key)
	}
	times := math.MaxInt
	if enabled {
		times = 0
	}
	a.inject(keyFault(key), func(f *fault) { f.Error, f.Times = apiError(reasonKey, reasonKeyMsg), times })
	return nil
}

// keyFault returns the key of faults under which a disabled KMS key is recorded.
func keyFault(key string) string {
	return "kms:" + strings.TrimPrefix(key[strings.LastIndex(key, ":")+1:], "key/")
}

// usable reports whether instances with these volumes can start.
func (a *admission) usable(devices []BlockDevice) bool {
	for _, d := range devices {
		if d.KMSKey != "" && (!keyForm.MatchString(d.KMSKey) || a.faults[keyFault(d.KMSKey)] != nil) {
			return false
		}
	}
	return true
}
