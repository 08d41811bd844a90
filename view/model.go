// Package view is a read model of a cluster for people: nodes with their cost and their pods, NodePools, and pending
// pods. It is updated with facts as they change, each in constant time, and returns sorted and filtered pages of
// rows. It knows no API server, no terminal and no clock.
package view

import (
	"fmt"
	"slices"
	"sync"
	"time"
	"unique"

	toolscache "k8s.io/client-go/tools/cache"
)

// Model is what is shown of a cluster. It is safe for concurrent use.
type Model struct {
	resources []string

	mu      sync.Mutex
	version uint64 // counts changes
	changed chan struct{}
	pools   map[string]*Pool
	notes   map[string]string
	mirrors map[*mirror]struct{}
	nodeTable
	podTable
	eventTable

	nodes   orderOf[*nodeEntry]
	pending orderOf[*Pod]
	log     log
}

// nodeTable matches Nodes with their NodeClaims and sums them up.
type nodeTable struct {
	entries    []*nodeEntry
	byNode     map[string]*nodeEntry
	byClaim    map[string]*nodeEntry
	byProvider map[string]*nodeEntry
	expected   map[string]*nodeEntry // by the name of the Node in a claim's status
	uses       map[string]*use       // by node name
	total      Sums
	perPool    map[string]*Sums
	lastID     uint64
	journal    *Journal // nil if there is none
}

// podTable holds pods by UID and by node.
type podTable struct {
	pods    toolscache.Indexer // of *Pod
	phases  [Ended + 1]int
	bound   int
	waiting int // pods without a node

	rollouts map[unique.Handle[Revision]]time.Time // when each revision began
}

// eventTable holds the newest event about each object.
type eventTable struct {
	said map[Object]Said
	now  time.Time // as of SetTime; zero = unknown
}

// New returns an empty Model that counts these resources, at most MaxResources.
func New(resources []string) (*Model, error) {
	if len(resources) == 0 || len(resources) > MaxResources {
		return nil, fmt.Errorf("resources %q: give 1 to %d, separated by commas", resources, MaxResources)
	}
	for i, r := range resources {
		if r == "" || slices.Contains(resources[:i], r) {
			return nil, fmt.Errorf("resources %q: each must be there once and have a name", resources)
		}
	}
	return &Model{
		resources: slices.Clone(resources), changed: make(chan struct{}, 1),
		pools: map[string]*Pool{}, notes: map[string]string{},
		nodeTable: nodeTable{
			byNode: map[string]*nodeEntry{}, byClaim: map[string]*nodeEntry{}, byProvider: map[string]*nodeEntry{},
			expected: map[string]*nodeEntry{}, uses: map[string]*use{}, perPool: map[string]*Sums{},
		},
		podTable:   podTable{pods: newPods(), rollouts: map[unique.Handle[Revision]]time.Time{}},
		eventTable: eventTable{said: map[Object]Said{}},
	}, nil
}

// Resources returns the names of the resources, by their index in Amounts.
func (m *Model) Resources() []string { return m.resources }

// Changed returns a channel that receives a value when something has changed since the last value was taken.
func (m *Model) Changed() <-chan struct{} { return m.changed }

// change takes the lock for a change; done releases it and announces the change.
func (m *Model) change() (done func()) {
	m.mu.Lock()
	m.version++
	return func() {
		m.mu.Unlock()
		select {
		case m.changed <- struct{}{}:
		default:
		}
	}
}

// SetPool replaces a NodePool's facts.
func (m *Model) SetPool(p *Pool) {
	defer m.change()()
	m.pools[p.Name] = p
	m.tell(func(f *mirror) { f.pool(p) })
}

// DeletePool removes a NodePool.
func (m *Model) DeletePool(name string) {
	defer m.change()()
	delete(m.pools, name)
	m.tell(func(f *mirror) { f.to.DeletePool(name) })
}

// Say records an event about an object unless a newer one is known.
func (m *Model) Say(about Object, s Said) {
	defer m.change()()
	m.tell(func(f *mirror) { f.say(about, s) })
	if was, ok := m.said[about]; !ok || !s.At.Before(was.At) {
		m.said[about] = s
		m.touchAbout(about)
	}
}

// Unsay removes an event that has expired.
func (m *Model) Unsay(about Object, at time.Time) {
	defer m.change()()
	m.tell(func(f *mirror) { f.to.Unsay(about, at) })
	if was, ok := m.said[about]; ok && was.At.Equal(at) {
		delete(m.said, about)
		m.touchAbout(about)
	}
}

// SetTime tells the Model the time, on which depends whether an event still says why a node is kept.
func SetTime(m *Model, now time.Time) {
	m.mu.Lock()
	before, over := m.now, false
	m.now = now
	for about, s := range m.said {
		if s.keeps(before) && !s.keeps(now) {
			m.touchAbout(about)
			over = true
		}
	}
	m.mu.Unlock()
	if over {
		m.change()()
	}
}

// Note records what viewers should know about a source of facts, such as "pods" that may not be read; "" clears it.
func (m *Model) Note(source, text string) {
	m.mu.Lock()
	same := m.notes[source] == text
	m.mu.Unlock()
	if same {
		return
	}
	defer m.change()()
	m.tell(func(f *mirror) { f.to.Note(source, text) })
	if m.notes[source] = text; text == "" {
		delete(m.notes, source)
	}
}
