package scheduler

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// record is the state of one pod. It exists as long as the pod, its NodeClaim or its Node does, and can be rebuilt
// from the API server and the hosts.
type record struct {
	key       types.NamespacedName // of the pod; zero before it is seen and after it is gone
	waiting   bool                 // for a host
	failures  int                  // consecutive failed attempts to start the microVM
	retryAt   time.Time            // when to retry the start
	stopGrace *int64               // grace period in seconds of the last Stop
	claim     *reservation         // from the choice of a host until the NodeClaim is gone
	over      bool                 // none of the pod's containers runs or will
	address   netip.Addr           // of the microVM, once its host has returned it
	node      string               // name of the Node
	writes    *rate.Limiter        // of the pod's status; nil before the first
}

// reservation is the capacity of a pod on a host.
type reservation struct {
	host, profile string
	size          fargate.Size
	over          bool // as the pod: only its address, disk and logs are left
}

// spec returns the microVM to run on the reservation's host.
func (r *reservation) spec(pod *corev1.Pod) microvm.Spec {
	return microvm.Spec{ID: vmID(pod.UID), Pod: pod, Size: r.size, Profile: r.profile}
}

// records holds a record per pod.
type records struct {
	mu    sync.Mutex
	byUID map[types.UID]*record
}

func newRecords() *records { return &records{byUID: map[types.UID]*record{}} }

// get returns a copy of a pod's record, the zero value if there is none.
func (r *records) get(uid types.UID) record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.byUID[uid]; p != nil {
		return *p
	}
	return record{}
}

// update changes a pod's record, and drops it if its pod, NodeClaim and Node are all gone.
func (r *records) update(uid types.UID, change func(*record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updateLocked(uid, change)
}

func (r *records) updateLocked(uid types.UID, change func(*record)) {
	p := r.byUID[uid]
	if p == nil {
		p = &record{}
		r.byUID[uid] = p
	}
	change(p)
	if p.key == (types.NamespacedName{}) && p.claim == nil && p.node == "" {
		delete(r.byUID, uid)
	}
}

// podGone forgets a pod and reports whether it still has a reservation.
func (r *records) podGone(uid types.UID) (reserved bool) {
	r.update(uid, func(p *record) {
		*p = record{claim: p.claim, over: p.over, address: p.address, node: p.node}
		reserved = p.claim != nil
	})
	return reserved
}

// stopWaiting marks a pod as not waiting for a host.
func (r *records) stopWaiting(uid types.UID) { r.update(uid, func(p *record) { p.waiting = false }) }

// claimed records the reservation that a NodeClaim represents.
func (r *records) claimed(claim *karpv1.NodeClaim) {
	r.update(podUID(claim), func(p *record) {
		p.claim = &reservation{
			host: claim.Labels[labelHost], profile: claim.Labels[fargate.ProfileLabel],
			size: fargate.SizeOf(claim.Spec.Resources.Requests),
		}
	})
}

// reserve makes for a pod the reservation that choose returns, if any. It is atomic: choose sees all other
// reservations, and none is added meanwhile.
func (r *records) reserve(uid types.UID, choose func(others []reservation) *reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if chosen := choose(r.reservationsLocked()); chosen != nil {
		r.updateLocked(uid, func(p *record) { p.claim = chosen })
	}
}

// reservations returns the reservations of all pods.
func (r *records) reservations() []reservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reservationsLocked()
}

func (r *records) reservationsLocked() []reservation {
	var all []reservation
	for _, p := range r.byUID {
		if p.claim != nil {
			one := *p.claim
			one.over = p.over
			all = append(all, one)
		}
	}
	return all
}

// each returns the records for which want is true.
func (r *records) each(want func(record) bool) map[types.UID]record {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[types.UID]record{}
	for uid, p := range r.byUID {
		if want(*p) {
			out[uid] = *p
		}
	}
	return out
}

// onHost returns the records of pods with a reservation on a host.
func (r *records) onHost(name string) map[types.UID]record {
	return r.each(func(p record) bool { return p.claim != nil && p.claim.host == name })
}

// podSeen records a pod's key, and reports whether the pod has ended since it was last seen.
func (r *records) podSeen(pod *corev1.Pod) (ended bool) {
	r.update(pod.UID, func(p *record) {
		p.key = client.ObjectKeyFromObject(pod)
		ended = terminal(pod) && !p.over
		p.over = terminal(pod)
	})
	return ended
}

// A guest can change its pod's status at any rate. This many changes in a row are written at once, later ones together,
// once per pause.
const (
	statusBurst = 5
	statusPause = 200 * time.Millisecond
)

// pace returns how long the pod's status must not be written; 0 if it may be written now, which counts as a write.
func (r *records) pace(uid types.UID, now time.Time) (wait time.Duration) {
	r.update(uid, func(p *record) {
		if p.writes == nil {
			p.writes = rate.NewLimiter(rate.Every(statusPause), statusBurst)
		}
		next := p.writes.ReserveN(now, 1)
		if wait = next.DelayFrom(now); wait > 0 {
			next.CancelAt(now)
		}
	})
	return wait
}

// used sums the reservations for which want is true. As with kube-scheduler, a pod that is over uses no CPU and no
// memory.
func used(all []reservation, want func(reservation) bool) (sum fargate.Size, pods int) {
	for _, r := range all {
		if !want(r) {
			continue
		}
		pods++
		if !r.over {
			sum = sum.Add(r.size)
		}
	}
	return sum, pods
}
