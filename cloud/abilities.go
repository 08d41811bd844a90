package cloud

import (
	"context"
	"time"
)

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
