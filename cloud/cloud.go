// Package cloud is the contract between Nodeless and the cloud that launches its instances.
//
// A provider implements Provider: it lists the instance types that a node class allows, launches and terminates
// instances, and finds existing ones. Abilities that not every cloud has are separate interfaces: Interrupter
// (notices of instances that will be taken away), HealthChecker, Drifter, Repairer, Addresser, PodNetworker,
// VersionFollower, Reserver, Placer, ZoneShifter, Ender and Observed. A caller checks for one with a type assertion.
//
// Two rules make providers safe for a controller that may crash at any line. Launch is idempotent by its token: the
// same token never starts a second instance. List finds every instance of the cluster by its tags, so that none is
// lost.
//
// Errors wrap the sentinels of this package, which say what to do next: launch something else (ErrNoCapacity), wait
// (ErrThrottled, ErrClassUnresolved), or tell the user (ErrRefused, ErrUnauthorized, ErrClassNotReady).
//
// cloudtest.Run is the conformance suite that every provider passes.
package cloud

import (
	"context"
	"errors"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Errors that providers return, wrapped with the operation, its object and the cause.
var (
	// ErrNotFound: the instance does not exist, or no longer does.
	ErrNotFound = errors.New("instance not found")
	// ErrNoCapacity: none of the requested offerings has capacity. LaunchResult.Exhausted lists those that were tried.
	ErrNoCapacity = errors.New("no capacity")
	// ErrClassNotReady: the node class is missing or could not be resolved; its conditions say why.
	ErrClassNotReady = errors.New("node class not ready")
	// ErrClassUnresolved: it is not known yet whether the class is ready; try again soon. It is wrapped together with
	// ErrClassNotReady.
	ErrClassUnresolved = errors.New("node class not resolved yet")
	// ErrThrottled: the cloud asks to slow down; try again later.
	ErrThrottled = errors.New("throttled")
	// ErrRefused: the cloud refuses the launch that the class describes, and has started nothing. The same call fails
	// until the class, the pool or the account is changed.
	ErrRefused = errors.New("launch refused")
	// ErrUnauthorized: credentials or permissions are missing. Retrying does not help.
	ErrUnauthorized = errors.New("not authorized")
)

// ClassRef names a node class object of the cluster.
type ClassRef struct{ Group, Kind, Name string }

// Provider launches and terminates instances. All methods are safe for concurrent use and stop when ctx does.
type Provider interface {
	// Name returns a short fixed name, such as "aws".
	Name() string
	// Catalog returns the instance types that a node class allows, by name; capacity and overhead depend on the class's
	// settings. Resources are at the fixed indices of model.WellKnownResources. The result is shared and must not be
	// changed; it is the same slice until something changes. Fails with ErrClassNotReady.
	Catalog(ctx context.Context, class ClassRef) ([]model.InstanceType, error)
	// Launch starts one instance. It is idempotent by Token: the same token returns the same instance, even after a
	// crash of the caller. A successful launch may still report offerings that it found exhausted. Fails with
	// ErrNoCapacity (and Exhausted), ErrClassNotReady, ErrThrottled, ErrUnauthorized or ErrRefused.
	Launch(ctx context.Context, req LaunchRequest) (LaunchResult, error)
	// Terminate starts the termination of an instance; nil means that it is in progress, ErrNotFound that the instance
	// is gone. It is idempotent.
	Terminate(ctx context.Context, id string) error
	// Get finds one instance by ID; ErrNotFound if it is gone or terminated.
	Get(ctx context.Context, id string) (Instance, error)
	// List returns every instance with this cluster's tags that is not terminated, no matter what launched it.
	List(ctx context.Context) ([]Instance, error)
}

// LaunchRequest requests one instance out of several candidates.
type LaunchRequest struct {
	Token         string // the NodeClaim's UID
	Claim         string // the NodeClaim's name
	Instance      string // of a group, for the claim to adopt; "" = one without a claim, or a new one
	Pool          string // "" for a claim of no pool
	Class         ClassRef
	Requirements  model.Requirements // what type, zone and capacity type must satisfy
	Requests      model.Resources    // what the instance must hold
	Labels        map[string]string  // of the Node when it registers
	Taints        []model.Taint      // of the Node when it registers
	StartupTaints []model.Taint
	// Unavailable holds offerings that are known to be exhausted and must not be tried.
	Unavailable map[model.OfferingKey]bool
	// Prices replaces the cloud's prices of offerings; nil keeps those.
	Prices map[model.OfferingKey]model.Price
}

// LaunchResult is an instance that was started.
type LaunchResult struct {
	Instance  Instance
	Exhausted []model.OfferingKey // offerings the cloud had no capacity for
	// OfClass means that Exhausted applies only to launches of the request's class: its placement group was full, or
	// its Auto Scaling group could not launch.
	OfClass bool
}

// Instance is an instance as the cloud reports it.
type Instance struct {
	ID           string // such as i-0123456789abcdef0
	ProviderID   string // as in Node.spec.providerID, such as aws:///us-west-2a/i-0123456789abcdef0
	Claim        string // from its tags
	Pool         string // from its tags
	Class        string // from its tags
	Type         string
	Zone         string
	CapacityType string
	ImageID      string
	// Subnet and SecurityGroups are the instance's network settings; "" and nil if unknown (from Launch).
	Subnet         string
	SecurityGroups []string
	State          InstanceState
	Launched       time.Time
	// Labels are the Node labels that the cloud determines: instance type, zone, capacity type, architecture and so on.
	Labels map[string]string
	// Capacity and Allocatable are those expected of the Node; zero if unknown (from List and Get).
	Capacity, Allocatable model.Resources
}

// InstanceState is the state of an instance's life cycle.
type InstanceState string

// States of an instance.
const (
	Pending     InstanceState = "pending"
	Running     InstanceState = "running"
	Stopping    InstanceState = "stopping"
	Terminating InstanceState = "shutting-down"
	Terminated  InstanceState = "terminated"
)

// Interrupter is a provider that receives notices of instances that will be taken away.
type Interrupter interface {
	// Interruptions returns waiting notices, hundreds at a time if there are that many; it blocks for up to a poll
	// interval while there are none. A notice is returned again until it is passed to Done, and may come twice, late
	// and in any order. Messages that are not notices are returned, too, as NoOp or Malformed, to be counted and
	// deleted.
	Interruptions(ctx context.Context) ([]Interruption, error)
	// Done deletes notices. Notices that it fails to delete are returned again.
	Done(ctx context.Context, notices ...Interruption) error
}

// HealthChecker is a provider that checks the health of its instances.
type HealthChecker interface {
	// Unhealthy returns, at each call, the instances that have failed the cloud's checks for a while, or for which it
	// has announced maintenance. Fails with ErrUnauthorized if the caller lacks the permission.
	Unhealthy(ctx context.Context) ([]Interruption, error)
}

// Interruption is a notice about instances.
type Interruption struct {
	InstanceIDs []string
	Kind        InterruptionKind
	At          time.Time // of the event; zero if the notice does not say
	Sent        time.Time // when the notice was queued; zero if unknown
	Note        string    // of Malformed: what is wrong
	Handle      string    // the provider's own, for Done
}

// InterruptionKind says what will happen or has happened. Its values are those of Karpenter's metric label
// message_type.
type InterruptionKind string

// Kinds of interruptions.
const (
	SpotInterruption        InterruptionKind = "spot_interrupted"
	ReservationInterruption InterruptionKind = "capacity_reservation_interrupted"
	RebalanceRecommendation InterruptionKind = "rebalance_recommendation"
	ScheduledChange         InterruptionKind = "scheduled_change"
	InstanceStopping        InterruptionKind = "instance_stopped"
	InstanceTerminating     InterruptionKind = "instance_terminated"
	InstanceFailed          InterruptionKind = "instance_status" // the check of the instance itself fails
	SystemFailed            InterruptionKind = "system_status"   // the check of its host fails
	MaintenanceDue          InterruptionKind = "event_status"    // the cloud plans to stop, restart or retire it
	NoOp                    InterruptionKind = "no_op"           // not about the lifecycle of instances
	Malformed               InterruptionKind = "malformed"       // cannot be read
)

// Observer receives a provider's activity, for metrics. Its methods are quick and safe for concurrent use.
type Observer interface {
	// Call reports a call of a Provider's method, by the method's name.
	Call(provider, method string, took time.Duration, err error)
	// Batch reports a call to the cloud on behalf of several callers, and how long the first of them waited.
	Batch(call string, waited time.Duration, size int)
	// UserData reports the size of a class's user data.
	UserData(class string, bytes int)
}

// Observed is a provider that reports to an Observer. Observe must be called before any other method.
type Observed interface{ Observe(Observer) }

// Drifter is a provider that knows when an instance no longer matches its node class.
type Drifter interface {
	// Drifted returns why an instance no longer matches its class, such as "AMIDrift"; "" if it does. Fails with
	// ErrClassNotReady while the class is not resolved, and with ErrNotFound if the instance is gone.
	Drifted(ctx context.Context, m Launched) (reason string, err error)
}

// Launched is what is known about an instance from its launch.
type Launched struct {
	InstanceID string
	Class      ClassRef
	Type       string
	ImageID    string
	// Annotations are those of the NodeClaim, including hashes of its class.
	Annotations map[string]string
}

// Repairer is a provider that knows which conditions of a Node mean that its instance should be replaced.
type Repairer interface {
	RepairPolicies() []RepairPolicy
}

// RepairPolicy says how long a condition of a Node is tolerated.
type RepairPolicy struct {
	Condition  string // its type, such as "Ready"
	Status     string // "False" or "Unknown"
	Toleration time.Duration
}

// Addresser is a provider whose nodes take addresses, for themselves and for pods, from subnets of limited size.
type Addresser interface {
	// Subnets returns the subnets in which a node class launches, by ID, with the free addresses that the cloud last
	// reported; none if the class is not resolved or the numbers are unknown. It does not call the cloud.
	Subnets(class ClassRef) []Subnet
}

// VersionFollower is a provider whose images depend on the version of Kubernetes.
type VersionFollower interface {
	// FollowVersion sets how to read the version of the API server, as major.minor, which an upgrade changes.
	FollowVersion(read func() (string, error))
}

// PodNetworker is an Addresser whose pods may take addresses from other subnets than their nodes.
type PodNetworker interface {
	// SubnetsByID returns the subnets with these IDs that exist, with their free addresses, by ID.
	SubnetsByID(ctx context.Context, ids []string) ([]Subnet, error)
	// PodNetwork returns how a class determines the addresses of pods; the zero value if it does not. Fails with
	// ErrClassNotReady while the class is not resolved.
	PodNetwork(ctx context.Context, class ClassRef) (PodNetwork, error)
	// ReserveENIs sets how many interfaces of each node pods cannot use.
	ReserveENIs(n int)
	// DelegatePrefixes sets whether pods get /28 prefixes of subnets. Only then are Scattered addresses counted.
	DelegatePrefixes(on bool)
}

// PodNetwork is how a node class determines the addresses of pods.
type PodNetwork struct {
	Single  bool     // they are given one by one, instead of in prefixes
	Custom  bool     // they are in Subnets, instead of those of the nodes
	Subnets []Subnet // by ID
}

// Subnet is a subnet and the number of its free addresses at a time.
type Subnet struct {
	ID, Zone  string
	CIDR      string // its range of IPv4 addresses; "" if unknown
	Free      int64
	Scattered int64 // of Free, those that nodes whose pods get /28 prefixes cannot use; 0 if not counted
	At        time.Time
}

// Reserver is a provider with capacity reservations.
type Reserver interface {
	// Reservations returns the reservations that a class selects and from which instances can be launched, by ID. A
	// launch uses one if its Requirements name the capacity type reserved and include the reservation's labels. Fails
	// with ErrClassNotReady while the class is not resolved.
	Reservations(ctx context.Context, class ClassRef) ([]model.Reservation, error)
}

// Placer is a provider that distributes the instances of a class, for example over the partitions of a placement
// group.
type Placer interface {
	// Placement returns the labels of which a launch must choose one value each, if the class has any. Requirements of
	// the launch may restrict the choice.
	Placement(ctx context.Context, class ClassRef) (model.Requirements, error)
}

// ZoneShifter is a provider that knows from which zones traffic is shifted away. It launches nothing there.
type ZoneShifter interface {
	// ShiftedZones asks the cloud for the zones from which traffic is shifted away now, by name.
	ShiftedZones(ctx context.Context) ([]ShiftedZone, error)
}

// ShiftedZone is a zone from which traffic is shifted away.
type ShiftedZone struct {
	Zone, ID string
	Until    time.Time // zero if unknown
}

// Ender is a provider that knows why an instance ended.
type Ender interface {
	// Ended returns why an instance has ended or is ending; the zero Ending while it runs or if the reason is unknown.
	Ended(ctx context.Context, id string) (Ending, error)
}

// Ending is why an instance ended.
type Ending struct {
	Code    string // the cloud's, such as Client.InvalidKMSKey.InvalidState
	Message string
	// AtLaunch means that the instance could not start as its class describes it. Another one would end in the same
	// way.
	AtLaunch bool
}
