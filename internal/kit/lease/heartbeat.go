// Package lease keeps the leases of many Nodes, as a kubelet keeps one: without, kube-controller-manager calls a Node unknown.
package lease

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

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
	// often is how often a lease is renewed; kube-controller-manager calls a node unknown after 50 s
	// (--node-monitor-grace-period, Kubernetes 1.36). A kubelet renews every 10 s, which for 1,000 nodes on a laptop is most of
	// what an idle cluster would do.
	often = 30 * time.Second
	// writers is how many leases are written at the same time.
	writers = 8
)

// Node is one whose lease is to be kept.
type Node struct {
	Name string
	UID  types.UID // its lease goes with it
}

// Keeper keeps leases.
type Keeper struct {
	Client kubernetes.Interface
	Clock  clock.Clock
	Log    *slog.Logger
	Nodes  func() []Node // those that exist and live, in any order; called each second
}

// held is a node's lease as last written.
type held struct {
	lease *coordinationv1.Lease // so that a renewal is one write and no read
	due   time.Time
}

// Run renews each second the leases that are due, several at a time, until ctx is done. New nodes are due at once, and so are
// all after a restart; then each node has a period of its own, so that they spread out.
func (k Keeper) Run(ctx context.Context) {
	leases := map[string]*held{}
	tick := make(chan struct{}, 1)
	for ctx.Err() == nil {
		var wg sync.WaitGroup
		slots := make(chan struct{}, writers)
		for _, d := range k.due(leases) {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				if err := k.renew(ctx, d.Node, d.held); err != nil && ctx.Err() == nil {
					k.Log.Debug("lease not renewed", "node", d.Name, "error", err)
				}
			})
		}
		wg.Wait()
		timer := k.Clock.AfterFunc(time.Second, func() { tick <- struct{}{} })
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-tick:
		}
	}
}

type due struct {
	Node
	*held
}

// due are the leases to be renewed now, by name; those of nodes that went are forgotten.
func (k Keeper) due(leases map[string]*held) []due {
	now := k.Clock.Now()
	there := map[string]bool{}
	var out []due
	for _, n := range k.Nodes() {
		there[n.Name] = true
		h := leases[n.Name]
		if h == nil {
			h = &held{}
			leases[n.Name] = h
		}
		if !h.due.After(now) {
			out = append(out, due{n, h})
		}
	}
	maps.DeleteFunc(leases, func(name string, _ *held) bool { return !there[name] })
	slices.SortFunc(out, func(a, b due) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// period is how long a node's lease lasts until it is renewed: between two thirds of the heartbeat and all of it.
func period(name string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return often*2/3 + time.Duration(h.Sum32()%1000)*often/3000
}

// renew writes a node's lease, and makes it if there is none.
func (k Keeper) renew(ctx context.Context, node Node, h *held) error {
	api := k.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := ptr.To(metav1.NewMicroTime(k.Clock.Now()))
	lease := h.lease
	if lease == nil {
		fresh := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
			}}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &node.Name, RenewTime: now,
				LeaseDurationSeconds: ptr.To(int32(40)), // a kubelet's default
			},
		}
		made, err := api.Create(ctx, fresh, metav1.CreateOptions{})
		if err == nil {
			h.lease, h.due = made, now.Add(period(node.Name))
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if lease, err = api.Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	lease = lease.DeepCopy()
	lease.Spec.RenewTime = now
	updated, err := api.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		h.lease = nil // read it anew
		return err
	}
	h.lease, h.due = updated, now.Add(period(node.Name))
	return nil
}
