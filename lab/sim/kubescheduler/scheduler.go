// Package kubescheduler simulates kube-scheduler: engine/rules filters the nodes, and the default resource scores
// rank them. It binds pods on virtual time for simulations (lab/sim) and forecasts (explain/whatif).
//
// It does not preempt pods, and supports no soft constraint except Options.SpreadShapes.
package kubescheduler

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Options vary the scores.
type Options struct {
	// MostAllocated prefers full nodes (scoringStrategy MostAllocated); the default prefers empty ones.
	MostAllocated bool
	// SpreadShapes subtracts 10 points from a node's score for each of its pods of the same shape. It stands in for the
	// default constraints of PodTopologySpread where pods of the same shape are replicas of one workload.
	SpreadShapes bool
}

// Scheduler is a kube-scheduler with its view of a cluster. Nodes are identified by their position: first the nodes
// of the snapshot, then those added later; Remove shifts the nodes behind the removed one. A Scheduler is not safe
// for concurrent use.
type Scheduler struct {
	o      Options
	shapes []model.Shape
	state  *rules.State
	nodes  []node
	next   int // where the next search begins
}

// node holds what a search reads of a node, kept together to suit CPU caches.
type node struct {
	index                  int // in the state
	schedulable            bool
	requested, allocatable [2]float64  // CPU and memory
	equal                  map[int]int // pods by shape; nil unless Options.SpreadShapes
}

// New returns a scheduler for the cluster of a snapshot. Pods of other shapes than the snapshot's must not be passed
// to it.
func New(s *model.Snapshot, o Options) *Scheduler {
	k := &Scheduler{o: o, shapes: s.Shapes, state: rules.NewState(s)}
	for i := range s.Nodes {
		k.observe(i, &s.Nodes[i])
	}
	return k
}

// Add appends a node. Its labels, taints and Allocatable must not change afterwards.
func (k *Scheduler) Add(n model.Node) { k.observe(k.state.AddNode(n), &n) }

func (k *Scheduler) observe(index int, n *model.Node) {
	x := node{
		index: index, schedulable: n.State == model.Initialized && !n.Deleting && !n.Cordoned,
		requested: scored(&n.Used), allocatable: scored(&n.Allocatable),
	}
	if k.o.SpreadShapes {
		x.equal = map[int]int{}
		for i := range n.Pods {
			x.equal[n.Pods[i].Shape]++
		}
	}
	k.nodes = append(k.nodes, x)
}

// Remove removes the node at a position.
func (k *Scheduler) Remove(at int) { k.nodes = slices.Delete(k.nodes, at, at+1) }

// SetSchedulable sets whether pods may be bound to the node.
func (k *Scheduler) SetSchedulable(at int, schedulable bool) { k.nodes[at].schedulable = schedulable }

// Allows reports whether the rules allow one more pod of the shape on the node, whether or not it is schedulable.
func (k *Scheduler) Allows(shape, at int) bool { return k.state.Allows(shape, k.nodes[at].index) == "" }

// Fits reports whether a pod of the shape can be bound to the node now.
func (k *Scheduler) Fits(shape, at int) bool { return k.nodes[at].schedulable && k.Allows(shape, at) }

// Reserve reserves room on the node for a nominated pod of the shape.
func (k *Scheduler) Reserve(shape, at int) { k.state.Bind(shape, k.nodes[at].index) }

// Release undoes one Reserve, for a pod that is about to be bound or is no longer nominated.
func (k *Scheduler) Release(shape, at int) { k.state.Unbind(shape, k.nodes[at].index) }

// Bind binds a pod of the shape to the node.
func (k *Scheduler) Bind(shape, at int) { k.move(shape, at, 1) }

// Unbind undoes one Bind.
func (k *Scheduler) Unbind(shape, at int) { k.move(shape, at, -1) }

func (k *Scheduler) move(shape, at, pods int) {
	x := &k.nodes[at]
	if pods > 0 {
		k.state.Bind(shape, x.index)
	} else {
		k.state.Unbind(shape, x.index)
	}
	for i, amount := range scored(&k.shapes[shape].Requests) {
		x.requested[i] += float64(pods) * amount
	}
	if x.equal != nil {
		x.equal[shape] += pods
	}
}

// Find returns the node to which kube-scheduler would bind a pod of the shape, or -1 if it fits on none: the first of
// the examined nodes with the highest score. In a cluster of more than 100 nodes, kube-scheduler stops once the pod
// fits on 50 % of the nodes less 1 % for each 125, but at least 5 % and 100 nodes (Kubernetes documentation,
// "Scheduler Performance Tuning", 2026). The next search begins where this one stopped.
func (k *Scheduler) Find(shape int) int {
	n := len(k.nodes)
	if n == 0 {
		return -1
	}
	enough := n
	if n > 100 {
		enough = max(n*max(50-n/125, 5)/100, 100)
	}
	k.next %= n // there may have been more nodes when the last search stopped
	request := scored(&k.shapes[shape].Requests)
	best, bestScore, found, looked := -1, int64(math.MinInt64), 0, 0
	for ; looked < n && found < enough; looked++ {
		at := k.next + looked
		if at >= n {
			at -= n
		}
		if !k.Fits(shape, at) {
			continue
		}
		found++
		if score := k.score(shape, &request, &k.nodes[at]); score > bestScore {
			best, bestScore = at, score
		}
	}
	k.next = (k.next + looked) % n
	return best
}

// score returns the sum of the scores of NodeResourcesFit and NodeResourcesBalancedAllocation, from 0 to 200, less
// the points that Options.SpreadShapes subtracts.
func (k *Scheduler) score(shape int, request *[2]float64, x *node) int64 {
	var part [2]float64 // the shares of CPU and memory that would be requested
	for i := range part {
		if x.allocatable[i] > 0 {
			part[i] = (x.requested[i] + request[i]) / x.allocatable[i]
		}
	}
	fit := int64(100 * (1 - (part[0]+part[1])/2))
	if k.o.MostAllocated {
		fit = 100 - fit
	}
	balanced := int64(100 * (1 - math.Abs(part[0]-part[1])/2)) // two values' standard deviation is half their distance
	return fit + balanced - 10*int64(x.equal[shape])
}

// scored returns the amounts that the scores depend on.
func scored(r *model.Resources) [2]float64 {
	return [2]float64{float64(r[model.CPU]), float64(r[model.Memory])}
}
