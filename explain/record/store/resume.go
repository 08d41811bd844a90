package store

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/explain/record"
)

// load reads the log, retrying until it succeeds; it returns false if ctx is done.
func (r *Recorder) load(ctx context.Context) bool {
	for pause := time.Second; ; {
		tracker := record.NewTracker()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := r.store.load(call, tracker.Replay, r.damaged)
		cancel()
		if err == nil {
			r.mu.Lock()
			r.tracker = tracker
			r.mu.Unlock()
			r.noCRD.Store(false)
			return true
		}
		wait := pause
		switch {
		case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
			if !r.noCRD.Swap(true) {
				r.o.Log.Warn("decisions are not kept: the cluster has no CRD decisionlogs.nodeless.sh; install it: nodeless " +
					"crds | kubectl apply --server-side -f -")
			}
			r.drain()
			wait = crdPoll
		case ctx.Err() == nil:
			r.o.Log.Warn("decisions are not kept yet; it is tried again", "in", pause, "error", err)
			pause = min(2*pause, maxPause)
		}
		if !r.sleep(ctx, wait) {
			return false
		}
	}
}

// drain discards cycles that will not be recorded.
func (r *Recorder) drain() {
	for {
		select {
		case <-r.cycles:
		default:
			return
		}
	}
}

func (r *Recorder) damaged(err error) {
	r.o.Metrics.RecordDamaged()
	r.o.Log.Warn("a piece of the decision log cannot be read and is skipped", "error", err)
}

// noteMissedDeletions records the end of nodes that were deleted while this process was not running.
func (r *Recorder) noteMissedDeletions(ctx context.Context) {
	r.mu.Lock()
	open := r.tracker.Open()
	r.mu.Unlock()
	for _, claim := range open {
		key := client.ObjectKey{Name: claim}
		if r.o.Cache.Get(ctx, key, &karpv1.NodeClaim{}) == nil {
			continue
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := r.o.Client.Get(call, key, &karpv1.NodeClaim{}) // the cache may be behind
		cancel()
		if apierrors.IsNotFound(err) {
			now := r.o.Clock.Now()
			r.mu.Lock()
			r.add(r.tracker.Deleted(claim, "noticed when the controller restarted", now))
			r.mu.Unlock()
		}
	}
}
