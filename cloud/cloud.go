// Package cloud is the contract between Nodeless and whatever launches its instances.
//
// A provider implements Provider: it says what can be launched under a node class, launches and terminates instances,
// and finds them again. What not every cloud can do is an interface of its own: Interrupter (notices of instances that
// will be taken away), HealthChecker, Drifter, Repairer, Ender and Observed. A caller asks for an ability with a type
// assertion.
//
// Two rules make providers safe to use from a controller that may crash at any line. Launch is idempotent by its token:
// the same token never starts a second instance. And List finds every instance of the cluster by its tags, so that none
// is forgotten.
//
// Errors wrap the sentinels of this package, which say what to do next: launch something else (ErrNoCapacity), wait
// (ErrThrottled, ErrClassUnresolved), or tell somebody (ErrRefused, ErrUnauthorized, ErrClassNotReady).
//
// cloudtest.Run is the conformance suite that every provider passes.
package cloud

import (
	"context"
	"errors"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Errors that providers return, wrapped with act, object and cause.
var (
	// ErrNotFound: the instance does not exist (any more).
	ErrNotFound = errors.New("instance not found")
	// ErrNoCapacity: none of the offerings asked for could be had. LaunchResult.Exhausted says which were tried.
	ErrNoCapacity = errors.New("no capacity")
	// ErrClassNotReady: the node class is missing or could not be resolved; its conditions say why.
	ErrClassNotReady = errors.New("node class not ready")
	// ErrClassUnresolved: nobody knows yet whether the class is ready; the same call may be made again soon. It comes
	// wrapped together with ErrClassNotReady.
	ErrClassUnresolved = errors.New("node class not resolved yet")
	// ErrThrottled: the cloud asks to slow down; the same call may be made again later.
	ErrThrottled = errors.New("throttled")
	// ErrRefused: the cloud refuses the launch as its class describes it and started nothing. The same call fails again
	// until somebody changes the class, the pool or the account.
	ErrRefused = errors.New("launch refused")
	// ErrUnauthorized: credentials or permissions are missing. Trying again does not help.
	ErrUnauthorized = errors.New("not authorized")
)

// ClassRef names a node class object of the cluster.
type ClassRef struct{ Group, Kind, Name string }

// Provider launches and terminates instances. All methods are safe for concurrent use and stop when ctx does.
type Provider interface {
	// Name is short and fixed, such as "aws".
	Name() string
	// Catalog is what can be had under a node class, by name; capacity and overhead follow the class's settings.
	// Resources are at the fixed indices of model.WellKnownResources. The result is shared: do not change it. It is the
	// same slice as long as nothing changed. Fails with ErrClassNotReady.
	Catalog(ctx context.Context, class ClassRef) ([]model.InstanceType, error)
	// Launch starts one instance. It is idempotent by Token: the same token gives the same instance again, also after a
	// crash of the caller. A launch that succeeded may still report offerings that were found exhausted on the way.
	// Fails with ErrNoCapacity (and Exhausted filled), ErrClassNotReady, ErrThrottled, ErrUnauthorized, ErrRefused.
	Launch(ctx context.Context, req LaunchRequest) (LaunchResult, error)
	// Terminate asks for the end of an instance; nil means that it is on its way, ErrNotFound that it is gone for good.
	// Calling it again is harmless.
	Terminate(ctx context.Context, id string) error
	// Get finds one instance by id; ErrNotFound if it is gone (terminated counts as gone).
	Get(ctx context.Context, id string) (Instance, error)
	// List is every instance of this cluster that is not terminated, whoever launched it, found by tag.
	List(ctx context.Context) ([]Instance, error)
}

// LaunchRequest asks for one instance out of several candidates.
type LaunchRequest struct {
	Token         string // the NodeClaim's UID
	Claim         string // the NodeClaim's name
	Pool          string // "" for a claim of no pool
	Class         ClassRef
	Requirements  model.Requirements // what type, zone and capacity type must satisfy
	Requests      model.Resources    // what the instance must hold
	Labels        map[string]string  // labels the Node is to register with
	Taints        []model.Taint      // taints the Node is to register with
	StartupTaints []model.Taint
	// Unavailable are offerings known to be exhausted; they are not to be tried.
	Unavailable map[model.OfferingKey]bool
	// Prices are what offerings count for instead of what the cloud asks for them; nil if the cloud's prices count.
	Prices map[model.OfferingKey]model.Price
}

// LaunchResult is an instance that was started.
type LaunchResult struct {
	Instance  Instance
	Exhausted []model.OfferingKey // offerings the cloud had no capacity for
}

// Instance is an instance as the cloud knows it.
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
	// Subnet and SecurityGroups are where the instance is in the cloud's network; "" and nil when not known (from Launch).
	Subnet         string
	SecurityGroups []string
	State          InstanceState
	Launched       time.Time
	// Labels are what the cloud decides about the Node: instance type, zone, capacity type, arch and so on.
	Labels map[string]string
	// Capacity and Allocatable are what is expected of the Node; zero when not known (from List and Get).
	Capacity, Allocatable model.Resources
}

