package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// hosts are the registered hosts, and unregistered ones that still have pods.
type hosts struct {
	o       *Options
	pods    *records
	changed func(id string) // called with the ID of each microVM that changes, with "" for a host

	mu     sync.Mutex
	ctx    context.Context // of Run; nil before
	byName map[string]*hostRecord
}

// hostRecord is the state of one host.
type hostRecord struct {
	microvm.Host                    // nil if the host is not registered
	unwatch      context.CancelFunc // nil before Run
	lostSince    time.Time          // zero while the host is ready
}

func (h *hosts) add(host microvm.Host) {
	name := host.Describe().Name
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.record(name)
	r.stop()
	r.Host = host
	h.watchLocked(r)
}

// remove reports whether the host was registered and watched.
func (h *hosts) remove(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.record(name)
	watched := r.unwatch != nil
	r.stop()
	r.Host = nil
	return watched
}

// record returns the record of a host, which it creates if there is none. h.mu is held.
func (h *hosts) record(name string) *hostRecord {
	r := h.byName[name]
	if r == nil {
		r = &hostRecord{}
		h.byName[name] = r
	}
	return r
}

func (r *hostRecord) stop() {
	if r.unwatch != nil {
		r.unwatch()
		r.unwatch = nil
	}
}

// watch watches all hosts, including those added later, until ctx is done.
func (h *hosts) watch(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ctx = ctx
	for _, r := range h.byName {
		h.watchLocked(r)
	}
}

func (h *hosts) watchLocked(r *hostRecord) {
	if h.ctx == nil || r.Host == nil {
		return
	}
	var ctx context.Context
	ctx, r.unwatch = context.WithCancel(h.ctx)
	go r.Host.Watch(ctx, h.changed)
}

// get returns the registered host of a name, nil if there is none.
func (h *hosts) get(name string) microvm.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.byName[name]; r != nil {
		return r.Host
	}
	return nil
}

// reserved returns the host on which a pod has a reservation, nil if the host is not registered.
func (h *hosts) reserved(p record) microvm.Host {
	if p.claim == nil {
		return nil
	}
	return h.get(p.claim.host)
}

// registered returns the registered hosts by name.
func (h *hosts) registered() map[string]microvm.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]microvm.Host{}
	for name, r := range h.byName {
		if r.Host != nil {
			out[name] = r.Host
		}
	}
	return out
}

// describe returns the descriptions of all hosts by name, including unregistered ones that still have pods. It
// forgets hosts that are neither registered nor have pods.
func (h *hosts) describe() map[string]microvm.Description {
	out := map[string]microvm.Description{}
	for _, r := range h.pods.reservations() {
		out[r.host] = microvm.Description{Name: r.host, Message: "it is not registered with the cluster any more"}
	}
	for name, host := range h.registered() {
		out[name] = host.Describe()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.byName, func(name string, r *hostRecord) bool {
		_, described := out[name]
		return r.Host == nil && !described
	})
	return out
}

// observe records whether a host is ready. It returns when the host was lost, zero if it is ready, and whether its
// readiness has changed.
func (h *hosts) observe(name string, ready bool) (lostSince time.Time, news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.record(name)
	news = ready != r.lostSince.IsZero()
	switch {
	case ready:
		r.lostSince = time.Time{}
	case news:
		r.lostSince = h.o.Clock.Now()
	}
	return r.lostSince, news
}

// givenUp reports whether a host has been lost for HostGrace, so that its pods are given up.
func (h *hosts) givenUp(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.byName[name]
	return r != nil && !r.lostSince.IsZero() && h.o.Clock.Now().Sub(r.lostSince) >= h.o.HostGrace
}

func (h *hosts) abilities() fargate.Abilities {
	all := h.describe()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if d := all[name]; d.Ready {
			return d.Abilities
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if d := all[name]; len(d.Abilities.Volumes) > 0 { // it is not ready yet
			return d.Abilities
		}
	}
	return fargate.DefaultAbilities()
}
