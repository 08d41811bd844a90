package nodesim

import (
	"context"
	"net/netip"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// Instance is a booted instance, as far as the simulator needs it.
type Instance struct {
	ID         string
	ProviderID string
	Name       string // the Node's name, as NodeName says
	IP         netip.Addr
	Type       *catalog.Type // nil if unknown: such an instance joins no cluster
	Zone       string
	ZoneID     string
	Region     string
	UserData   []byte // decoded
	RootDisk   int64  // bytes of the volume that holds containers; 0 = the image's default
	Claim      string // name of its NodeClaim; "" if unknown
	// Labels are set on the Node in addition to those of its kubelet and user data.
	Labels map[string]string

	fake bool // stands for a Node that has no instance
}

// EventKind is a change of an instance.
type EventKind int

// Changes of an instance.
const (
	Booted EventKind = iota // its kubelet starts; also sent for instances that booted before the watch began
	Ending                  // it is shutting down: its processes stop
	Gone                    // it is terminated
)

// Event is a change of an instance.
type Event struct {
	Kind     EventKind
	Instance Instance
}

// Instances is the source of instances.
type Instances interface {
	// Watch delivers the existing instances, then every change, in order, until ctx is done.
	Watch(ctx context.Context) <-chan Event
	// SetCNI says how the VPC CNI of an instance is configured, and how many pods its kubelet takes.
	SetCNI(instanceID string, c catalog.CNI, maxPods int)
	// SetPodNetwork says in which subnet and security groups the interfaces for pods of an instance are under custom
	// networking.
	SetPodNetwork(instanceID, subnet string, securityGroups []string) error
	// AssignPodIP takes an address for a pod from the instance's subnet; a pod gets the same address again.
	AssignPodIP(instanceID, podUID string) (netip.Addr, error)
	// AttachTrunk gives an instance a trunk interface, unless it has one.
	AttachTrunk(instanceID string) error
	// AssignBranch gives a pod a branch of its instance's trunk, in security groups; none = in those of the trunk. A pod
	// gets the same one again.
	AssignBranch(instanceID, podUID string, securityGroups []string) (Branch, error)
	// SetBranchCooldown says how long the branch of a pod that has ended keeps its place, 0 = the default, and returns
	// what holds.
	SetBranchCooldown(d time.Duration) time.Duration
	// ReleasePodIP releases a pod's address or branch; it ignores unknown pods.
	ReleasePodIP(podUID string)
	// PodsWithIP returns the UIDs of the pods that hold an address.
	PodsWithIP() []string
}
