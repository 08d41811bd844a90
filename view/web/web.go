// Package web serves a view.Model to browsers: a page that follows the model and can go back in time, the same
// without scripts at /lite, and the engine's explanations. It is read-only, and serves only callers with a token.
// docs/adr/0022 describes how it follows a cluster.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/objects"
)

// Options are what a Server needs.
type Options struct {
	Context string // which cluster it is, in words
	Prices  string // where prices come from; "" = none are shown
	Model   *view.Model
	// Fill starts to fill the Model, on the first request; nil = the Model is full. What it starts runs until its
	// context ends, and wait waits until the Model holds the whole cluster. If Fill fails, the next request calls it
	// again.
	Fill func(context.Context) (wait func(context.Context) error, err error)
	// Engine starts watching the cluster to answer questions about it, on the first question; nil = there are no
	// answers.
	Engine func(context.Context) (Engine, error)
	// Decisions is the cluster's log of decisions; nil = unknown.
	Decisions Log
	// Forecast predicts the effects of changes, as a value that can be marshalled to JSON; nil = there are no
	// forecasts.
	Forecast func(context.Context, WhatIf) (any, error)
	// Object reads single objects; nil = none are shown.
	Object objects.Read
	// Hosts reads the hosts of microVMs; nil = none are shown.
	Hosts ReadHosts
	// Usage reads what nodes use; nil = it is not shown.
	Usage ReadUsage
	// Clusters are those that viewers can choose from; nil = the page shows only its own, as with a Gate.
	Clusters *Clusters
	// Token is what callers on this machine must send; all of them see everything. It is the secret in Link. "" = no
	// one is admitted.
	Token string
	// Gate admits people from elsewhere instead; nil = only callers on this machine.
	Gate  *Gate
	Clock clock.Clock // defaults to the real one
}

// Server is the page of one cluster.
type Server struct {
	o       Options
	history *history
	streams chan struct{} // holds a value for each open stream

	decided  *decided
	thinking chan struct{} // holds a value while a forecast is being made
	seats    seats
	fleet    *fleet

	noDecisions, noEngine, noUsage error       // what the viewer lacks
	allow                          *view.Allow // what the viewer may see; nil = everything
	lacks                          []string    // the kinds that the viewer may not list in the whole cluster

	mu    sync.Mutex
	life  context.Context             // of what Fill and Engine start; nil before Run
	wait  func(context.Context) error // returned by Fill; nil before Fill was called
	full  atomic.Bool
	asker *asker
}

// mostStreams is how many pages may follow at once.
const mostStreams = 200

// New returns a Server, which follows its cluster once Run is called.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	s := &Server{o: o, history: newHistory(len(o.Model.Resources()), usual), streams: make(chan struct{}, mostStreams)}
	s.decided, s.thinking = newDecided(o.Decisions, o.Clock), make(chan struct{}, 1)
	s.asker = &asker{o: &s.o, one: make(chan struct{}, 1), answers: map[string]given{}}
	s.fleet = &fleet{own: s}
	return s
}

// Check returns an error unless an address is suitable for a Server without a Gate. Only loopback addresses are:
// without TLS, anyone who sees the page's traffic has its token.
func Check(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w; give it as 127.0.0.1:8080", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("address %q is not loopback: without TLS whoever sees its traffic would see all that your "+
			"kubeconfig may see; "+
			"listen on 127.0.0.1, and go there from elsewhere with ssh -L 8080:127.0.0.1:8080 or kubectl port-forward", address)
	}
	return nil
}

// Listen opens an address for a Server without a Gate, if Check allows it.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if err := Check(address); err != nil {
		return nil, err
	}
	return ListenAnywhere(ctx, address)
}

// ListenAnywhere opens an address for a Server with a Gate.
func ListenAnywhere(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open the page's address: %w; choose another", err)
	}
	return l, nil
}

// Run serves the page until ctx is done.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	go s.follow(ctx)
	server := httpguard.NewServer(bodyWithin, s.Handler())
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	done := make(chan error, 1)
	go func() {
		if s.o.Gate != nil {
			server.TLSConfig = s.o.Gate.TLS
			done <- server.ServeTLS(l, "", "")
			return
		}
		done <- server.Serve(l)
	}()
	select {
	case err := <-done:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
		err := server.Close() // streams never end by themselves
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
}

// frameGap is the shortest time between two frames.
const frameGap = 250 * time.Millisecond

// follow turns changes into frames. It leaves at least nine tenths of the time to others, however much changes.
func (s *Server) follow(ctx context.Context) {
	journal := s.o.Model.Journal()
	next := make(chan struct{}, 1)
	view.SetTime(s.o.Model, s.o.Clock.Now())
	go func() {
		for clock.Sleep(ctx, s.o.Clock, time.Minute) == nil {
			view.SetTime(s.o.Model, s.o.Clock.Now()) // what ends with time is a change, too
		}
	}()
	if s.o.Model.Totals().Rows > 0 { // filled before anyone followed
		journal = s.advance(journal)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.o.Model.Changed():
		}
		began := s.o.Clock.Now()
		journal = s.advance(journal)
		timer := s.o.Clock.AfterFunc(max(frameGap, 10*s.o.Clock.Now().Sub(began)), func() { next <- struct{}{} })
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-next:
		}
	}
}

// advance makes one frame. If the history has too many kinds, or the clock was set back, it resets the history and
// starts a new Journal.
func (s *Server) advance(j *view.Journal) *view.Journal {
	if s.history.full() || s.history.ahead(s.o.Clock.Now()) {
		j = s.o.Model.Journal()
		s.history.mu.Lock()
		s.history.reset()
		s.history.mu.Unlock()
	}
	changes := j.Take()
	if err := s.history.add(&changes, s.o.Clock.Now()); err != nil {
		s.o.Model.Note("page", err.Error())
	}
	return j
}

// fullWithin is how long a request waits for the Model to be full. Then it is answered with what has been read, and a
// note about what has not.
const fullWithin = 30 * time.Second

var errNotServed = errors.New("the page is not served yet; reload it")

// begin starts to fill the Model.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait != nil || s.o.Fill == nil {
		return nil
	}
	if s.life == nil {
		return errNotServed
	}
	var err error
	s.wait, err = s.o.Fill(s.life)
	return err
}

// beFull fills the Model and waits until it is full: a viewer would take a part of a cluster for the whole.
func (s *Server) beFull(ctx context.Context) error {
	if s.full.Load() || s.o.Fill == nil {
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	const source = "first reading"
	within, cancel := context.WithTimeout(ctx, fullWithin)
	defer cancel()
	switch err := s.wait(within); {
	case ctx.Err() != nil:
		return ctx.Err() // the caller has gone
	case err != nil:
		s.o.Model.Note(source, "not all of the cluster has been read yet: "+err.Error())
		return nil
	}
	s.o.Model.Note(source, "")
	s.full.Store(true)
	return nil
}
