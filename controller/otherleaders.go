package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// lookPeriod is how often the Leases of all namespaces are listed.
const lookPeriod = 2 * time.Second

// otherLeaders finds controllers that lead by Karpenter's Lease in another namespace: a Karpenter that was installed
// in its own namespace, or one that is started again while Nodeless runs. Two controllers would each launch a node
// for the same pod.
type otherLeaders struct {
	kube  kubernetes.Interface
	own   types.NamespacedName // our Lease
	clock clock.Clock
	log   *slog.Logger
	seen  map[string]sighting // by namespace
}

// sighting is the content of a Lease and when it was first seen. As in leader election, clocks of different hosts are
// not compared: a holder that does not renew its Lease for the Lease's duration does not lead.
type sighting struct {
	holder  string
	renewed time.Time
	since   time.Time
}

// active names another controller that leads, "" if there is none. later reports whether this one leads too, and got
// its Lease first.
func (o *otherLeaders) active(ctx context.Context) (who string, later bool, err error) {
	leases, err := o.kube.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=" + rbac.KarpenterLease})
	if err != nil {
		return "", false, fmt.Errorf("list the Leases %s of all namespaces: %w", rbac.KarpenterLease, err)
	}
	var own *coordinationv1.Lease
	var others []*coordinationv1.Lease
	for i := range leases.Items {
		switch l := &leases.Items[i]; {
		case l.Name == o.own.Name && l.Namespace == o.own.Namespace:
			own = l
		case l.Name == rbac.KarpenterLease && o.holds(l):
			others = append(others, l)
			who = fmt.Sprintf("%s, by Lease %s in namespace %s", *l.Spec.HolderIdentity, l.Name, l.Namespace)
		}
	}
	later = own != nil && !slices.ContainsFunc(others, func(l *coordinationv1.Lease) bool { return precedes(l, own) })
	return who, later, nil
}

// precedes reports whether a Lease was acquired before another one. Every reader of the two gets the same answer,
// whatever the clocks that wrote them.
func precedes(a, b *coordinationv1.Lease) bool {
	if first, second := acquired(a), acquired(b); !first.Equal(second) {
		return first.Before(second)
	}
	return a.Namespace < b.Namespace
}

func acquired(l *coordinationv1.Lease) time.Time {
	if l.Spec.AcquireTime == nil {
		return time.Time{}
	}
	return l.Spec.AcquireTime.Time
}

// holds reports whether the holder of a Lease, if there is one, has renewed it within its duration.
func (o *otherLeaders) holds(l *coordinationv1.Lease) bool {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		delete(o.seen, l.Namespace) // released
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

// await waits until no other controller leads, and reports false if ctx ended first. The caller holds no Lease yet:
// two that wait would otherwise see each other's Lease and wait for ever.
func (o *otherLeaders) await(ctx context.Context) bool {
	told := ""
	for {
		who, _ := o.look(ctx)
		if who == "" {
			return ctx.Err() == nil
		}
		if who != told {
			o.log.Info("another controller acts on this cluster; waiting until it ends", "leader", who)
			told = who
		}
		if clock.Sleep(ctx, o.clock, lookPeriod) != nil {
			return false
		}
	}
}

// senior names another controller that this one has to give way to although it has just got its Lease, "" if there is
// none. Of several that awaited their turn and got their Leases at the same moment, the first stays: it holds its
// Lease for as long as the others need to give way. One that does not, such as Karpenter, is given way to.
func (o *otherLeaders) senior(ctx context.Context) string {
	for until := o.clock.Now().Add(leaseDuration); ; {
		who, later := o.look(ctx)
		if who == "" || !later || !o.clock.Now().Before(until) {
			return who
		}
		if clock.Sleep(ctx, o.clock, lookPeriod) != nil {
			return ""
		}
	}
}

// alone calls f unless it has to give way to another controller that leads, and cancels it when another one does.
func (o *otherLeaders) alone(ctx context.Context, f func(context.Context) error) error {
	if who := o.senior(ctx); who != "" {
		return &otherLeaderError{who}
	}
	if ctx.Err() != nil {
		return nil // it was to end, and had not begun
	}
	leading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for clock.Sleep(leading, o.clock, lookPeriod) == nil {
			if who, _ := o.look(leading); who != "" {
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

// look is like active but only logs errors: a process that cannot list Leases, for lack of permission or temporarily,
// proceeds as if no other controller led.
func (o *otherLeaders) look(ctx context.Context) (who string, later bool) {
	who, later, err := o.active(ctx)
	if err != nil && ctx.Err() == nil {
		o.log.Warn("cannot tell whether another controller acts on this cluster", "error", err)
	}
	return who, later
}

// otherLeaderError says that this process gave way to another controller.
type otherLeaderError struct{ who string }

func (e *otherLeaderError) Error() string {
	return fmt.Sprintf("controller: another controller has begun to act on this cluster (%s); this one gives way and "+
		"waits until that one ends: run one of the two", e.who)
}
