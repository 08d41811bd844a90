package store

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/informer"
)

// How the recorder writes.
const (
	// what is decided meanwhile is written at once: a crash loses no more than that and one call
	gather      = 2 * time.Second
	callTimeout = 10 * time.Second // of one call
	lastWord    = 3 * time.Second  // for the last write of a process that ends
	mostPause   = 30 * time.Second // between two tries of a call that fails
	notServed   = time.Minute      // between two looks whether there is the kind DecisionLog by now
	mostTurns   = 64               // that wait to be made entries of; each holds its snapshot
	mostPending = 20_000           // entries that wait to be written
	atOnce      = 2_000            // entries that are looked at for one write
)

// Options are what a Recorder needs.
type Options struct {
	Client client.Client  // not from a cache; required
	Cache  cache.Cache    // where NodeClaims are watched; required
	State  *cluster.State // required
	Clock  clock.Clock    // default the real one
	Log    *slog.Logger   // default slog.Default
	// Metrics counts what is written and what is lost; nil counts nothing.
	Metrics *metrics.Counters
}

// Recorder keeps what is decided. It never makes whoever decides wait, and nothing that fails here is an error to
// anybody: what cannot be kept is counted, and the log says that it is missing.
type Recorder struct {
	o     Options
	store *store
	turns chan record.Turn
	wake  chan struct{}
	off   atomic.Bool // the cluster has no such kind
	ready chan struct{}

	mu      sync.Mutex
	tracker *record.Tracker
	pending []record.Entry
	lost    int
}

// New is a Recorder. Nothing is kept before Run.
func New(o Options) *Recorder {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Recorder{
		o: o, store: &store{client: o.Client, pieces: ringPieces, bytes: pieceBytes},
		turns: make(chan record.Turn, mostTurns),
		wake:  make(chan struct{}, 1), ready: make(chan struct{}), tracker: record.NewTracker(),
	}
}

// Decided keeps a turn. It returns at once.
func (r *Recorder) Decided(t record.Turn) {
	if r.off.Load() {
		return
	}
	select {
	case r.turns <- t:
	default:
		r.mu.Lock()
		r.lost++
		r.mu.Unlock()
		r.o.Metrics.RecordsDropped(1)
	}
}

// Deleting keeps what a NodeClaim is deleted for by somebody of this process who is not the loop: a word or two, such
// as unhealthy.
func (r *Recorder) Deleting(claim *karpv1.NodeClaim, why string) {
	if r.off.Load() || !ours(claim) {
		return
	}
	method, text := because(claim, why)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracker.Deleting(claim.Name, method, text)
}

// Run keeps until ctx is done. Call Finish afterwards.
func (r *Recorder) Run(ctx context.Context) error {
	if !r.load(ctx) {
		return nil
	}
	if err := informer.Watch(ctx, r.o.Cache, &karpv1.NodeClaim{}, r.see); err != nil {
		return err
	}
	r.missed(ctx)
	close(r.ready)
	var wg sync.WaitGroup
	wg.Go(func() { r.listen(ctx) })
	r.write(ctx)
	wg.Wait()
	return nil
}

// Finish writes what is left, when nothing is decided any more; it takes some seconds at most.
func (r *Recorder) Finish(ctx context.Context) {
	select {
	case <-r.ready:
	default:
		return // the log was never read: nobody knows where it goes on
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	for {
		select {
		case t := <-r.turns:
			r.turn(t)
			continue
		default:
		}
		break
	}
	for range 4 { // one that was moved is read again first
		if left, err := r.flush(ctx); !left && err == nil || ctx.Err() != nil {
			return
		}
	}
}

// listen makes entries of turns.
func (r *Recorder) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-r.turns:
			r.turn(t)
		}
	}
}

func (r *Recorder) turn(t record.Turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(r.tracker.Turn(t, r.o.Clock.Now()))
}

// add has entries written soon. The lock is held.
func (r *Recorder) add(entries []record.Entry) {
	room := max(mostPending-len(r.pending), 0)
	if len(entries) > room {
		r.lost += len(entries) - room
		r.o.Metrics.RecordsDropped(len(entries) - room)
		entries = entries[:room]
	}
	r.pending = append(r.pending, entries...)
	if len(r.pending) > 0 {
		r.stir()
	}
}

func (r *Recorder) stir() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
