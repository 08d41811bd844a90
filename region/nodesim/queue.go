package nodesim

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// handler queues every changed object, with the prefix of its kind. A deleted pod releases what it held instead.
func (s *Simulator) handler(prefix string) cache.ResourceEventHandler {
	add := func(o any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			s.queue.Add(prefix + key)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, o any) { add(o) },
		DeleteFunc: func(o any) {
			if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			if pod, ok := o.(*corev1.Pod); ok {
				s.podEnded(pod)
			}
		},
	}
}

// apply records an instance event; the queue's workers do the rest.
func (s *Simulator) apply(e Event) {
	name := e.Instance.Name
	s.mu.Lock()
	m := s.booted[name]
	switch e.Kind {
	case Booted:
		s.booted[name] = &instance{Instance: e.Instance}
	case Ending:
		if m != nil {
			m.ending = true
		}
	case Gone:
		// The Node may exist even if the instance was terminated before the simulator started.
		if _, err := s.nodes.Get(name); m != nil || err == nil {
			s.gone[name] = e.Instance.ProviderID
		}
		if m != nil && m.ID == e.Instance.ID {
			delete(s.booted, name)
		}
	}
	s.mu.Unlock()
	if e.Kind != Ending {
		s.queue.Add("node/" + name)
	}
	if e.Kind == Booted {
		s.enqueuePods(name, nil)
	}
}

// enqueuePods queues the pods of a node that a condition selects, nil = all.
func (s *Simulator) enqueuePods(node string, which func(*corev1.Pod) bool) {
	for _, p := range s.Pods(node) {
		if which == nil || which(p) {
			s.queue.Add("pod/" + p.Namespace + "/" + p.Name)
		}
	}
}

func (s *Simulator) work(ctx context.Context) {
	for {
		key, stop := s.queue.Get()
		if stop {
			return
		}
		err := s.reconcile(ctx, key)
		switch {
		case err == nil || ctx.Err() != nil:
			s.queue.Forget(key)
		default:
			s.o.Log.Debug("node simulator: retrying", "object", key, "error", err)
			s.queue.AddRateLimited(key)
		}
		s.queue.Done(key)
	}
}

func (s *Simulator) reconcile(ctx context.Context, key string) error {
	if pod, ok := strings.CutPrefix(key, "pod/"); ok {
		return s.reconcilePod(ctx, pod)
	}
	return s.reconcileNode(ctx, strings.TrimPrefix(key, "node/"))
}

// requeueAfter queues a key after d, unless it is already scheduled earlier; its handler then decides how much longer
// to wait.
func (s *Simulator) requeueAfter(key string, d time.Duration) {
	at := s.o.Clock.Now().Add(d)
	s.mu.Lock()
	before, set := s.timers[key]
	sooner := !set || at.Before(before)
	if sooner {
		s.timers[key] = at
	}
	s.mu.Unlock()
	if !sooner {
		return
	}
	s.o.Clock.AfterFunc(d, func() {
		s.mu.Lock()
		if s.timers[key].Equal(at) {
			delete(s.timers, key)
		}
		s.mu.Unlock()
		s.queue.Add(key)
	})
}
