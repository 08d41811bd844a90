package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodeless/nodeless/view"
)

// Clusters are the clusters that a page shows, by kubeconfig context. The page of a cluster other than the Server's
// own is at clustersPath and its context's name. Its cluster is read from the first time that someone views it.
type Clusters struct {
	Here  string   // the context of the Server's own cluster
	Names []string // of all contexts
	// Open returns the Options of another context's page. If it fails, the next request calls it again.
	Open func(name string) (Options, error)
}

const clustersPath = "/clusters/"

// fleet serves the pages of several clusters. It is safe for concurrent use.
type fleet struct {
	own *Server

	mu     sync.Mutex
	byName map[string]*member
}

// member is a cluster of a fleet that someone has viewed.
type member struct {
	seat
	reading chan struct{} // closed when the sums have been read or reading failed; nil = nobody is reading them
	known   bool
	problem error
}

// clusters returns the page's clusters; none if the page shows only its own.
func (f *fleet) clusters() Clusters {
	if c := f.own.o.Clusters; c != nil {
		return *c
	}
	return Clusters{Names: []string{}}
}

// member returns the cluster of a context, and opens it the first time.
func (f *fleet) member(name string) (*member, error) {
	c := f.clusters()
	if !slices.Contains(c.Names, name) {
		return nil, failure{http.StatusNotFound, fmt.Errorf("this page shows no context %q", name)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.byName[name]; m != nil {
		return m, nil
	}
	server := f.own
	if name != c.Here {
		o, err := c.Open(name)
		if err != nil {
			return nil, failure{http.StatusBadGateway, fmt.Errorf("context %s: %w", name, err)}
		}
		if server, err = f.start(o); err != nil {
			return nil, err
		}
	}
	m := &member{seat: seat{server: server, handler: server.routes()}}
	if f.byName == nil {
		f.byName = map[string]*member{}
	}
	f.byName[name] = m
	return m, nil
}

// start returns a Server that follows its cluster as long as the fleet's own Server runs.
func (f *fleet) start(o Options) (*Server, error) {
	life := f.own.lifetime()
	if life == nil {
		return nil, errNotServed
	}
	s := New(o)
	s.life = life
	go s.follow(life)
	return s, nil
}

// ServeHTTP serves the page of a context, at a path that begins with clustersPath.
func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path, inside := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), clustersPath), "/")
	if !inside {
		http.Redirect(w, r, clustersPath+name+"/", http.StatusSeeOther) //nolint:gosec // a path of this page alone
		return
	}
	context, err := url.PathUnescape(name)
	if err == nil {
		path, err = url.PathUnescape(path)
	}
	if err != nil {
		http.Error(w, view.Escape(err.Error()), http.StatusBadRequest)
		return
	}
	m, err := f.member(context)
	if err != nil {
		if strings.HasPrefix(path, "api/") {
			reply(w, r, func(*http.Request) (any, error) { return nil, err })
			return
		}
		http.Error(w, view.Escape(err.Error()), statusOf(err))
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = "/"+path, ""
	m.answer(w, inner)
}

// clusterList lists the names of the clusters.
type clusterList struct {
	Here  string   `json:"here"`
	Names []string `json:"names"`
}

func (f *fleet) list(*http.Request) (any, error) {
	c := f.clusters()
	return escaped(clusterList{c.Here, c.Names})
}

// clusterSums are the sums of one cluster.
type clusterSums struct {
	Name    string `json:"name"`
	Known   bool   `json:"known"`             // whether the cluster has been read
	Problem string `json:"problem,omitempty"` // why it has not been read, or only partly
	Totals  totals `json:"totals"`
	// Saved is what removing nodes has saved; nil if unknown.
	Saved *clusterSavings `json:"saved,omitempty"`
}

type clusterSavings struct {
	Dollars        float64 `json:"dollars"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// sumsWithin is how long sums waits for clusters that are being read for the first time. The page repeats its
// request.
const sumsWithin = 2 * time.Second

// sums answers with the sums of all clusters, which it reads concurrently.
func (f *fleet) sums(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), sumsWithin)
	defer cancel()
	names := f.clusters().Names
	out := make([]clusterSums, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { out[i] = f.sumsOf(ctx, name) })
	}
	all.Wait()
	return escaped(out)
}

func (f *fleet) sumsOf(ctx context.Context, name string) clusterSums {
	out := clusterSums{Name: name}
	m, err := f.member(name)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	select {
	case <-f.read(m):
	case <-ctx.Done():
	}
	f.mu.Lock()
	out.Known, err = m.known, m.problem
	f.mu.Unlock()
	switch {
	case err != nil:
		out.Problem = err.Error()
	case out.Known:
		sum := m.server.o.Model.Totals()
		out.Totals, out.Problem = newTotals(&sum, len(m.server.o.Model.Resources())), strings.Join(sum.Notes, "; ")
		if l, _, err := m.server.ledger(ctx); err == nil {
			out.Saved = &clusterSavings{l.Dollars, l.DollarsPerHour}
		}
	}
	return out
}

// read starts reading a cluster unless it has been or is being read. The returned channel is closed when that is done
// or has failed; after a failure, the next call tries again.
func (f *fleet) read(m *member) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.reading != nil {
		return m.reading
	}
	done := make(chan struct{})
	m.reading = done
	go func() {
		life := f.own.lifetime()
		err := errNotServed
		if life != nil {
			err = m.server.beFull(life)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if m.problem = err; err == nil {
			m.known = true
		}
		if err != nil || m.server.o.Fill != nil && !m.server.full.Load() {
			m.reading = nil // the next who asks waits again
		}
		close(done)
	}()
	return done
}

// answer serves a request once the page's cluster has been read.
func (at *seat) answer(w http.ResponseWriter, r *http.Request) {
	if err := at.server.ready(r); err != nil {
		http.Error(w, "nothing can be shown: "+view.Escape(err.Error()), http.StatusServiceUnavailable)
		return
	}
	at.handler.ServeHTTP(w, r)
}
