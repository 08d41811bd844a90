package cluster

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
)

// Back-off of a pool whose launches fail for another reason than lack of capacity: the first and the longest.
const (
	firstLaunchBackoff = 5 * time.Second
	maxLaunchBackoff   = 10 * time.Minute
)

// LaunchFailure says why the last launch of a pool's node failed.
type LaunchFailure struct {
	Class           cloud.ClassRef
	Reason, Message string
	Until           time.Time // the pool launches nothing before
}

// failures are the back-offs of pools whose launches fail.
type failures struct {
	*hub
	byPool    map[string]failing
	fromPools bool // read failures from the status of NodePools, not from byPool
}

// failing is a pool's back-off.
type failing struct {
	LaunchFailure
	wait time.Duration
}

// LaunchFailed excludes a pool from launches with its class for a while: 5 s the first time, twice as long after each
// further failure, at most 10 minutes. It returns the end of the back-off.
func (fs *failures) LaunchFailed(pool string, f LaunchFailure) time.Time {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	now := fs.clock.Now()
	was, known := fs.byPool[pool]
	known = known && was.Class == f.Class
	next := failing{LaunchFailure: f, wait: firstLaunchBackoff}
	switch {
	case known && now.Before(was.Until): // concurrent launches fail alike
		next.wait, next.Until = was.wait, was.Until
		fs.byPool[pool] = next
		return next.Until
	case known:
		next.wait = min(2*was.wait, maxLaunchBackoff)
	}
	next.Until = now.Add(next.wait)
	fs.byPool[pool] = next
	fs.clock.AfterFunc(next.wait, fs.poke)
	fs.poke()
	return next.Until
}

// LaunchesAgain forgets that launches of a pool failed: one has become a Node, or the spec of the pool or of its
// class has changed.
func (fs *failures) LaunchesAgain(pool string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if _, known := fs.byPool[pool]; known {
		delete(fs.byPool, pool)
		fs.poke()
	}
}

// LaunchFailure returns why the last launch of a pool failed, and whether it did.
func (fs *failures) LaunchFailure(pool string) (LaunchFailure, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f, known := fs.byPool[pool]
	return f.LaunchFailure, known
}

// backsOff returns why nothing is launched from a pool of the class for now, "" if it may launch.
func (fs *failures) backsOff(np *karpv1.NodePool, class cloud.ClassRef, now time.Time) string {
	f, known := fs.byPool[np.Name]
	if fs.fromPools {
		f.Class = class
		f.Reason, f.Message, f.Until, known = translate.LaunchFailure(np)
	}
	if !known || f.Class != class || !now.Before(f.Until) {
		return ""
	}
	return fmt.Sprintf("its last launch failed (%s: %s); it launches again at %s",
		f.Reason, f.Message, f.Until.UTC().Format(time.RFC3339))
}

// pauses are the pools whose nodes are not replaced, and until when.
type pauses struct {
	*hub
	until map[string]time.Time
}

// Rest keeps the nodes of a pool from being replaced until the given time, because a replacement has just failed.
func (ps *pauses) Rest(pool string, until time.Time) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if now := ps.clock.Now(); until.After(now) && until.After(ps.until[pool]) {
		ps.until[pool] = until
		ps.clock.AfterFunc(until.Sub(now), ps.poke)
	}
}

// Resting reports whether the nodes of a pool are not replaced for now.
func (ps *pauses) Resting(pool string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.rests(pool, ps.clock.Now())
}

func (ps *pauses) rests(pool string, now time.Time) bool {
	until, known := ps.until[pool]
	if known && !now.Before(until) {
		delete(ps.until, pool)
	}
	return known && now.Before(until)
}
