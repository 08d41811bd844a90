package nodesim

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// held is a node's lease as last written.
type held struct {
	lease *coordinationv1.Lease // so that a renewal is one write and no read
	due   time.Time
}

// keepLeases renews each second the node leases that are due, several at a time. New nodes are due at once, and so are all
// after a restart; then each node has a period of its own, so that they spread out.
func (s *Simulator) keepLeases(ctx context.Context) {
	leases := map[string]*held{}
	tick := make(chan struct{}, 1)
	for ctx.Err() == nil {
		var wg sync.WaitGroup
		slots := make(chan struct{}, leaseWriters)
		for _, h := range s.dueLeases(leases) {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				if err := s.renewLease(ctx, h.name, h.held); err != nil && ctx.Err() == nil {
					s.o.Log.Debug("node simulator: lease not renewed", "node", h.name, "error", err)
				}
			})
		}
		wg.Wait()
		s.o.Clock.AfterFunc(time.Second, func() { tick <- struct{}{} })
		select {
		case <-ctx.Done():
		case <-tick:
		}
	}
}

// leaseWriters is how many leases are written at the same time.
const leaseWriters = 8

type dueLease struct {
	name string
	*held
}

// dueLeases are the leases to be renewed now, by name; those of nodes that went are forgotten.
func (s *Simulator) dueLeases(leases map[string]*held) []dueLease {
	now := s.o.Clock.Now()
	running := map[string]bool{}
	var due []dueLease
	for _, name := range s.runningNodes() {
		running[name] = true
		h := leases[name]
		if h == nil {
			h = &held{}
			leases[name] = h
		}
		if !h.due.After(now) {
			due = append(due, dueLease{name, h})
		}
	}
	maps.DeleteFunc(leases, func(name string, _ *held) bool { return !running[name] })
	slices.SortFunc(due, func(a, b dueLease) int { return cmp.Compare(a.name, b.name) })
	return due
}

// period is how long a node's lease lasts until it is renewed: between two thirds of the heartbeat and all of it.
func period(name string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return heartbeat*2/3 + time.Duration(h.Sum32()%1000)*heartbeat/3000
}

// runningNodes are the names of Nodes that exist and whose machine runs.
func (s *Simulator) runningNodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.booted))
	for name, m := range s.booted {
		if _, err := s.nodes.Get(name); err == nil && !m.ending {
			names = append(names, name)
		}
	}
	for name := range s.others {
		if s.booted[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// renewLease writes a node's lease, and makes it if there is none.
func (s *Simulator) renewLease(ctx context.Context, name string, h *held) error {
	api := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := ptr.To(metav1.NewMicroTime(s.o.Clock.Now()))
	lease := h.lease
	if lease == nil {
		node, err := s.nodes.Get(name)
		if apierrors.IsNotFound(err) {
			return nil // it goes, and its lease with it
		}
		if err != nil {
			return err
		}
		fresh := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID,
			}}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &name, RenewTime: now,
				LeaseDurationSeconds: ptr.To(int32(40)), // a kubelet's default
			},
		}
		made, err := api.Create(ctx, fresh, metav1.CreateOptions{})
		if err == nil {
			h.lease, h.due = made, now.Add(period(name))
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if lease, err = api.Get(ctx, name, metav1.GetOptions{}); err != nil {
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
	h.lease, h.due = updated, now.Add(period(name))
	return nil
}
