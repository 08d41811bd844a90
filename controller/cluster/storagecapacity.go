package cluster

import (
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// capacities holds what CSI drivers report about the volumes that they could create.
type capacities struct {
	drivers  table[*storagev1.CSIDriver]
	reported table[*storagev1.CSIStorageCapacity]
	known    bool // reports are read; otherwise no driver has to report

	byClass map[string]*translate.Capacities
	stale   map[string]bool // classes of which pods were translated with earlier reports
}

// capacityKinds are the kinds of storage capacity tracking. They are watched only if both may be read.
var capacityKinds = []kind{
	tableOf(&storagev1.CSIDriver{},
		func(s *State) *table[*storagev1.CSIDriver] { return &s.storage.capacities.drivers }, otherGeneration,
		func(s *State, o *storagev1.CSIDriver) { s.pods.reshapeUsers(driverKind, keyOf(o)) }),
	tableOf(&storagev1.CSIStorageCapacity{},
		func(s *State) *table[*storagev1.CSIStorageCapacity] { return &s.storage.capacities.reported }, always,
		func(s *State, o *storagev1.CSIStorageCapacity) { s.pods.capacityChanged(o.StorageClassName) }),
}

// Kinds of needs. reportsKind stands for all CSIStorageCapacities of the StorageClass with that name.
const (
	driverKind  = "CSIDriver"
	reportsKind = "CSIStorageCapacities"
)

// watchesCapacities records that the kinds are watched.
func (ps *pods) watchesCapacities() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.setCapacitiesKnown()
}

// setCapacitiesKnown records that what drivers report is watched, or has been seen.
func (ps *pods) setCapacitiesKnown() {
	c := &ps.storage.capacities
	if c.known {
		return
	}
	c.known = true
	for name := range c.drivers.live {
		ps.reshapeUsers(driverKind, name)
	}
}

// capacityChanged records that a driver reports something else about a class. The pods that depend on it are
// translated again before the next snapshot, once for all changes.
func (ps *pods) capacityChanged(class string) {
	ps.setCapacitiesKnown()
	c := &ps.storage.capacities
	if c.stale == nil {
		c.stale = map[string]bool{}
	}
	c.stale[class] = true
	delete(c.byClass, class)
	if len(ps.storage.users[need{reportsKind, clusterKey(class)}]) > 0 {
		ps.poke()
	}
}

// refreshCapacities translates the pods again that depend on outdated reports.
func (ps *pods) refreshCapacities() {
	c := &ps.storage.capacities
	for class := range c.stale {
		delete(c.stale, class)
		ps.reshapeUsers(reportsKind, clusterKey(class))
	}
}

// Driver implements translate.Storage.
func (l *lookup) Driver(name string) *storagev1.CSIDriver {
	l.note(driverKind, clusterKey(name))
	if !l.in.capacities.known {
		return nil
	}
	return l.in.capacities.drivers.live[clusterKey(name)]
}

// Capacities implements translate.Storage.
func (l *lookup) Capacities(class string) *translate.Capacities {
	l.note(reportsKind, clusterKey(class))
	c := &l.in.capacities
	if c.byClass[class] == nil {
		if c.byClass == nil {
			c.byClass = map[string]*translate.Capacities{}
		}
		c.byClass[class] = translate.NewCapacities(class, slices.DeleteFunc(c.reported.byName(),
			func(r *storagev1.CSIStorageCapacity) bool { return r.StorageClassName != class }))
	}
	return c.byClass[class]
}
