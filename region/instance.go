package region

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// State is the state of an instance.
type State string

// The states of an instance.
const (
	Pending      State = "pending"
	Running      State = "running"
	ShuttingDown State = "shutting-down"
	Terminated   State = "terminated"
)

// Code returns EC2's number for a state.
func (s State) Code() int {
	return map[State]int{Pending: 0, Running: 16, ShuttingDown: 32, Terminated: 48}[s]
}

// The capacity types of EC2's pools.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
)

// Instance is an EC2 instance. Methods return copies, whose maps and slices must not be changed.
type Instance struct {
	ID               string
	Type             string
	ImageID          string
	Architecture     string // x86_64 or arm64
	Windows          string `json:",omitempty"` // see Image
	Zone, ZoneID     string
	SubnetID         string
	InterfaceID      string `json:",omitempty"` // of its primary interface, if that existed before it
	PrivateIP        netip.Addr
	PrivateDNS       string
	CapacityType     string // OnDemand, Spot or CapacityBlock
	SpotRequestID    string // of a spot instance
	State            State
	ReasonCode       string // why it was stopped
	ReasonMessage    string
	LaunchedAt       time.Time
	RunningAt        time.Time
	BootAt           time.Time // when its kubelet starts
	NoticeAt         time.Time // when EC2 announces a spot interruption; zero if it does not
	InterruptAt      time.Time // when an announced spot interruption takes effect; zero if none was announced
	RebalanceAt      time.Time `json:",omitzero"` // when EC2 recommended to replace the spot instance; zero if it did not
	StoppingAt       time.Time // when it began to shut down
	TerminatedAt     time.Time
	TemplateID       string
	TemplateName     string
	UserData         []byte // decoded
	SecurityGroups   []string
	InstanceProfile  string
	NodeDiskGiB      int64 // size of the volume that holds containers and images; 0 means the size in the image
	Devices          []BlockDevice
	Monitoring       bool // detailed, by CloudWatch
	Tags             map[string]string
	ClientToken      string
	FleetID          string
	PriceMicros      int64             // per hour, at launch
	ReservationID    string            `json:",omitempty"` // of the capacity reservation that it runs in
	Reservation      ReservationChoice `json:",omitzero"`  // as requested at launch
	Booted           bool
	PlacementGroupID string     `json:",omitempty"`
	Dedicated        bool       `json:",omitempty"` // tenancy; it costs the same here
	Partition        int        `json:",omitzero"`  // in its placement group
	CannotStart      bool       `json:",omitzero"`  // it shuts down instead of running: see Region.SetKeyEnabled
	Impairment       Impairment `json:"Ailment,omitzero"`
}

// RootDevice returns the device of the instance's root volume.
func (i *Instance) RootDevice() string {
	if i.Windows != "" {
		return windowsRoot
	}
	return linuxRoot
}

// active reports whether the instance holds capacity and an address.
func (i *Instance) active() bool { return i.State == Pending || i.State == Running }

func (i *Instance) pool() Pool { return Pool{Type: i.Type, Zone: i.Zone, CapacityType: i.CapacityType} }

// instance is the record of an instance.
type instance struct {
	Instance
	pods  map[string]bool // UIDs of the pods that hold an address
	timer clock.Timer     // of its next step; nil if none is due

	addresses *addressPool // nil until first use
}

// instances manages the life cycle of instances: see life.go for the steps.
type instances struct {
	*core
	market     *market
	network    *network
	queues     *queues
	ending     func(*instance) // called when an instance begins to shut down
	changed    func(*instance) // called when anything about an instance changes
	interfaces *interfaces
	reserved   *capacityReservations

	byID     map[string]*instance
	order    []*instance       // by launch time
	userData map[string][]byte // that instances were launched with, by hash
	watchers []*watcher
}

func newInstances(c *core, m *market, n *network, q *queues) *instances {
	return &instances{
		core: c, market: m, network: n, queues: q, byID: map[string]*instance{},
		userData: map[string][]byte{},
	}
}

// visibleAfter is how long EC2 keeps showing a terminated instance.
const visibleAfter = time.Hour

// Instances returns all instances that EC2 still shows, oldest first, except those launched within the last
// DescribeLag.
func (s *instances) Instances() []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	known := s.clock.Now().Add(-s.config.DescribeLag)
	out := make([]Instance, 0, len(s.order))
	for _, i := range s.order {
		if !i.LaunchedAt.After(known) {
			out = append(out, i.Instance)
		}
	}
	return out
}

// Instance finds an instance by ID.
func (s *instances) Instance(id string) (Instance, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.byID[id]
	if !ok {
		return Instance{}, false
	}
	return i.Instance, true
}

// forget drops instances that were terminated more than visibleAfter ago.
func (s *instances) forget() {
	shown := s.clock.Now().Add(-visibleAfter)
	gone := func(i *instance) bool { return i.State == Terminated && !i.TerminatedAt.After(shown) }
	if !slices.ContainsFunc(s.order, gone) {
		return
	}
	s.order = slices.DeleteFunc(s.order, func(i *instance) bool {
		if !gone(i) {
			return false
		}
		delete(s.byID, i.ID)
		s.store.remove(bucketInstances, i.ID)
		return true
	})
	s.commitBackground()
}

// add records, saves and publishes a new instance and sets its timer.
func (s *instances) add(i Instance) {
	s.take(i)
	s.save(s.byID[i.ID])
	s.publish(EventCreated, s.byID[i.ID])
	s.arm(s.byID[i.ID])
}

// take records an instance. While it is active, it occupies capacity of its pool or reservation.
func (s *instances) take(i Instance) {
	x := &instance{Instance: i, pods: map[string]bool{}}
	s.byID[i.ID] = x
	s.order = append(s.order, x)
	if i.active() {
		s.reserved.enter(&x.Instance)
	}
	if i.State != Terminated {
		s.interfaces.addFirst(x)
	}
}

// copies returns the instances with the given IDs that still exist.
func (s *instances) copies(ids []string) []Instance {
	var out []Instance
	for _, id := range ids {
		if i := s.byID[id]; i != nil {
			out = append(out, i.Instance)
		}
	}
	return out
}

func noInstance(id string) *APIError {
	return apiError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}

// StateChange is what TerminateInstances returns for one instance.
type StateChange struct {
	ID                string
	Previous, Current State
}

// TerminateInstances shuts instances down. An unknown ID fails the call and changes nothing, as on EC2.
func (s *instances) TerminateInstances(ids []string) ([]StateChange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.byID[id] == nil {
			return nil, noInstance(id)
		}
	}
	var out []StateChange
	for _, id := range ids {
		i := s.byID[id]
		before := i.State
		s.shutDown(i, s.clock.Now(), reasonUser, reasonUserMsg)
		s.arm(i)
		out = append(out, StateChange{ID: id, Previous: before, Current: i.State})
	}
	return out, s.commit()
}

// Summary sums up the region.
type Summary struct {
	Instances   int   // pending or running
	PriceMicros int64 // per hour, including unused reserved capacity
	Launched    int   // all instances that EC2 still shows
	Unused      int   // reserved instances that do not run
}

// Summary counts instances and adds up their prices.
func (s *instances) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := Summary{Launched: len(s.order)}
	for _, i := range s.order {
		if i.active() {
			sum.Instances++
			sum.PriceMicros += i.PriceMicros
		}
	}
	unused, micros := s.reserved.unused()
	sum.Unused, sum.PriceMicros = unused, sum.PriceMicros+micros
	return sum
}
