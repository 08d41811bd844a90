package ahead

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
)

// idleNodes measures how long nodes idle while they wait for the pods of runs, and what that costs.
type idleNodes struct {
	seconds, dollars *prometheus.CounterVec // by pool

	mu    sync.Mutex
	since time.Time
	idle  map[idleKind]int // number of nodes idle since then
	byJob map[types.NamespacedName]idleTime
}

type idleKind struct {
	job   types.NamespacedName
	pool  string
	price model.Price // per hour
}

// idleTime is how long nodes were idle, in node-seconds, and what that cost.
type idleTime struct{ seconds, dollars float64 }

func newIdleNodes(r prometheus.Registerer) *idleNodes {
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"nodepool"})
		if r != nil {
			r.MustRegister(c)
		}
		return c
	}
	return &idleNodes{
		byJob: map[types.NamespacedName]idleTime{},
		seconds: counter("nodeless_ahead_idle_node_seconds_total",
			"How long ready nodes without pods waited for pods that were yet to be created."),
		dollars: counter("nodeless_ahead_idle_dollars_total", "What these nodes cost meanwhile."),
	}
}

// decided adds the time since the last plan and records the nodes that are idle from this plan on. jobs are the Jobs
// whose pods are awaited.
func (x *idleNodes) decided(s *model.Snapshot, p *model.Plan, jobs map[types.NamespacedName]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	passed := max(s.Now.Sub(x.since), 0)
	for kind, n := range x.idle {
		seconds, dollars := float64(n)*passed.Seconds(), float64(n)*passed.Hours()*kind.price.Dollars()
		x.seconds.WithLabelValues(kind.pool).Add(seconds)
		x.dollars.WithLabelValues(kind.pool).Add(dollars)
		sum := x.byJob[kind.job]
		x.byJob[kind.job] = idleTime{sum.seconds + seconds, sum.dollars + dollars}
	}
	x.since, x.idle = s.Now, map[idleKind]int{}
	if len(jobs) == 0 {
		return
	}
	placeholders, counted := s.Placeholders(), map[string]bool{}
	for _, at := range p.Placements {
		job := cluster.PlaceholderOwner(at.Pod)
		if !placeholders[at.Pod] || counted[at.Node] || !jobs[job] {
			continue
		}
		if n := &s.Nodes[s.NodeIndex(at.Node)]; n.State == model.Initialized && !works(n) {
			counted[at.Node] = true
			x.idle[idleKind{job, n.Pool, n.Price}]++
		}
	}
}

// take returns how long nodes were idle for a Job's pods, and forgets it.
func (x *idleNodes) take(job types.NamespacedName) idleTime {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer delete(x.byJob, job)
	return x.byJob[job]
}

// works reports whether a node has a non-terminal pod that belongs to no DaemonSet.
func works(n *model.Node) bool {
	for i := range n.Pods {
		if p := &n.Pods[i]; !p.Daemon && !p.Terminal {
			return true
		}
	}
	return false
}
