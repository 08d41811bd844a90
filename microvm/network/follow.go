package network

import (
	"context"
	"errors"
	"time"
)

// pause between two changes of the rules: what changes meanwhile is seen by the second.
const pause = 50 * time.Millisecond

// follow keeps rules, names and our own slices as Services and EndpointSlices say, until ctx is done; then it takes
// our slices back. What fails is tried again.
func (n *Net) follow(ctx context.Context) {
	defer n.withdraw(context.WithoutCancel(ctx))
	regularly := time.NewTicker(n.o.Every)
	defer regularly.Stop()
	do := n.look
	for {
		n.snapshot.Store(n.watch.Snapshot())
		if err := errors.Join(do(), n.publish(ctx)); err != nil && ctx.Err() == nil {
			n.o.Log.Warn("not all Services can be reached from microVMs; it is tried again", "error", err)
		}
		n.isReady()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		do = n.program
		select {
		case <-n.watch.Changed:
		case <-n.peersChanged():
			do = n.look
		case <-regularly.C:
			do = n.look
		case <-ctx.Done():
			return
		}
	}
}
