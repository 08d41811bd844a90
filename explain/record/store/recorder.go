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
	// how long entries are gathered before a write; a crash loses at most this time and one call
	gatherTime    = 2 * time.Second
	callTimeout   = 10 * time.Second // of one call
	finishTimeout = 3 * time.Second  // of the last write of a process that ends
	maxPause      = 30 * time.Second // between attempts of a failing call
	crdPoll       = time.Minute      // between checks whether the kind DecisionLog exists by now
	maxCycles     = 64               // cycles waiting to become entries; each holds its snapshot
	maxPending    = 20_000           // entries waiting to be written
	batchSize     = 2_000            // entries considered for one write
)

// Options configure a Recorder.
type Options struct {
	Client client.Client  // must not read from a cache; required
	Cache  cache.Cache    // watches NodeClaims; required
	State  *cluster.State // required
	Clock  clock.Clock    // default the real one
	Log    *slog.Logger   // default slog.Default
	// Metrics counts what is written and what is lost; default metrics that are not registered.
	Metrics *metrics.Counters
}

// Recorder records decisions. It never blocks the cycle and never fails it: what cannot be recorded is counted, and
// noted in the log itself.
type Recorder struct {
	o      Options
	store  *store
	cycles chan record.Cycle
	wake   chan struct{}
	noCRD  atomic.Bool // the cluster has no such kind
	ready  chan struct{}

	mu      sync.Mutex
	tracker *record.Tracker
	pending []record.Entry
	lost    int
}

// New returns a Recorder. It records nothing before Run.
func New(o Options) *Recorder {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(nil)
	}
	return &Recorder{
		o: o, store: &store{client: o.Client, pieces: ringPieces, bytes: pieceBytes},
		cycles: make(chan record.Cycle, maxCycles),
		wake:   make(chan struct{}, 1), ready: make(chan struct{}), tracker: record.NewTracker(),
	}
}

// Decided records a cycle. It returns at once.
func (r *Recorder) Decided(t record.Cycle) {
	if r.noCRD.Load() {
		return
	}
	select {
	case r.cycles <- t:
	default:
		r.mu.Lock()
		r.lost++
		r.mu.Unlock()
		r.o.Metrics.RecordsDropped(1)
	}
}

// Deleting records why this process deletes a NodeClaim outside a cycle. why is a word or two, such as unhealthy.
func (r *Recorder) Deleting(claim *karpv1.NodeClaim, why string) {
	if r.noCRD.Load() || !r.recorded(claim) {
		return
	}
	method, text := deletionReason(claim, why)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracker.Deleting(claim.Name, method, text)
}

// Run records until ctx is done. Call Finish afterwards.
func (r *Recorder) Run(ctx context.Context) error {
	if !r.load(ctx) {
		return nil
	}
	if err := informer.Watch(ctx, r.o.Cache, &karpv1.NodeClaim{}, r.observe); err != nil {
		return err
	}
	r.noteMissedDeletions(ctx)
	close(r.ready)
	var wg sync.WaitGroup
	wg.Go(func() { r.listen(ctx) })
	r.write(ctx)
	wg.Wait()
	return nil
}

// Finish writes what is still queued when no more decisions come. It takes a few seconds at most.
func (r *Recorder) Finish(ctx context.Context) {
	select {
	case <-r.ready:
	default:
		return // the log was never read, so its end is unknown
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	for {
		select {
		case t := <-r.cycles:
			r.record(t)
			continue
		default:
		}
		break
	}
	for range 4 { // after errMoved, one attempt only reloads the log
		if left, err := r.flush(ctx); !left && err == nil || ctx.Err() != nil {
			return
		}
	}
}

// listen turns cycles into entries.
func (r *Recorder) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-r.cycles:
			r.record(t)
		}
	}
}

func (r *Recorder) record(t record.Cycle) {
	t.Workloads = r.workloads
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(r.tracker.Cycle(t, r.o.Clock.Now()))
}

// add queues entries for writing. r.mu must be held.
func (r *Recorder) add(entries []record.Entry) {
	room := max(maxPending-len(r.pending), 0)
	if len(entries) > room {
		r.lost += len(entries) - room
		r.o.Metrics.RecordsDropped(len(entries) - room)
		entries = entries[:room]
	}
	r.pending = append(r.pending, entries...)
	if len(r.pending) > 0 {
		r.wakeUp()
	}
}

func (r *Recorder) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
