package web

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/nodeless/nodeless/view/access"
)

// mostSeats is how many different sets of rights are served at once, besides that of viewers who may see everything.
// Each set has its own copy of what it may see.
const mostSeats = 10

// fewer are the bounds of the history of a seat with limited rights.
var fewer = bounds{frames: 2000, bytes: 4 << 20, kinds: 5000}

// seats are Servers by the rights that they serve.
type seats struct {
	mu    sync.Mutex
	all   *seat // may see everything
	byKey map[string]*seat
	turn  int // counts calls of take
}

// seat is a Server for all viewers with the same rights.
type seat struct {
	server  *Server
	handler http.Handler
	stop    func()
	taken   int // number of requests that use it
	last    int // the turn in which it was last taken
}

// take returns the seat for a viewer's rights; call leave afterwards.
func (x *seats) take(s *Server, r *access.Rights) (*seat, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.turn++
	if r.All() {
		if x.all == nil {
			x.all = &seat{server: s, handler: s.routes()}
		}
		x.all.taken++
		return x.all, nil
	}
	key := r.Key()
	at := x.byKey[key]
	if at == nil {
		if len(x.byKey) >= mostSeats && !x.free() {
			return nil, errCrowded
		}
		at = s.seatFor(r)
		if x.byKey == nil {
			x.byKey = map[string]*seat{}
		}
		x.byKey[key] = at
	}
	at.taken, at.last = at.taken+1, x.turn
	return at, nil
}

func (x *seats) leave(at *seat) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at.taken--
}

// free removes the least recently used seat of those that no request uses. It reports whether there was one.
func (x *seats) free() bool {
	oldest := ""
	for key, at := range x.byKey {
		if at.taken == 0 && (oldest == "" || at.last < x.byKey[oldest].last) {
			oldest = key
		}
	}
	if oldest == "" {
		return false
	}
	x.byKey[oldest].stop()
	delete(x.byKey, oldest)
	return true
}

// seatFor returns a seat that follows the part of s that the rights allow.
func (s *Server) seatFor(r *access.Rights) *seat {
	m, stop := s.o.Model.Mirror(r.Allow)
	if r.Unasked > 0 {
		m.Note("allowed more", "there are too many namespaces to check at once: more are shown once they are checked, "+
			"1,000 at most. A right to list the pods of all namespaces has no such limit")
	}
	o := s.o
	o.Model, o.Fill, o.Gate = m, nil, nil
	sub := New(o)
	sub.allow, sub.lacks = &r.Allow, r.Lacks
	sub.history = newHistory(len(m.Resources()), fewer)
	sub.life, sub.streams, sub.thinking, sub.decided, sub.asker = s.lifetime(), s.streams, s.thinking, s.decided, s.asker
	if !r.Decisions {
		sub.noDecisions = lacking("decisions and savings", "decisionlogs.nodeless.sh")
	}
	if !r.Usage {
		sub.noUsage = lacking("what nodes use", "nodes.metrics.k8s.io")
	}
	if !r.Engine {
		sub.noEngine = lacking("the engine's answers", r.Lacks[0])
	}
	ctx, cancel := context.WithCancel(s.lifetime())
	go sub.follow(ctx)
	return &seat{server: sub, handler: sub.routes(), stop: func() { cancel(); stop() }}
}

func lacking(what, resource string) error {
	return failure{
		http.StatusForbidden,
		fmt.Errorf("%s are for those who may list %s of the whole cluster; an administrator allows it: nodeless rbac "+
			"--view --user NAME", what, resource),
	}
}
