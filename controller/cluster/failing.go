package cluster

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
)

// Back-off of a pool whose launches fail, and not for want of capacity: the first, and the longest.
const (
	firstLaunchBackoff = 5 * time.Second
	mostLaunchBackoff  = 10 * time.Minute
)

// LaunchFailure is why the last launch of a pool's node failed.
type LaunchFailure struct {
	Class           cloud.ClassRef
	Reason, Message string
	Until           time.Time // nothing is launched from the pool before
}

// failing is a pool's back-off.
type failing struct {
	LaunchFailure
	wait time.Duration
}

// LaunchFailed keeps a pool out of launches of its class's nodes for a while: 5 s the first time, twice as long each
// time that it fails again after that, at most 10 minutes. It gives the end of the back-off.
func (w *World) LaunchFailed(pool string, f LaunchFailure) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	was, known := w.failing[pool]
	known = known && was.Class == f.Class
	next := failing{LaunchFailure: f, wait: firstLaunchBackoff}
	switch {
	case known && now.Before(was.Until): // others that were under way fail alike
		next.wait, next.Until = was.wait, was.Until
		w.failing[pool] = next
		return next.Until
	case known:
		next.wait = min(2*was.wait, mostLaunchBackoff)
	}
	next.Until = now.Add(next.wait)
	w.failing[pool] = next
	w.clock.AfterFunc(next.wait, w.poke)
	w.poke()
	return next.Until
}

// LaunchesAgain forgets that launches of a pool failed: one has become a Node, or its specification or its class's
// has changed.
func (w *World) LaunchesAgain(pool string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.failing[pool]; known {
		delete(w.failing, pool)
		w.poke()
	}
}

// LaunchFailure is why the last launch of a pool failed, and whether it did.
func (w *World) LaunchFailure(pool string) (LaunchFailure, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, known := w.failing[pool]
	return f.LaunchFailure, known
}

// backsOff is why nothing is launched from a pool of the class for now, "" if nothing is in the way.
func (w *World) backsOff(np *karpv1.NodePool, class cloud.ClassRef, now time.Time) string {
	f, known := w.failing[np.Name]
	if w.readsFailures {
		f.Class = class
		f.Reason, f.Message, f.Until, known = translate.LaunchFailure(np)
	}
	if !known || f.Class != class || !now.Before(f.Until) {
		return ""
	}
	return fmt.Sprintf("its last launch failed (%s: %s); it launches again at %s",
		f.Reason, f.Message, f.Until.UTC().Format(time.RFC3339))
}
