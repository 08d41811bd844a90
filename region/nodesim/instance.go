package nodesim

import (
	"context"
	"net/netip"

	"github.com/nodeless/nodeless/catalog"
)

// Instance is a booted instance, as the simulator needs to see it.
type Instance struct {
	ID         string
	ProviderID string
	Name       string // private DNS name: the Node's name
	IP         netip.Addr
	Type       *catalog.Type // nil = nobody knows: such an instance joins no cluster
	Zone       string
	ZoneID     string
	Region     string
	UserData   []byte // decoded
	RootDisk   int64  // bytes of the volume with containers; 0 = as the image has it
	Claim      string // the NodeClaim for which it was launched; "" = none is known
	// Labels are those that the Node has beside what its kubelet and user data say.
	Labels map[string]string

	played bool // a Node that somebody else made, without an instance
}

// EventKind says what became of an instance.
type EventKind int

// What becomes of instances.
const (
	Booted EventKind = iota // its kubelet comes up; also sent for instances that had booted before the watch began
	Ending                  // it was told to shut down: its processes stop
	Gone                    // it is terminated
)

// Event is one change of one instance.
type Event struct {
	Kind     EventKind
	Instance Instance
}

// Instances is where instances come from.
type Instances interface {
	// Watch delivers the instances there are, then every change, in order, until ctx is done.
	Watch(ctx context.Context) <-chan Event
	// AssignPodIP takes an address for a pod out of the instance's subnet; the same again for the same pod.
	AssignPodIP(instanceID, podUID string) (netip.Addr, error)
	// ReleasePodIP gives it back; unknown pods are ignored.
	ReleasePodIP(podUID string)
	// PodsWithIP are the UIDs of the pods that hold an address.
	PodsWithIP() []string
}
