package scheduler

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// registered is a host and, once it is watched, how that ends.
type registered struct {
	Host
	forget context.CancelFunc // nil before Run
}

// AddHost makes a host known, in place of an earlier one of its name.
func (s *Scheduler) AddHost(h Host) {
	name := h.Describe().Name
	s.mu.Lock()
	was := s.hosts[name]
	s.hosts[name] = s.watched(h)
	s.mu.Unlock()
	if was.forget != nil {
		was.forget()
	}
}

// RemoveHost forgets a host. Its pods are given up as those of a host that is lost.
func (s *Scheduler) RemoveHost(name string) {
	s.mu.Lock()
	was := s.hosts[name]
	delete(s.hosts, name)
	s.mu.Unlock()
	if was.forget != nil {
		was.forget()
		s.hostChanged("")
	}
}

// watchAll has those watched that were added before Run.
func (s *Scheduler) watchAll(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = ctx
	for name, h := range s.hosts {
		s.hosts[name] = s.watched(h.Host)
	}
}

// watched follows a host until its forget is called, if Run has been. s.mu is held.
func (s *Scheduler) watched(h Host) registered {
	r := registered{Host: h}
	if s.started != nil {
		var ctx context.Context
		ctx, r.forget = context.WithCancel(s.started)
		go h.Watch(ctx, s.hostChanged)
	}
	return r
}

// host is the one with a name; nil if there is none.
func (s *Scheduler) host(name string) Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.hosts[name]; ok {
		return h.Host
	}
	return nil
}

// allHosts are those that are registered and, as absent, those that were and still have pods, by their names.
func (s *Scheduler) allHosts() map[string]Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Host, len(s.hosts))
	for _, h := range s.held {
		out[h.host] = absent{h.host}
	}
	for name, h := range s.hosts {
		out[name] = h.Host
	}
	return out
}

// absent stands for a host that is not registered with the cluster any more.
type absent struct{ name string }

// Describe implements Host.
func (a absent) Describe() Description {
	return Description{Name: a.name, Message: "it is not registered with the cluster any more"}
}

func (a absent) err() error {
	return fmt.Errorf("host %s is not registered with the cluster any more", a.name)
}

// Start implements Host.
func (a absent) Start(context.Context, Spec) (netip.Addr, error) { return netip.Addr{}, a.err() }

// Status implements Host.
func (a absent) Status(context.Context, string) (Status, error) { return Status{}, ErrUnknown }

// Stop implements Host.
func (a absent) Stop(context.Context, string, int64) error { return a.err() }

// Remove implements Host.
func (a absent) Remove(context.Context, string) error { return ErrUnknown }

// List implements Host.
func (a absent) List(context.Context) ([]string, error) { return nil, nil }

// Watch implements Host.
func (a absent) Watch(ctx context.Context, _ func(string)) { <-ctx.Done() }

// Abilities are what pods may count on: those of the first host by name that is ready, or of Nodeless's own microVMs.
func (s *Scheduler) Abilities() fargate.Abilities {
	hosts := s.allHosts()
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if d := hosts[name].Describe(); d.Ready {
			return d.Abilities
		}
	}
	return fargate.DefaultAbilities()
}
