package scheduler

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// hosts are the registered hosts, and those that are not registered any more but still have pods.
type hosts struct {
	pods    *records
	clock   clock.Clock
	grace   time.Duration
	changed func(id string) // called for each microVM that changes, with "" for a host

	mu     sync.Mutex
	ctx    context.Context // of Run; nil before
	byName map[string]*hostRecord
}

// hostRecord is what is remembered of one host.
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

// record returns the record of a host, a new one if there is none. h.mu is held.
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

// watch watches all hosts, those added later included, until ctx is done.
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

// get returns a registered host, nil if there is none of the name.
func (h *hosts) get(name string) microvm.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.byName[name]; r != nil {
		return r.Host
	}
	return nil
}

// of returns the host on which a pod has room, nil if it is not registered.
func (h *hosts) of(p record) microvm.Host {
	if p.claim == nil {
		return nil
	}
	return h.get(p.claim.host)
}

// all returns the hosts by name; an absent one for each that is not registered any more and still has pods.
func (h *hosts) all() map[string]microvm.Host {
	out := map[string]microvm.Host{}
	for _, r := range h.pods.reservations() {
		out[r.host] = absent{r.host}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.byName, func(name string, r *hostRecord) bool { return r.Host == nil && out[name] == nil })
	for name, r := range h.byName {
		if r.Host != nil {
			out[name] = r.Host
		}
	}
	return out
}

// observe remembers whether a host is ready. It returns since when the host is lost, zero if it is not, and whether
// that is news.
func (h *hosts) observe(name string, ready bool) (lostSince time.Time, news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.record(name)
	news = ready != r.lostSince.IsZero()
	switch {
	case ready:
		r.lostSince = time.Time{}
	case news:
		r.lostSince = h.clock.Now()
	}
	return r.lostSince, news
}

// givenUp reports whether a host has been lost for so long that its pods were given up.
func (h *hosts) givenUp(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.byName[name]
	return r != nil && !r.lostSince.IsZero() && h.clock.Now().Sub(r.lostSince) >= h.grace
}

func (h *hosts) abilities() fargate.Abilities {
	all := h.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if d := all[name].Describe(); d.Ready {
			return d.Abilities
		}
	}
	return fargate.DefaultAbilities()
}

// absent stands for a host that is not registered with the cluster any more.
type absent struct{ name string }

// Describe implements microvm.Host.
func (a absent) Describe() microvm.Description {
	return microvm.Description{Name: a.name, Message: "it is not registered with the cluster any more"}
}

func (a absent) err() error {
	return fmt.Errorf("host %s is not registered with the cluster any more", a.name)
}

// Start implements microvm.Host.
func (a absent) Start(context.Context, microvm.Spec) (netip.Addr, error) {
	return netip.Addr{}, a.err()
}

// Status implements microvm.Host.
func (a absent) Status(context.Context, string) (microvm.Status, error) {
	return microvm.Status{}, microvm.ErrUnknown
}

// Stop implements microvm.Host.
func (a absent) Stop(context.Context, string, int64) error { return a.err() }

// Remove implements microvm.Host.
func (a absent) Remove(context.Context, string) error { return microvm.ErrUnknown }

// List implements microvm.Host.
func (a absent) List(context.Context) ([]string, error) { return nil, nil }

// Watch implements microvm.Host.
func (a absent) Watch(ctx context.Context, _ func(string)) { <-ctx.Done() }
