package nodesim

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// Instance holds what the simulator needs of a booted instance.
type Instance struct {
	ID         string
	ProviderID string
	Name       string // the Node's name; see NodeName
	IP         netip.Addr
	Type       *catalog.Type // nil if unknown: such an instance joins no cluster
	Zone       string
	ZoneID     string
	Region     string
	UserData   []byte // decoded
	Windows    string // the version of Windows Server, such as 2022; "" = Linux
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

// Selector selects subnets or security groups by ID, or by tags, all of which must match; * matches any value.
type Selector struct {
	ID   string            `json:"id"`
	Tags map[string]string `json:"tags"`
}

// Selects reports whether one of the selectors selects an object with an ID and tags.
func Selects(list []Selector, id string, tags map[string]string) bool {
	return slices.ContainsFunc(list, func(s Selector) bool {
		if s.ID != "" {
			return s.ID == id
		}
		for key, want := range s.Tags {
			if have, ok := tags[key]; !ok || want != "*" && want != have {
				return false
			}
		}
		return true
	})
}

// Instances is the source of instances.
type Instances interface {
	// Watch delivers the existing instances, then every change, in order, until ctx is done.
	Watch(ctx context.Context) <-chan Event
	// SetCNI configures an instance's VPC CNI and the maximum number of pods of its kubelet.
	SetCNI(instanceID string, c catalog.CNI, maxPods int)
	// SetPodNetwork sets the subnet and security groups of an instance's pod interfaces under custom networking.
	SetPodNetwork(instanceID, subnet string, securityGroups []string) error
	// SelectPodNetwork does the same with the subnet in the instance's zone that has the most free addresses of those
	// selected, and with the security groups selected.
	SelectPodNetwork(instanceID string, subnets, securityGroups []Selector) error
	// AssignPodIP assigns a pod an address of its instance's interfaces; the same pod gets the same address again.
	AssignPodIP(instanceID, podUID string) (netip.Addr, error)
	// AttachTrunk attaches a trunk interface to an instance, unless it has one.
	AttachTrunk(instanceID string) error
	// AssignBranch assigns a pod a branch of its instance's trunk, in the given security groups or, if there are none,
	// in the trunk's. The same pod gets the same branch again.
	AssignBranch(instanceID, podUID string, securityGroups []string) (Branch, error)
	// SetBranchCooldown sets how long the branch of an ended pod is kept, 0 = the default, and returns the effective
	// value.
	SetBranchCooldown(d time.Duration) time.Duration
	// ReleasePodIP releases a pod's address or branch; it ignores unknown pods.
	ReleasePodIP(podUID string)
	// PodsWithIP returns the UIDs of the pods that hold an address.
	PodsWithIP() []string
}
