package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/kubescheduler"
)

// node is a node from launch to termination, together with its instance and NodeClaim.
type node struct {
	model.Node  // Pods is replaced, never modified: snapshots share it
	seq         int
	pods        []int32 // in the order of Pods
	daemons     model.Resources
	launched    time.Duration
	idleSince   time.Duration // when the last pod left
	schedulable bool          // kube-scheduler may bind pods to it
	removedBy   *command
	replaces    *command // the command that launched it as a replacement, until it is ready
	interrupted bool     // by the cloud
	stale       bool     // cluster.shown holds an older version
}

// leaving reports whether the node is being removed or interrupted, so that its pods must move.
func (n *node) leaving() bool { return n.removedBy != nil || n.interrupted }

// cluster holds the nodes that exist and the pods that are not on one.
type cluster struct {
	nodes     []*node                  // by seq, hence by name
	scheduler *kubescheduler.Scheduler // holds the nodes at the same positions
	shown     []model.Node             // the nodes as snapshots show them, except for stale ones
	stale     []*node
	launches  int // so far
	waiting   []int32
	absent    []int32 // evicted pods whose successors have not been created yet
	leaving   int     // nodes for which leaving is true
	usage     model.Resources
}

// namePrefix is the prefix of node names; the node's number follows.
const namePrefix = "node-"

// position returns the node's index in cluster.nodes.
func (c *cluster) position(n *node) int {
	i, _ := c.search(n.seq)
	return i
}

func (c *cluster) search(seq int) (int, bool) {
	return slices.BinarySearchFunc(c.nodes, seq, func(n *node, seq int) int { return n.seq - seq })
}

// named returns the node with this name, or nil if it does not exist.
func (c *cluster) named(name string) *node {
	seq, err := strconv.Atoi(strings.TrimPrefix(name, namePrefix))
	if i, found := c.search(seq); err == nil && found {
		return c.nodes[i]
	}
	return nil
}

func (c *cluster) exists(n *node) bool {
	_, found := c.search(n.seq)
	return found
}

// add adds a node in flight. labels are the labels it will have once it is ready.
func (c *cluster) add(n *node, labels model.Requirements) {
	n.seq = c.launches
	c.launches++
	n.Name = fmt.Sprintf("%s%08d", namePrefix, n.seq)
	n.Claim = n.Name
	c.nodes, c.shown = append(c.nodes, n), append(c.shown, model.Node{})
	ready := n.Node
	ready.State, ready.Labels = model.Initialized, labels
	c.scheduler.Add(ready)
	c.setSchedulable(n, false)
	c.usage = c.usage.Plus(n.Capacity)
}

func (c *cluster) remove(n *node) {
	i := c.position(n)
	c.nodes, c.shown = slices.Delete(c.nodes, i, i+1), slices.Delete(c.shown, i, i+1)
	c.scheduler.Remove(i)
	c.usage = c.usage.Minus(n.Capacity)
	n.schedulable = false
}

// setSchedulable sets whether kube-scheduler may bind pods to the node.
func (c *cluster) setSchedulable(n *node, schedulable bool) {
	n.schedulable = schedulable
	c.scheduler.SetSchedulable(c.position(n), schedulable)
	c.touch(n)
}

// touch marks the node as changed.
func (c *cluster) touch(n *node) {
	if !n.stale {
		n.stale = true
		c.stale = append(c.stale, n)
	}
}

// show updates the shown nodes and returns them. Nodes being removed or interrupted are shown without their pods.
func (c *cluster) show() []model.Node {
	for _, n := range c.stale {
		n.stale = false
		i, found := c.search(n.seq)
		if !found {
			continue
		}
		x := &c.shown[i]
		if *x = n.Node; n.leaving() {
			x.Pods, x.Used = nil, n.daemons
		}
	}
	c.stale = c.stale[:0]
	return c.shown
}
