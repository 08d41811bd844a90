// Package dra finds where claims of dynamic resource allocation can be met, and how many devices they take.
//
// The engine counts: a node has a number of devices of a DeviceClass, and a pod takes some. This package provides the
// counts. For each node and each instance type it has the ResourceSlices that drivers publish there, or are expected
// to publish, and asks kube-scheduler's allocator (k8s.io/dynamic-resource-allocation/structured) whether an empty
// node can meet the claims. Counting is exact as long as a node's devices of a class are alike for every request: a
// request takes any of them or none, and for the constraints of a claim: it takes any of them together. Hosts on which
// they are not, devices that share counters, and devices that serve several claims are left out; pods that need them
// are told so.
package dra

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Set is what is known about devices. The zero value is not ready for use: see NewSet. It is not safe for concurrent
// use.
type Set struct {
	typeOf  func(node string) string
	classes map[string]*resourcev1.DeviceClass
	nodes   map[string]*host // by name
	types   map[string]*host // as expected, by name
	learned map[string]*host // as a node of the type had them, by name; kept when the node is gone

	used map[string]bool   // classes that claims have requested
	cel  func() *cel.Cache // made for the first selector

	// valid until something changes
	fits   map[string]Fit // by claims
	shared map[string][]string
}

// compiled is the number of selectors kept compiled.
const compiled = 1000

// NewSet returns an empty set. typeOf returns the instance type of a node, "" if unknown.
func NewSet(typeOf func(node string) string) *Set {
	return &Set{
		typeOf: typeOf, classes: map[string]*resourcev1.DeviceClass{}, nodes: map[string]*host{},
		types: map[string]*host{}, learned: map[string]*host{}, used: map[string]bool{},
		cel:  sync.OnceValue(func() *cel.Cache { return cel.NewCache(compiled, cel.Features{}) }),
		fits: map[string]Fit{}, shared: map[string][]string{},
	}
}

// use records that claims request a class.
func (s *Set) use(class string) {
	if !s.used[class] {
		s.used[class] = true
		s.forget()
	}
}

// forget drops cached results.
func (s *Set) forget() {
	clear(s.fits)
	clear(s.shared)
}

// SetClass sets a DeviceClass; nil = there is none of this name.
func (s *Set) SetClass(name string, class *resourcev1.DeviceClass) {
	if class == nil {
		delete(s.classes, name)
	} else {
		s.classes[name] = class
	}
	for _, h := range s.hosts() {
		delete(h.sets, name)
	}
	s.forget()
}

// SetNode sets all ResourceSlices of a node. It must be called again when the node's type becomes known.
func (s *Set) SetNode(node string, published []*resourcev1.ResourceSlice) {
	if len(published) == 0 {
		delete(s.nodes, node)
	} else {
		s.nodes[node] = newHost(node, published)
		s.learn(s.nodes[node])
	}
	s.forget()
}

// Expect sets what drivers are expected to publish for nodes of an instance type, and reports whether that is new. An
// earlier expectation stays.
func (s *Set) Expect(name string, expected []*resourcev1.ResourceSlice) bool {
	if s.types[name] != nil {
		return false
	}
	s.types[name] = newHost(name, expected)
	s.forget()
	return true
}

// hosts returns all nodes and types.
func (s *Set) hosts() []*host {
	return slices.Concat(slices.Collect(maps.Values(s.nodes)), slices.Collect(maps.Values(s.types)),
		slices.Collect(maps.Values(s.learned)))
}

// learn records what a complete node of a type has. For drivers that have published nothing there, the expectation
// stays: they may not have started yet.
func (s *Set) learn(h *host) {
	typ := s.typeOf(h.name)
	if typ == "" || !h.complete {
		return
	}
	known := h.slices
	if expected := s.ofType(typ); expected != nil {
		known = slices.Clone(known)
		for _, e := range expected.slices {
			if !h.published.Has(e.Spec.Driver) {
				e = e.DeepCopy()
				e.Spec.NodeName = &h.name
				known = append(known, e)
			}
		}
	}
	s.learned[typ] = newHost(h.name, known)
}

// ofType returns what a node of the type will have, nil if nothing is known.
func (s *Set) ofType(name string) *host {
	if h := s.learned[name]; h != nil {
		return h
	}
	return s.types[name]
}

// Expected returns what drivers are expected to publish for a node of an instance type.
func (s *Set) Expected(node, typ string) []*resourcev1.ResourceSlice {
	h := s.ofType(typ)
	if h == nil {
		return nil
	}
	out := make([]*resourcev1.ResourceSlice, len(h.slices))
	for i, slice := range h.slices {
		out[i] = slice.DeepCopy()
		out[i].ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", node, i)}
		out[i].Spec.NodeName = &node
	}
	return out
}

// Used returns the names of the classes that claims have requested so far.
func (s *Set) Used() []string { return slices.Sorted(maps.Keys(s.used)) }

// plenty is more than any pod requests.
const plenty = 1 << 20

// OfNode returns how many devices of each used class a node has; nil if no driver has published any yet. A class that
// shares devices with another has plenty on a node where it has none: pods that request the other class count against
// both there, and pods that request this one are not placed there (see Fit.Types).
func (s *Set) OfNode(name string) map[string]int64 { return s.counts(s.nodes[name]) }

