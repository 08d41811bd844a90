package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// dims are the resources that pods of traces ask for.
var dims = [...]int{model.CPU, model.Memory, model.Pods, model.NvidiaGPU}

// vector is an amount of each of the dims.
type vector [len(dims)]int64

func vectorOf(r *model.Resources) (v vector) {
	for i, d := range dims {
		v[i] = r[d]
	}
	return v
}

func (v *vector) fits(free *vector) bool {
	return v[0] <= free[0] && v[1] <= free[1] && v[2] <= free[2] && v[3] <= free[3]
}

// fitsBeside reports whether so much is free that is not held for others.
func (v *vector) fitsBeside(s *slot) bool {
	return v[0] <= s.free[0]-s.held[0] && v[1] <= s.free[1]-s.held[1] && v[2] <= s.free[2]-s.held[2] &&
		v[3] <= s.free[3]-s.held[3]
}

// pod is a pod of the trace in the cluster.
type pod struct {
	shape   int32
	turn    uint32 // counts its places
	key     model.PodKey
	created time.Duration
	machine *machine // nil while it waits
	left    time.Duration
	ends    time.Duration // while it runs
	since   time.Duration // it waits
	placed  bool          // it has had a place before
	nominee *machine      // on which it is to have its place, while it waits
}

// machine is a machine from its launch to its end.
type machine struct {
	node     model.Node // what it is in snapshots; Pods is replaced, never changed
	seq      int
	pods     []int32 // in the order of node.Pods
	daemons  model.Resources
	launched time.Duration
	idle     time.Duration // since when no pod is on it
	takes    bool          // kube-scheduler may bind pods to it
	victim   *command      // by which it is to go
	replaces *command      // for which it was launched
	taken    bool          // the cloud takes it away
	stale    bool          // it is another than in cluster.nodes
}

// going reports whether the machine's pods have to leave.
func (m *machine) going() bool { return m.victim != nil || m.taken }

// slot is what kube-scheduler looks at, apart from the rest for the sake of the processor's caches.
type slot struct {
	free, all vector
	held      vector // for pods that are nominated, out of free
	takes     bool
}

// cluster is what exists.
type cluster struct {
	machines []*machine   // by seq, which is by name
	slots    []slot       // by machine
	nodes    []model.Node // by machine, as snapshots show them; those of stale machines are as they were
	stale    []*machine
	made     int
	waiting  []int32 // pods without a place, those that came first in front
	absent   []int32 // pods that were evicted and whose successors are yet to come
	moving   int     // machines that are going
	usage    model.Resources
}

// machinePrefix begins the name of a machine; its number follows.
const machinePrefix = "node-"

func (c *cluster) index(m *machine) int {
	i, _ := slices.BinarySearchFunc(c.machines, m.seq, func(a *machine, seq int) int { return a.seq - seq })
	return i
}

// byName finds machines that exist.
func (c *cluster) byName(name string) *machine {
	seq, err := strconv.Atoi(strings.TrimPrefix(name, machinePrefix))
	if err != nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(c.machines, seq, func(m *machine, seq int) int { return m.seq - seq })
	if !found {
		return nil
	}
	return c.machines[i]
}

func (c *cluster) exists(m *machine) bool {
	i := c.index(m)
	return i < len(c.machines) && c.machines[i] == m
}

func (c *cluster) add(m *machine) {
	m.seq = c.made
	c.made++
	m.node.Name = fmt.Sprintf("%s%08d", machinePrefix, m.seq)
	m.node.Claim = m.node.Name
	c.machines = append(c.machines, m)
	used, all := vectorOf(&m.node.Used), vectorOf(&m.node.Allocatable)
	s := slot{all: all, free: all}
	for i := range used {
		s.free[i] -= used[i]
	}
	c.slots = append(c.slots, s)
	c.nodes = append(c.nodes, model.Node{})
	c.touch(m)
	c.usage = c.usage.Plus(m.node.Capacity)
}

func (c *cluster) remove(m *machine) {
	i := c.index(m)
	c.machines = slices.Delete(c.machines, i, i+1)
	c.slots = slices.Delete(c.slots, i, i+1)
	c.nodes = slices.Delete(c.nodes, i, i+1)
	c.usage = c.usage.Minus(m.node.Capacity)
	m.takes = false
}

// opens says whether the machine takes pods.
func (c *cluster) open(m *machine, takes bool) {
	m.takes = takes
	c.slots[c.index(m)].takes = takes
	c.touch(m)
}

// touch notes that the machine is another than before.
func (c *cluster) touch(m *machine) {
	if !m.stale {
		m.stale = true
		c.stale = append(c.stale, m)
	}
}

// show brings nodes up to date. Pods that have to leave a machine are not on it any more.
func (c *cluster) show() []model.Node {
	for _, m := range c.stale {
		m.stale = false
		i := c.index(m)
		if i == len(c.machines) || c.machines[i] != m {
			continue
		}
		n := &c.nodes[i]
		if *n = m.node; m.going() {
			n.Pods, n.Used = nil, m.daemons
		}
	}
	c.stale = c.stale[:0]
	return c.nodes
}
