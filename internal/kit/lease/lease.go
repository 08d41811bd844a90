// Package lease renews the leases of many Nodes, as a kubelet renews its own. Without renewal kube-controller-manager
// marks a Node as unknown.
package lease

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

const (
	// renewInterval is the longest time between renewals of a lease. kube-controller-manager marks a Node as unknown
	// after 50 s (--node-monitor-grace-period, Kubernetes 1.36). A kubelet renews every 10 s; for 1,000 Nodes on a
	// laptop that would be most of the work of an idle cluster.
	renewInterval = 30 * time.Second
	// writers is how many leases are written concurrently.
	writers = 8
)

// Node is a Node whose lease is renewed.
type Node struct {
	Name string
	UID  types.UID // the owner of the lease
}

// Renewer renews leases.
type Renewer struct {
	Client kubernetes.Interface
	Clock  clock.Clock
	Log    *slog.Logger
	Nodes  func() []Node // the Nodes that are alive, in any order; called every second
}

// renewal is the lease of one Node as last written.
type renewal struct {
	node  Node
	lease *coordinationv1.Lease // kept so that a renewal is one write and no read
	due   time.Time
}

// Run renews the leases that are due every second, several at a time, until ctx is done. After a restart all are due,
// and a new Node's lease is due at once; afterwards each Node has its own period, which spreads the writes out.
func (r Renewer) Run(ctx context.Context) {
	leases := map[string]*renewal{}
	for ctx.Err() == nil {
		var group errgroup.Group
		group.SetLimit(writers)
		for _, due := range r.due(leases) {
			group.Go(func() error {
				if err := r.renew(ctx, due); err != nil && ctx.Err() == nil {
					r.Log.Debug("lease not renewed", "node", due.node.Name, "error", err)
				}
				return nil
			})
		}
		_ = group.Wait() // failures are logged and tried again
		_ = clock.Sleep(ctx, r.Clock, time.Second)
	}
}

// due returns the leases to renew now, by name, and forgets those of Nodes that no longer exist.
func (r Renewer) due(leases map[string]*renewal) []*renewal {
	now, alive := r.Clock.Now(), map[string]bool{}
	var out []*renewal
	for _, n := range r.Nodes() {
		alive[n.Name] = true
		one := leases[n.Name]
		if one == nil {
			one = &renewal{}
			leases[n.Name] = one
		}
		if one.node = n; !one.due.After(now) {
			out = append(out, one)
		}
	}
	maps.DeleteFunc(leases, func(name string, _ *renewal) bool { return !alive[name] })
	slices.SortFunc(out, func(a, b *renewal) int { return cmp.Compare(a.node.Name, b.node.Name) })
	return out
}

// period returns the time between renewals of a Node's lease, from two thirds of renewInterval to all of it.
func period(name string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return renewInterval*2/3 + time.Duration(h.Sum32()%1000)*renewInterval/3000
}

// renew writes a Node's lease, and creates it if there is none.
func (r Renewer) renew(ctx context.Context, one *renewal) error {
	api, name := r.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease), one.node.Name
	now := ptr.To(metav1.NewMicroTime(r.Clock.Now()))
	written, err := r.write(ctx, one, now)
	if apierrors.IsAlreadyExists(err) {
		if one.lease, err = api.Get(ctx, name, metav1.GetOptions{}); err == nil {
			written, err = r.write(ctx, one, now)
		}
	}
	if err != nil {
		one.lease = nil // read it again
		return err
	}
	one.lease, one.due = written, now.Add(period(name))
	return nil
}

// write updates the known lease, or creates one.
func (r Renewer) write(ctx context.Context, one *renewal, now *metav1.MicroTime) (*coordinationv1.Lease, error) {
	api := r.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if one.lease != nil {
		lease := one.lease.DeepCopy()
		lease.Spec.RenewTime = now
		return api.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return api.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: one.node.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: one.node.Name, UID: one.node.UID,
		}}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &one.node.Name, RenewTime: now,
			LeaseDurationSeconds: ptr.To(int32(40)), // a kubelet's default
		},
	}, metav1.CreateOptions{})
}
