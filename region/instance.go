package region

import (
	"net/netip"
	"slices"
	"time"
)

// State is the life of an instance.
type State string

// States, with EC2's codes.
const (
	Pending      State = "pending"
	Running      State = "running"
	ShuttingDown State = "shutting-down"
	Terminated   State = "terminated"
)

// Code is EC2's number for a state.
func (s State) Code() int {
	return map[State]int{Pending: 0, Running: 16, ShuttingDown: 32, Terminated: 48}[s]
}

// Capacity types as EC2's pools have them.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
)

// Times of an instance's life that EC2's own behaviour suggests: running seconds after the launch, terminated seconds
// after being told to, visible for an hour afterwards.
const (
	toRunning     = 2 * time.Second
	toTerminated  = 2 * time.Second
	visibleAfter  = time.Hour
	tokenLife     = 48 * time.Hour
	spotNotice    = 2 * time.Minute
	reasonUser    = "Client.UserInitiatedShutdown"
	reasonSpot    = "Server.SpotInstanceTermination"
	reasonUserMsg = "Client.UserInitiatedShutdown: User initiated shutdown"
	reasonSpotMsg = "Server.SpotInstanceTermination: Spot instance termination"
)

// Instance is an EC2 instance. Values handed out are copies; their maps and slices are not to be changed.
type Instance struct {
	ID              string
	Type            string
	ImageID         string
	Architecture    string // x86_64 or arm64
	Zone, ZoneID    string
	SubnetID        string
	PrivateIP       netip.Addr
	PrivateDNS      string
	CapacityType    string // OnDemand or Spot
	SpotRequestID   string // of a spot instance
	State           State
	ReasonCode      string // why it was stopped
	ReasonMessage   string
	LaunchedAt      time.Time
	RunningAt       time.Time
	BootAt          time.Time // when its kubelet comes up
	NoticeAt        time.Time // when EC2 will announce a spot interruption by itself; zero if it will not
	InterruptAt     time.Time // when a noticed spot interruption takes it; zero if none was noticed
	StoppingAt      time.Time // when it was told to shut down
	TerminatedAt    time.Time
	TemplateID      string
	TemplateName    string
	UserData        []byte // decoded
	SecurityGroups  []string
	InstanceProfile string
	NodeDiskGiB     int64 // of the volume with containers and their images; 0 = as its image has it
	Devices         []BlockDevice
	Monitoring      bool // detailed, by CloudWatch
	Tags            map[string]string
	ClientToken     string
	FleetID         string
	PriceMicros     int64 // per hour, at launch
	Booted          bool
	CannotStart     bool    `json:",omitzero"` // it ends when it would run: see Region.SetKeyEnabled
	Ailment         Ailment `json:",omitzero"`
}

// active reports whether the instance holds capacity and an address.
func (i *Instance) active() bool { return i.State == Pending || i.State == Running }

func (i *Instance) pool() Pool { return Pool{Type: i.Type, Zone: i.Zone, CapacityType: i.CapacityType} }

// Instances are all instances that EC2 would still show, oldest first; those of the last DescribeLag are not among them
// yet.
func (r *Region) Instances() []Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	known := r.clock.Now().Add(-r.c.DescribeLag)
	out := make([]Instance, 0, len(r.order))
	for _, id := range r.order {
		if i := r.instances[id]; !i.LaunchedAt.After(known) {
			out = append(out, *i)
		}
	}
	return out
}

// Instance finds one by id.
func (r *Region) Instance(id string) (Instance, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.instances[id]
	if !ok {
		return Instance{}, false
	}
	return *i, true
}

// forget drops instances that were terminated long ago and, once an hour, client tokens that are too old to come again. The
// caller holds the lock.
func (r *Region) forget() {
	now := r.clock.Now()
	gone := func(id string) bool {
		i := r.instances[id]
		return i.State == Terminated && !i.TerminatedAt.Add(visibleAfter).After(now)
	}
	if slices.ContainsFunc(r.order, gone) {
		r.order = slices.DeleteFunc(r.order, func(id string) bool {
			if !gone(id) {
				return false
			}
			delete(r.instances, id)
			r.store.remove(bucketInstances, id)
			return true
		})
	}
	if now.Sub(r.tokensSwept) > time.Hour {
		r.tokensSwept = now
		for key, t := range r.tokens {
			if now.Sub(t.At) > tokenLife {
				delete(r.tokens, key)
				r.store.remove(bucketTokens, key)
			}
		}
	}
	if err := r.commit(); err != nil {
		r.log.Error("region: state not saved", "error", err)
	}
}

// StateChange is what TerminateInstances answers for one instance.
type StateChange struct {
	ID                string
	Previous, Current State
}

// TerminateInstances tells instances to shut down. An unknown id fails the call and changes nothing, as on EC2.
func (r *Region) TerminateInstances(ids []string) ([]StateChange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if _, ok := r.instances[id]; !ok {
			return nil, apiError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	var out []StateChange
	for _, id := range ids {
		i := r.instances[id]
		before := i.State
		r.shutDown(i, r.clock.Now(), reasonUser, reasonUserMsg)
		r.arm(i)
		out = append(out, StateChange{ID: id, Previous: before, Current: i.State})
	}
	return out, r.commit()
}

// Interrupt announces the end of a spot instance: a notice on every queue now, the shutdown two minutes later.
func (r *Region) Interrupt(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.instances[id]
	switch {
	case i == nil:
		return apiError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	case i.CapacityType != Spot:
		return apiError("InvalidParameterValue", "Instance %s is not a spot instance: EC2 interrupts spot instances alone", id)
	case !i.active():
		return apiError("IncorrectInstanceState", "Instance %s is %s", id, i.State)
	}
	if i.InterruptAt.IsZero() {
		r.announce(i, r.clock.Now())
		r.arm(i)
	}
	return r.commit()
}

// Rebalance sends the recommendation that a spot instance may be interrupted soon.
func (r *Region) Rebalance(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.instances[id]
	if i == nil || i.CapacityType != Spot {
		return apiError("InvalidInstanceID.NotFound", "There is no spot instance '%s'", id)
	}
	r.notifyRebalance(i)
	return r.commit()
}

// Summary is the region in numbers.
type Summary struct {
	Instances   int // pending or running
	PriceMicros int64
	Launched    int // ever, as far as EC2 would still show them
}

// Summary counts instances and their price.
func (r *Region) Summary() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Summary{Launched: len(r.order)}
	for _, id := range r.order {
		if i := r.instances[id]; i.active() {
			s.Instances++
			s.PriceMicros += i.PriceMicros
		}
	}
	return s
}
