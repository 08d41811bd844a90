// Package web serves a view.Model to browsers: a page that follows it and can go back in time, the same without
// script at /lite, and answers of the engine to why. It only reads, and answers callers with a token alone.
// docs/adr/0022 says how it follows a cluster.
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
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/objects"
)

// Options are what a Server needs.
type Options struct {
	Context string // whose cluster it is, in words
	Prices  string // where prices come from; "" = none are shown
	Model   *view.Model
	// Fill begins to fill the Model, when somebody first asks for something; nil = it is full. What it starts lives as
	// long as its context, and wait waits until the Model holds what there is. If Fill fails it is called again for the
	// next who asks.
	Fill func(context.Context) (wait func(context.Context) error, err error)
	// Engine watches the cluster to answer questions about it, when somebody first asks one; nil = there are no answers.
	Engine func(context.Context) (Engine, error)
	// Decisions is where the cluster keeps them; nil = it is not known.
	Decisions Log
	// Forecast answers what would be if, as what can be written as JSON; nil = nobody does.
	Forecast func(context.Context, WhatIf) (any, error)
	// Object reads what is shown of single objects; nil = nothing is.
	Object objects.Read
	// Hosts reads the hosts of microVMs; nil = none are shown.
	Hosts ReadHosts
	// Clusters are those among which the page lets people choose; nil = it shows its own alone, as with a Gate.
	Clusters *Clusters
	// Token is what callers on this machine must send, all of whom see everything: the secret of Link. "" = nobody is
	// let in.
	Token string
	// Gate lets people in from elsewhere instead; nil = only callers on this machine.
	Gate  *Gate
	Clock clock.Clock // default the real one
}

// Server is the page of one cluster.
type Server struct {
	o       Options
	history *history
	streams chan struct{} // a value for each that is open

	decided  *decided
	thinking chan struct{} // a value while a forecast is made
	seats    seats
	fleet    *fleet

	noDecisions, noEngine error       // what those who look lack
	allow                 *view.Allow // what they may look at; nil = everything
	lacks                 []string    // the kinds that they may not list in the whole cluster

	mu    sync.Mutex
	life  context.Context             // of what Fill and Engine start; nil before Run
	wait  func(context.Context) error // Fill's; nil before it was called
	full  atomic.Bool
	asker *asker
}

// mostStreams are how many pages may follow at once.
const mostStreams = 200

// New is a Server that Run makes follow.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	s := &Server{o: o, history: newHistory(len(o.Model.Resources()), usual), streams: make(chan struct{}, mostStreams)}
	s.decided, s.thinking = newDecided(o.Decisions, o.Clock), make(chan struct{}, 1)
	s.asker, s.fleet = &asker{o: &s.o, one: make(chan struct{}, 1)}, &fleet{own: s}
	return s
}

// Check says what is wrong with an address for a Server without a Gate. Only loopback addresses are right: without
// TLS, whoever sees the page's traffic has its token.
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

// Listen opens an address for a Server, if Check lets it.
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
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
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

// follow makes frames of changes. It leaves nine tenths of the time to others, however much changes.
func (s *Server) follow(ctx context.Context) {
	journal := s.o.Model.Journal()
	next := make(chan struct{}, 1)
	if s.o.Model.Totals().Rows > 0 { // filled before anybody followed
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

// advance makes one frame. A history with too many kinds begins anew, from a new Journal.
func (s *Server) advance(j *view.Journal) *view.Journal {
	if s.history.full() {
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

// fullWithin is how long somebody waits until the model holds what there is. Then they see what came, and what did not.
const fullWithin = 30 * time.Second

var errNotServed = errors.New("the page is not served yet; reload it")

// begin has the model filled.
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

// beFull has the model filled and waits for it: who is shown a part of a cluster takes it for the whole.
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
		return ctx.Err() // who asked is gone
	case err != nil:
		s.o.Model.Note(source, "not all of the cluster has been read yet: "+err.Error())
		return nil
	}
	s.o.Model.Note(source, "")
	s.full.Store(true)
	return nil
}
