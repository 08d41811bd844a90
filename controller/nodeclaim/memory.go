package nodeclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// memory is what is remembered between looks. All of it can be lost: the next process finds it again from the objects and
// the cloud. What belongs to objects that are gone is swept out now and then.
type memory struct {
	launched map[types.UID]cloud.LaunchResult // until it is written on the claim
	tried    map[types.UID]bool               // launches that their queue has in hand: those that fail are tried again
	sent     map[types.UID]bool               // launches of which nobody knows whether they started a machine
	looked   map[types.UID]time.Time          // when the machine of such a claim was first looked for in vain
	failed   map[types.UID]bool               // the cloud said no: there is no machine to look for
	drifts   map[types.UID]driftCheck         // what was last found out about drift
	deleted  map[types.UID]time.Time          // when the end of a claim was asked for
	missed   map[types.UID]time.Time          // when a registered claim's Node was first not there
	checked  map[types.UID]time.Time          // when a claim's machine was last compared with what was expected of it

	gone  map[string]bool // machine IDs of which the cloud says that they are gone
	polls map[string]int  // machine ID → how often its end was asked for

	podEvents map[string]time.Time // Node name → when a pod came or went
	refusals  map[string]refusal   // Node name → since when it refuses pods

	evictions map[types.UID]attempt // pods
	templates map[types.UID]template
	prospects map[string]prospect // claims that are interrupted
}

func newMemory() memory {
	return memory{
		launched: map[types.UID]cloud.LaunchResult{}, tried: map[types.UID]bool{}, sent: map[types.UID]bool{}, looked: map[types.UID]time.Time{},
		failed: map[types.UID]bool{}, drifts: map[types.UID]driftCheck{}, deleted: map[types.UID]time.Time{}, checked: map[types.UID]time.Time{}, missed: map[types.UID]time.Time{},
		gone: map[string]bool{}, polls: map[string]int{}, podEvents: map[string]time.Time{}, refusals: map[string]refusal{},
		evictions: map[types.UID]attempt{}, templates: map[types.UID]template{}, prospects: map[string]prospect{},
	}
}

// forget drops what was remembered of a claim that is gone, and of its machine.
func (l *Lifecycle) forget(uid types.UID, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == "" {
		id = l.launched[uid].Instance.ID
	}
	l.forgetClaim(uid)
	delete(l.gone, id)
	delete(l.polls, id)
}

func (m *memory) forgetClaim(uid types.UID) {
	delete(m.launched, uid)
	delete(m.tried, uid)
	delete(m.sent, uid)
	delete(m.looked, uid)
	delete(m.failed, uid)
	delete(m.drifts, uid)
	delete(m.deleted, uid)
	delete(m.checked, uid)
	delete(m.missed, uid)
}

// sweep drops what is remembered of objects that are gone without anybody having noticed: a claim without finalizer, a
// Node without claim, a pod deleted by hand. It must not miss an object, so it reads the cache that fed the queues.
func (l *Lifecycle) sweep(ctx context.Context) error {
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	var pools karpv1.NodePoolList
	for _, list := range []client.ObjectList{&claims, &nodes, &pools} {
		if err := l.o.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list for the sweep: %w", err)
		}
	}
	uids, names, machines := map[types.UID]bool{}, map[string]bool{}, map[string]bool{}
	for i := range claims.Items {
		uids[claims.Items[i].UID] = true
		machines[machineID(claims.Items[i].Status.ProviderID)] = true
	}
	for i := range nodes.Items {
		names[nodes.Items[i].Name] = true
		machines[machineID(nodes.Items[i].Spec.ProviderID)] = true
	}
	for i := range pools.Items {
		uids[pools.Items[i].UID] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, got := range l.launched {
		machines[got.Instance.ID] = true
	}
	l.keep(uids, names, machines)
	return nil
}

// keep drops all but what belongs to these claims and pools, Nodes and machines.
func (m *memory) keep(uids map[types.UID]bool, nodes, machines map[string]bool) {
	only(m.launched, uids)
	only(m.tried, uids)
	only(m.sent, uids)
	only(m.looked, uids)
	only(m.failed, uids)
	only(m.drifts, uids)
	only(m.deleted, uids)
	only(m.checked, uids)
	only(m.missed, uids)
	only(m.templates, uids)
	only(m.gone, machines)
	only(m.polls, machines)
	only(m.podEvents, nodes)
	only(m.refusals, nodes)
}

func only[K comparable, V any](m map[K]V, wanted map[K]bool) {
	for k := range m {
		if !wanted[k] {
			delete(m, k)
		}
	}
}
