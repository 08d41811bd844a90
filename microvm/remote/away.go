package remote

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// tellAway writes on the MicroVMHosts of hosts of which nothing is heard that they are away, since they cannot: again and again, until ctx is done.
func (h *Hosts) tellAway(ctx context.Context) {
	for ctx.Err() == nil {
		h.mu.Lock()
		hosts := make([]*Host, 0, len(h.known))
		for _, host := range h.known {
			hosts = append(hosts, host)
		}
		h.mu.Unlock()
		for _, host := range hosts {
			if err := host.writeAway(ctx); err != nil && ctx.Err() == nil {
				h.o.Log.Warn("it is not written that a microVM host is away; it is tried again", "host", host.name, "error", err)
			}
		}
		_ = clock.Sleep(ctx, h.o.Clock, h.o.Away/5)
	}
}

// writeAway corrects what a host last said of itself, if nothing is heard of it any more.
func (h *Host) writeAway(ctx context.Context) error {
	d := h.Describe()
	h.mu.Lock()
	said := h.said.DeepCopy()
	h.mu.Unlock()
	if d.Ready || d.Starting || !said.Status.Ready && !said.Status.Starting {
		return nil
	}
	before := said.DeepCopy()
	said.Status.Ready, said.Status.Starting, said.Status.Message = false, false, d.Message
	if err := h.o.Client.Status().Patch(ctx, said, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of MicroVMHost %s: %w", h.name, err)
	}
	return nil
}