// OfType returns the same for future nodes of an instance type; nil if nothing is known.
func (s *Set) OfType(name string) map[string]int64 { return s.counts(s.ofType(name)) }

func (s *Set) counts(h *host) map[string]int64 {
	if h == nil {
		return nil
	}
	out := make(map[string]int64, len(s.used))
	for class := range s.used {
		if out[class] = int64(s.set(h, class).Len()); out[class] == 0 && len(s.sharing(class)) > 0 {
			out[class] = plenty
		}
	}
	return out
}

// sharing returns the used classes that have a device of the class on some host.
func (s *Set) sharing(class string) []string {
	if known, ok := s.shared[class]; ok {
		return known
	}
	var out []string
	for _, other := range s.Used() {
		share := func(h *host) bool { return s.set(h, class).HasAny(s.set(h, other).UnsortedList()...) }
		if other != class && slices.ContainsFunc(s.hosts(), share) {
			out = append(out, other)
		}
	}
	s.shared[class] = out
	return out
}

// Drivers returns the drivers of a type's devices of a class, sorted.
func (s *Set) Drivers(typ, class string) []string {
	h := s.ofType(typ)
	if h == nil {
		return nil
	}
	out := sets.New[string]()
	for i := range s.set(h, class) {
		out.Insert(h.devices[i].driver)
	}
	return sets.List(out)
}

// Published reports whether a driver has published a complete pool on a node.
func (s *Set) Published(node, driver string) bool {
	h := s.nodes[node]
	return h != nil && h.published.Has(driver)
}

// host is a node, or an instance type as its nodes are expected to be.
type host struct {
	name      string
	slices    []*resourcev1.ResourceSlice
	devices   []device
	published sets.Set[string] // drivers with a complete pool
	complete  bool             // all pools are complete
	sets      map[string]sets.Set[int]
}

// device is one of a host's devices.
type device struct {
	driver string
	*resourcev1.Device
}

func newHost(name string, published []*resourcev1.ResourceSlice) *host {
	h := &host{
		name: name, complete: true, published: sets.New[string](), sets: map[string]sets.Set[int]{},
	}
	pools := map[string][]*resourcev1.ResourceSlice{}
	for _, s := range published {
		key := s.Spec.Driver + "/" + s.Spec.Pool.Name
		if old := pools[key]; len(old) > 0 && s.Spec.Pool.Generation != old[0].Spec.Pool.Generation {
			if s.Spec.Pool.Generation < old[0].Spec.Pool.Generation {
				continue // a newer generation has replaced it
			}
			pools[key] = nil
		}
		pools[key] = append(pools[key], s)
	}
	for _, key := range slices.Sorted(maps.Keys(pools)) {
		pool := pools[key]
		if int64(len(pool)) != pool[0].Spec.Pool.ResourceSliceCount {
			h.complete = false
			continue
		}
		h.published.Insert(pool[0].Spec.Driver)
		h.slices = append(h.slices, pool...)
		for _, s := range pool {
			for i := range s.Spec.Devices {
				h.devices = append(h.devices, device{s.Spec.Driver, &s.Spec.Devices[i]})
			}
		}
	}
	return h
}

// set returns the indices of the host's untainted devices of a class.
func (s *Set) set(h *host, class string) sets.Set[int] {
	if found, ok := h.sets[class]; ok {
		return found
	}
	found := sets.New[int]()
	if c := s.classes[class]; c != nil {
		for i := range h.devices {
			if matches, err := s.matches(h, i, c.Spec.Selectors); err == nil && matches {
				found.Insert(i)
			}
		}
	}
	h.sets[class] = found
	return found
}

// matches reports whether an untainted device satisfies all selectors.
func (s *Set) matches(h *host, i int, selectors []resourcev1.DeviceSelector) (bool, error) {
	d := h.devices[i]
	for _, t := range d.Taints {
		if t.Effect != resourcev1.DeviceTaintEffectNone {
			return false, nil
		}
	}
	for _, selector := range selectors {
		if selector.CEL == nil {
			return false, fmt.Errorf("a selector without cel")
		}
		expression := s.cel().GetOrCompile(selector.CEL.Expression)
		if expression.Error != nil {
			return false, expression.Error
		}
		matches, _, err := expression.DeviceMatches(context.Background(), cel.Device{
			Driver: d.driver, Attributes: d.Attributes, Capacity: d.Capacity,
			AllowMultipleAllocations: d.AllowMultipleAllocations,
		})
		if err != nil || !matches {
			return false, err
		}
	}
	return true, nil
}

// List returns all classes; with Get it implements structured.DeviceClassLister.
func (s *Set) List() ([]*resourcev1.DeviceClass, error) {
	return slices.Collect(maps.Values(s.classes)), nil
}

// Get returns the class with the name.
func (s *Set) Get(name string) (*resourcev1.DeviceClass, error) {
	if c := s.classes[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("deviceClass %s does not exist: create it, or install the driver that brings it", name)
}

// features are the features that are on by default in kube-scheduler and matter to the hosts that are considered
// (k8s.io/kubernetes/pkg/features of v1.36).
var features = structured.Features{AdminAccess: true, DeviceTaints: true, PrioritizedList: true}

// nothingAllocated is the state of an empty host.
func nothingAllocated() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}
