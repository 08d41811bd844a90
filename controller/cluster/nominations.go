package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// nominated is how long a node stays needed after the last plan that placed a pod there, and how long the successor
// of an evicted pod is awaited: in between there is a moment in which no pod waits
// (sigs.k8s.io/karpenter/pkg/controllers/disruption, at least 10 s).
const nominated = 10 * time.Second

// nominations records where plans place pods. nominees are the nodes, by their names in snapshots: the zero time
// while the newest plan nominates a node, otherwise the time until which it still counts.
type nominations struct {
	*hub
	objects    *objects
	nodes      *nodes
	pods       *pods
	nominees   map[string]time.Time
	promised   map[model.PodKey]string   // NodeClaims of nodes that are not ready yet
	promisedOn map[string][]model.PodKey // by NodeClaim, nil = to be made
	arrivals   []arrival                 // since the newest plan
}

// arrival is a pod that was created, and the expected pod whose place it takes.
type arrival struct{ expected, came model.PodKey }

// inherits gives the pod that came the place of the expected one, and reports whether that has one.
func (a arrival) inherits(promised map[model.PodKey]string) bool {
	claim, ok := promised[a.expected]
	if ok {
		delete(promised, a.expected)
		promised[a.came] = claim
	}
	return ok
}

// Nominate records on which nodes the newest plan places pods, by their names in the snapshot, and, for each waiting
// pod that has its place on a node that is not ready yet, the node's NodeClaim. It keeps promised.
func (nm *nominations) Nominate(names map[string]bool, promised map[model.PodKey]string) {
	nm.mu.Lock()
	defer nm.mu.Unlock()
	for _, a := range nm.arrivals {
		if _, known := promised[a.came]; !known && nm.pods.waits(a.came) { // it came while the plan was made
			a.inherits(promised)
		}
	}
	nm.arrivals = nil
	if !maps.Equal(nm.promised, promised) {
		nm.promised, nm.promisedOn, nm.stalePending = promised, nil, true
	}
	now := nm.clock.Now()
	for name, until := range nm.nominees {
		switch {
		case names[name]:
		case until.IsZero():
			nm.nominees[name] = now.Add(nominated)
			nm.nodes.stale = true
		case !now.Before(until):
			delete(nm.nominees, name)
		}
	}
	for name := range names {
		nm.nominees[name] = time.Time{}
	}
}

// Promised returns the pods that the newest plan places on the claim's node, by namespace and name.
func (nm *nominations) Promised(claim string) []model.PodKey {
	nm.mu.Lock()
	defer nm.mu.Unlock()
	if nm.promisedOn == nil {
		nm.promisedOn = map[string][]model.PodKey{}
		for pod, on := range nm.promised {
			nm.promisedOn[on] = append(nm.promisedOn[on], pod)
		}
		for _, pods := range nm.promisedOn {
			slices.SortFunc(pods, func(a, b model.PodKey) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
		}
	}
	return nm.promisedOn[claim]
}

// Contested reports whether pods other than those planned for the claim's node may take it: others wait, and not all
// waiting pods are alike. Among pods that are alike, whichever comes first may have the node, since the next node
// that becomes ready is as good for the rest.
func (nm *nominations) Contested(claim string) bool {
	nm.mu.Lock()
	defer nm.mu.Unlock()
	others, alike := false, true
	for _, p := range nm.pods.waiting {
		others = others || nm.promised[p.Key] != claim
		alike = alike && p.shape.like(nm.pods.waiting[0].shape)
		if others && !alike {
			return true
		}
	}
	return false
}

// inherit gives the place of an expected pod to the pod that was created, also if a plan in progress is about to give
// the expected pod a place.
func (nm *nominations) inherit(expected, came model.PodKey) {
	a := arrival{expected, came}
	if len(nm.arrivals) < maxExpected {
		nm.arrivals = append(nm.arrivals, a)
	}
	if a.inherits(nm.promised) {
		nm.promisedOn = nil
	}
}

// promisedNode returns the node on which the newest plan places the pod, if that node is not ready yet.
func (nm *nominations) promisedNode(key model.PodKey) string {
	if claim, ok := nm.promised[key]; ok {
		if m := nm.nodes.ofClaim(claim); m != nil {
			return m.name()
		}
	}
	return ""
}

// nominated returns the node on which a waiting pod has its place, by the node's name in snapshots; "" for none. If
// no plan of this process has placed the pod, its nomination by a former process counts as long as the Node is not
// ready.
func (nm *nominations) nominated(p *pod) string {
	if _, ok := nm.promised[p.Key]; ok {
		return nm.promisedNode(p.Key)
	}
	if o := nm.objects.pods.live[types.NamespacedName{Namespace: p.Key.Namespace, Name: p.Key.Name}]; o != nil {
		if m := nm.nodes.byName[o.Status.NominatedNodeName]; m != nil && m.base.State == model.Registered {
			return m.name()
		}
	}
	return ""
}
