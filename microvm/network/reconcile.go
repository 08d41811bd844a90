package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm/network/ruleset"
)

// minInterval is the pause after a change of the rules, in which further changes are batched.
const minInterval = 50 * time.Millisecond

// follow keeps the rules, the DNS and our own slices in line with Services and EndpointSlices until ctx is done, and
// then removes the slices. It retries failures.
func (n *Net) follow(ctx context.Context) {
	defer n.withdraw(context.WithoutCancel(ctx))
	regularly := time.NewTicker(n.o.Every)
	defer regularly.Stop()
	var peersChanged <-chan struct{}
	if n.o.Peers != nil {
		peersChanged = n.o.Peers.Changed()
	}
	for update := n.reconcile; ; {
		n.snapshot.Store(n.watch.Snapshot())
		if err := errors.Join(update(), n.publish(ctx)); err != nil && ctx.Err() == nil {
			n.o.Log.Warn("not all Services can be reached from microVMs; retrying", "error", err)
		}
		n.setReady()
		if clock.Sleep(ctx, clock.Real{}, minInterval) != nil {
			return
		}
		update = n.reconcile
		select {
		case <-n.watch.Changed:
			update = n.program // the instance itself is checked less often
		case <-peersChanged:
		case <-regularly.C:
		case <-ctx.Done():
			return
		}
	}
}

// reconcile connects the peers, enables forwarding and programs the rules. It is called periodically, since
// interfaces come and go and others rewrite the firewall. It changes nothing that is already correct.
func (n *Net) reconcile() error {
	failed := n.connectPeers()
	if failed != nil && failed.Error() == n.peerError {
		failed = nil // it was returned before
	} else {
		n.peerError = fmt.Sprint(failed)
	}
	if err := n.forward(); err != nil {
		return errors.Join(failed, err)
	}
	n.warnOfFirewalls()
	return errors.Join(failed, n.program())
}

// program programs the rules, unless the kernel already has them.
func (n *Net) program() error {
	s := n.snapshot.Load()
	vips, nodePorts := n.destinations(s)
	rules := ruleset.New(ruleset.Config{
		Table: n.name, Links: n.name, Pods: n.pods, Host: n.host, Services: n.o.Services, Opened: n.state.Opened,
		Near: prefixes(n.peers.near), Tunnel: n.state.Tunnel,
		Destinations: vips, NodePorts: nodePorts, Public: n.o.Joined,
	})
	text := rules.String()
	if n.programmed == text && ruleset.Exists(n.name) {
		return nil
	}
	n.programmed = ""
	if err := rules.Program(); err != nil {
		return err
	}
	n.programmed = text
	return nil
}

// warnOfFirewalls warns of other firewalls that may drop the pods' packets, whenever these change.
func (n *Net) warnOfFirewalls() {
	chains, err := ruleset.OthersDropping(n.name)
	if err != nil {
		n.o.Log.Warn("cannot find out whether another firewall drops the pods' packets", "error", err)
		return
	}
	now := strings.Join(chains, ", ")
	if now != n.otherDrops && now != "" {
		more := []any{"chains", now, "interfaces", n.name + "*", "pods", n.pods}
		if n.o.Peers != nil && !n.o.At.Addr().IsLoopback() {
			more = append(more, "from other hosts", fmt.Sprintf("udp port %d", n.o.At.Port()))
		}
		n.o.Log.Warn("another firewall drops packets by default, perhaps also those of pods; make it accept packets from "+
			"and to the pods' interfaces", more...)
	}
	n.otherDrops = now
}
