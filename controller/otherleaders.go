package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// otherLeaders finds controllers that lead by Karpenter's Lease in another namespace than ours: a Karpenter that was
// installed in a namespace of its own, or that somebody starts again while Nodeless runs. Two controllers would launch
// a node each for the same pod.
type otherLeaders struct {
	kube  kubernetes.Interface
	own   types.NamespacedName // our Lease
	clock clock.Clock
	log   *slog.Logger
	seen  map[string]sighting // by namespace
}

// sighting is what a Lease said, and since when it has said so. As for every replica that waits for a Lease, clocks of
// different machines are not compared: who does not renew a Lease for its duration does not lead.
type sighting struct {
	holder  string
	renewed time.Time
	since   time.Time
}

// active names another controller that leads; "" is none.
func (o *otherLeaders) active(ctx context.Context) (string, error) {
	leases, err := o.kube.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=" + rbac.KarpenterLease})
	if err != nil {
		return "", fmt.Errorf("list the Leases %s of all namespaces: %w", rbac.KarpenterLease, err)
	}
	active := ""
	for i := range leases.Items {
		l := &leases.Items[i]
		if l.Name == rbac.KarpenterLease && l.Namespace+"/"+l.Name != o.own.String() && o.holds(l) {
			active = fmt.Sprintf("%s, by Lease %s in namespace %s", *l.Spec.HolderIdentity, l.Name, l.Namespace)
		}
	}
	return active, nil
}

// holds reports whether the holder of a Lease, if there is one, has renewed it within its duration.
func (o *otherLeaders) holds(l *coordinationv1.Lease) bool {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		delete(o.seen, l.Namespace) // given back
		return false
	}
	before, now := o.seen[l.Namespace], o.clock.Now()
	if before.holder != *s.HolderIdentity || !before.renewed.Equal(s.RenewTime.Time) {
		before = sighting{*s.HolderIdentity, s.RenewTime.Time, now}
		o.seen[l.Namespace] = before
	}
	duration := leaseDuration
	if s.LeaseDurationSeconds != nil {
		duration = time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	return now.Sub(before.since) < duration
}

// alone calls f once no other controller leads, and ends it when one does.
func (o *otherLeaders) alone(ctx context.Context, f func(context.Context) error) error {
	told := ""
	for {
		who := o.look(ctx)
		if who == "" {
			break
		}
		if who != told {
			o.log.Info("another controller acts on this cluster; waiting until it ends", "leader", who)
			told = who
		}
		if err := clock.Sleep(ctx, o.clock, retryPeriod); err != nil {
			return nil //nolint:nilerr // it was to end, and had not begun
		}
	}
	leading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for clock.Sleep(leading, o.clock, retryPeriod) == nil {
			if who := o.look(leading); who != "" {
				cancel(&otherLeaderError{who})
			}
		}
	}()
	err := f(leading)
	if other := (*otherLeaderError)(nil); errors.As(context.Cause(leading), &other) {
		return errors.Join(other, err)
	}
	return err
}

// look is active, but for errors: who may not list Leases, or cannot at the moment, goes on as if there were none.
func (o *otherLeaders) look(ctx context.Context) string {
	who, err := o.active(ctx)
	if err != nil && ctx.Err() == nil {
		o.log.Warn("cannot tell whether another controller acts on this cluster", "error", err)
	}
	return who
}

// otherLeaderError says that this process gave way to another controller.
type otherLeaderError struct{ who string }

func (e *otherLeaderError) Error() string {
	return fmt.Sprintf("controller: another controller has begun to act on this cluster (%s); this one gives way and "+
		"waits until that one ends: run one of the two", e.who)
}
