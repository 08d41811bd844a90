package watcher

import (
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/view"
)

// rooms decides how many addresses nodes have for pods: the VPC CNI's settings do, or without it nodes' own ranges.
type rooms struct {
	mu    sync.Mutex
	nodes map[string]*ranged // by name
	known bool               // the rest is known
	there bool               // there is a VPC CNI
	cni   *catalog.CNI       // its settings; nil if they do not decide
}

// ranged is a Node before it is known how many addresses it has for pods.
type ranged struct {
	*view.Node
	inRange int64 // addresses for pods in its own range; 0 if it has none
}

// reservedInRange is how many addresses of a node's pod CIDR no pod gets: those of the network, its gateway and its
// broadcast. Source: github.com/containernetworking/plugins, host-local.
const reservedInRange = 3

// inRange returns how many IPv4 addresses for pods a node's pod CIDRs have.
func inRange(cidrs []string) int64 {
	for _, cidr := range cidrs {
		if p, err := netip.ParsePrefix(cidr); err == nil && p.Addr().Is4() {
			return max(int64(1)<<(32-p.Bits())-reservedInRange, 0)
		}
	}
	return 0
}

// of returns how many addresses a node has for pods; 0 if unknown.
func (r *rooms) of(n *ranged) int64 {
	switch {
	case n.Labels[corev1.LabelOSStable] == string(corev1.Windows):
	case r.known && !r.there:
		return n.inRange
	case r.cni != nil && n.Labels[eksv1.LabelComputeType] == "": // EKS Auto Mode and Fargate do not use it
		if t, ok := catalog.Lookup(n.Labels[corev1.LabelInstanceTypeStable]); ok && !t.NoENIs() {
			return int64(r.cni.PodAddresses(t))
		}
	}
	return 0
}

// setNode gives the model a Node with its addresses. The lock is held, so that the last one counts.
func (f *Feed) setNode(n *ranged) {
	out := *n.Node
	if out.Allocatable != (view.Amounts{}) { // otherwise its NodeClaim says what it offers
		out.Allocatable[view.Addresses] = f.rooms.of(n)
	}
	f.o.Model.SetNode(&out)
}

func (f *Feed) nodeSeen(old, now any) {
	f.rooms.mu.Lock()
	defer f.rooms.mu.Unlock()
	if n, ok := now.(*ranged); ok {
		f.rooms.nodes[n.Name] = n
		f.setNode(n)
	} else if n, ok := old.(*ranged); ok {
		delete(f.rooms.nodes, n.Name)
		f.o.Model.DeleteNode(n.Name)
	}
}

// cniSeen follows the VPC CNI's DaemonSet.
func (f *Feed) cniSeen(_, now any) {
	f.rooms.mu.Lock()
	defer f.rooms.mu.Unlock()
	cni, there := now.(*catalog.CNI)
	f.setCNI(there, cni)
}

// cniFilled notes that there is no VPC CNI if none has been seen.
func (f *Feed) cniFilled() {
	f.rooms.mu.Lock()
	defer f.rooms.mu.Unlock()
	if !f.rooms.known {
		f.setCNI(false, nil)
	}
}

func (f *Feed) setCNI(there bool, cni *catalog.CNI) {
	r := &f.rooms
	if r.known && there == r.there && (cni == r.cni || cni != nil && r.cni != nil && *cni == *r.cni) {
		return // most changes are of the DaemonSet's status
	}
	r.known, r.there, r.cni = true, there, cni
	for _, n := range r.nodes {
		f.setNode(n)
	}
}