// InstanceState is the life of an instance.
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
	// Interruptions returns the notices that wait, hundreds at a time if there are so many; it blocks up to a poll
	// interval while there is none. A notice comes again until Done was called on it, and may come twice or late: order
	// says nothing. What waits there and is no notice comes too, as NoOp or Malformed, to be counted and taken off.
	Interruptions(ctx context.Context) ([]Interruption, error)
	// Done takes notices off. Those that could not be taken off come again.
	Done(ctx context.Context, notices ...Interruption) error
}

// HealthChecker is a provider that checks the health of its instances itself.
type HealthChecker interface {
	// Unhealthy is the instances that fail the cloud's checks for a while already, or that it announces maintenance of. It
	// says so again as long as it is so. Fails with ErrUnauthorized where the caller may not know.
	Unhealthy(ctx context.Context) ([]Interruption, error)
}

// Interruption is a notice about instances.
type Interruption struct {
	InstanceIDs []string
	Kind        InterruptionKind
	At          time.Time // when it came about; zero if the notice does not say
	Sent        time.Time // when it was put where it was found; zero if that is not known
	Note        string    // of Malformed: what is wrong
	Handle      string    // the provider's own, for Done
}

// InterruptionKind says what will happen, or has. Its values are those of Karpenter's metric label message_type.
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
	SystemFailed            InterruptionKind = "system_status"   // the check of the host below it fails
	MaintenanceDue          InterruptionKind = "event_status"    // the cloud plans to stop, restart or retire it
	NoOp                    InterruptionKind = "no_op"           // not about the life of instances
	Malformed               InterruptionKind = "malformed"       // cannot be read
)

// Observer receives what a provider does, for metrics. Its methods are quick and safe for concurrent use.
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

// Drifter is a provider that knows when an instance is no longer what its node class asks for.
type Drifter interface {
	// Drifted is why an instance no longer is what its class asks for, such as "AMIDrift"; "" if it is. Fails with
	// ErrClassNotReady while the class cannot say what it asks for, and with ErrNotFound for an instance that is gone.
	Drifted(ctx context.Context, m Launched) (reason string, err error)
}

// Launched is what is known of an instance since its launch.
type Launched struct {
	InstanceID string
	Class      ClassRef
	Type       string
	ImageID    string
	// Annotations are those of the NodeClaim; hashes of its class are among them.
	Annotations map[string]string
}

// Repairer is a provider that knows which conditions of a Node mean that its instance should be replaced.
type Repairer interface {
	RepairPolicies() []RepairPolicy
}

// RepairPolicy is one condition of a Node that is not put up with for ever.
type RepairPolicy struct {
	Condition  string // its type, such as "Ready"
	Status     string // "False" or "Unknown"
	Toleration time.Duration
}

// Ender is a provider that knows why an instance ended.
type Ender interface {
	// Ended is why an instance ended, or is about to; the zero Ending while it runs, and when that is not known any more.
	Ended(ctx context.Context, id string) (Ending, error)
}

// Ending is why an instance ended.
type Ending struct {
	Code    string // the cloud's, such as Client.InvalidKMSKey.InvalidState
	Message string
	// AtLaunch: it could not be started as its class describes it. Another one would end alike.
	AtLaunch bool
}
