package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// DefaultLease is the name of the leader's Lease. Karpenter uses the same name: its tools find the leader by it, and
// it prevents Karpenter and Nodeless from acting on the same cluster, whichever namespaces they run in.
const DefaultLease = rbac.KarpenterLease

// Durations of the Lease. A replica sees each renewal, and that there was none for leaseDuration, at most 2.2
// retryPeriods late (leaderelection.JitterFactor): it takes over within 14.4 s after its predecessor's last renewal.
// With Karpenter's durations, 15 s, 10 s and 2 s, it would be 23.8 s. Replicas go by the duration that the Lease says,
// so the two agree on who leads. A leader that fails to renew gives up retryPeriod+renewDeadline after its last
// renewal, and has the rest of leaseDuration to stop.
var (
	leaseDuration = 10 * time.Second
	renewDeadline = 6 * time.Second
	retryPeriod   = time.Second
)

var errLeadershipLost = errors.New("controller: leadership was lost; another replica acts now")

// lead calls f once this process leads. Losing the lease cancels f and is an error: the process must be restarted.
func lead(ctx context.Context, o Options, f func(context.Context) error) error {
	if !o.LeaderElection {
		return f(ctx)
	}
	kube, err := leaseClient(o.REST)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	identity := cmp.Or(o.Identity, host) + "_" + string(uuid.NewUUID())
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	done, started := make(chan error, 1), make(chan struct{})
	own := types.NamespacedName{
		Namespace: cmp.Or(o.LeaderNamespace, metav1.NamespaceSystem), Name: cmp.Or(o.LeaderName, DefaultLease),
	}
	others := &otherLeaders{kube: kube, own: own, clock: clock.Real{}, log: o.Log, seen: map[string]sighting{}}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: own.Name}, Client: kube.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	elector, err := newElector(lock, func(leading context.Context) {
		close(started)
		done <- others.alone(leading, f)
		cancel()
	})
	if err != nil {
		return fmt.Errorf("controller: leader election: %w", err)
	}
	if !others.await(ctx) {
		return nil
	}
	elector.Run(inner)
	select {
	case <-started: // f has started: wait until it returns
		err := <-done
		release(context.WithoutCancel(ctx), lock)
		if err != nil {
			return err
		}
	default:
	}
	if ctx.Err() != nil {
		return nil
	}
	return errLeadershipLost
}

// newElector returns an elector that calls f when it leads.
func newElector(lock resourcelock.Interface, f func(context.Context)) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: false, // lead releases it, after f has returned
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: f, OnStoppedLeading: func() {}},
	})
}

// leaseClient returns a client that is used only for the Lease. Its requests do not queue behind the many requests of
// a large cluster, and one that hangs times out early enough for another attempt before the lease is lost.
func leaseClient(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Timeout = -1, renewDeadline/2
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("controller: client of the leader's lease: %w", err)
	}
	return kube, nil
}

// release gives up the lease, if this process still holds it, so that a successor need not wait for it to expire.
func release(ctx context.Context, lock *resourcelock.LeaseLock) {
	ctx, cancel := context.WithTimeout(ctx, leaseDuration-retryPeriod-renewDeadline)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err != nil || held.HolderIdentity != lock.Identity() {
		return
	}
	held.HolderIdentity, held.LeaseDurationSeconds = "", 1
	_ = lock.Update(ctx, *held)
}
