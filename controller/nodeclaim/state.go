package nodeclaim

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
)

// pendingState is what is kept between reconciliations, one record per object. All of it may be lost: the next
// process recovers it from the objects and the cloud. The collector drops the records of objects that are gone.
type pendingState struct {
	claims    records[types.UID, claimState]
	instances records[string, instanceState] // by the cloud's ID
	nodes     records[string, nodeState]     // by name
	pods      records[types.UID, eviction]
}

// claimState is the state kept for one NodeClaim.
//
// A claim passes through these states. Conditions and objects hold them, so that any process can continue; the fields
// on the right bridge the time until they are written or observed:
//
//	State        | Is seen by                      | Remembered meanwhile
//	-------------+---------------------------------+-----------------------------------------
//	new          | no condition Launched           |
//	launching    | no condition Launched           | attempted; mayHaveInstance once the cloud is asked
//	launched     | Launched                        | launched, until it is written
//	registered   | Registered, status.nodeName     | nodeMissingSince, while that Node is not there
//	initialized  | Initialized                     | drift, comparedAt
//	interrupted  | annotation interrupted          | replacements.plans
//	deleting     | deletionTimestamp               | deletedAt, until it is seen
//	terminating  | deletionTimestamp, no Node      | searchedSince, while an unrecorded instance is looked for
type claimState struct {
	attempted       bool                // the launch queue is working on it, and retries failures
	mayHaveInstance bool                // a call may have started an instance that is not recorded
	launched        *cloud.LaunchResult // not written to the claim yet

	searchedSince    time.Time // when a search for its instance first found none
	nodeMissingSince time.Time // when its registered Node was first missing
	comparedAt       time.Time // when its Node was last compared with what the launch promised
	deletedAt        time.Time // when its deletion was requested
	drift            driftCheck
}

// launching records that the cloud is about to be asked for an instance. An instance launched from the class as it is
// now has not drifted from it. This is recorded before the launch, so that a change of the class in the meantime
// triggers a question to the cloud.
func (s *claimState) launching(now time.Time) {
	if !s.mayHaveInstance {
		s.drift.asked, s.drift.answered = now, true
	}
	s.mayHaveInstance = true
}

// instanceState is the state of one instance.
type instanceState struct {
	gone         bool // according to the cloud
	terminations int  // how often its termination was requested
}

// nodeState is the state of one Node.
type nodeState struct {
	podEvent      time.Time // when a pod was last added or removed
	refusesSince  time.Time // since when it refuses new pods; zero = it accepts them
	deadlineNoted bool      // an event has said when its pods will be deleted
}

// records holds one record per object. It is the only owner of its records: get returns a copy, and update is the
// only way to change one. The function passed to update runs under the lock; it must neither block nor use any
// records itself. The zero value is ready to use and safe for concurrent use.
type records[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]*V
}

// get returns a copy of the record, or the zero value.
func (r *records[K, V]) get(key K) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.all[key]; v != nil {
		return *v
	}
	var none V
	return none
}

// update changes the record, creating it if necessary, and returns a copy of the result.
func (r *records[K, V]) update(key K, change func(*V)) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[K]*V{}
	}
	v := r.all[key]
	if v == nil {
		v = new(V)
		r.all[key] = v
	}
	change(v)
	return *v
}

// drop removes the records for which when returns true.
func (r *records[K, V]) drop(when func(K, *V) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.all, when)
}

// forget removes one record.
func (r *records[K, V]) forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
}

// forgetClaim drops the records of a deleted claim and of its instance.
func (s *pendingState) forgetClaim(uid types.UID, id string) {
	if was := s.claims.get(uid); id == "" && was.launched != nil {
		id = was.launched.Instance.ID
	}
	s.claims.forget(uid)
	s.instances.forget(id)
}

// living are the objects that records may describe.
type living struct {
	claims, pools    map[types.UID]bool
	nodes, instances map[string]bool
}

// retain drops the records of objects that are gone.
func (s *pendingState) retain(l living) {
	s.claims.drop(func(uid types.UID, c *claimState) bool {
		if c.launched != nil && l.claims[uid] {
			l.instances[c.launched.Instance.ID] = true
		}
		return !l.claims[uid]
	})
	s.instances.drop(func(id string, _ *instanceState) bool { return !l.instances[id] })
	s.nodes.drop(func(name string, _ *nodeState) bool { return !l.nodes[name] })
}

// living lists the existing objects. It reads the cache that feeds the queues, so that it misses no object that they
// know.
func (o *objects) living(ctx context.Context) (living, error) {
	l := living{map[types.UID]bool{}, map[types.UID]bool{}, map[string]bool{}, map[string]bool{}}
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	var pools karpv1.NodePoolList
	for _, list := range []client.ObjectList{&claims, &nodes, &pools} {
		if err := o.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return l, fmt.Errorf("list what is remembered: %w", err)
		}
	}
	for i := range claims.Items {
		l.claims[claims.Items[i].UID] = true
		l.instances[catalog.InstanceID(claims.Items[i].Status.ProviderID)] = true
	}
	for i := range nodes.Items {
		l.nodes[nodes.Items[i].Name] = true
		l.instances[catalog.InstanceID(nodes.Items[i].Spec.ProviderID)] = true
	}
	for i := range pools.Items {
		l.pools[pools.Items[i].UID] = true
	}
	return l, nil
}
