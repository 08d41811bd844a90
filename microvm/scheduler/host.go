// Package scheduler gives pods of FargateProfiles their microVMs: each pod gets a NodeClaim, a Node of its own and a place on one of
// the registered hosts. It is the scheduler "fargate-scheduler", the kubelet of these Nodes as far as the API is concerned, and a
// cloud.Provider, so that controller/nodeclaim launches, registers, drains and terminates them as it does every other machine.
package scheduler

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// ErrUnknown is what a host says of a microVM that it does not have.
var ErrUnknown = errors.New("the host has no such microVM")

// Host runs pods in microVMs on one machine. All methods are safe for concurrent use and return soon: what takes long, such as
// pulling images and booting, goes on in the background and shows in Status.
type Host interface {
	// Describe is what the host is and has now.
	Describe() Description
	// Start begins to run a pod and says its address. The same ID again gives the same microVM, also after a restart of either
	// side. An error says that the pod cannot be run on this host now.
	Start(ctx context.Context, spec Spec) (netip.Addr, error)
	// Status is what has become of a microVM's pod. Fails with ErrUnknown.
	Status(ctx context.Context, id string) (Status, error)
	// Stop ends a pod's containers: hooks and SIGTERM, and SIGKILL after graceSeconds. It returns at once; Status tells the end.
	Stop(ctx context.Context, id string, graceSeconds int64) error
	// Remove takes away everything of a microVM, running or not; ErrUnknown if there is nothing.
	Remove(ctx context.Context, id string) error
	// List is the IDs of all microVMs, ended ones included, until they are removed.
	List(ctx context.Context) ([]string, error)
	// Watch calls changed whenever the status of a microVM changes, and with "" when the host itself does, until ctx is done.
	Watch(ctx context.Context, changed func(id string))
}

// Follower is a host that does not read its pods from the API server, but is told what becomes of them there.
type Follower interface {
	// Follow tells the host of the pod of a microVM as it is now.
	Follow(ctx context.Context, id string, pod *corev1.Pod) error
}

// Description is what a host is and has.
type Description struct {
	Name         string // unique, a valid value of a label
	Region, Zone string // "" if they are not known
	Arch         string // as in kubernetes.io/arch
	Engine       string // KVM, TCG or Namespace
	// Room is what microVMs may have together.
	Room fargate.Size
	// MostPods is how many there may be.
	MostPods  int
	Abilities fargate.Abilities
	Version   string // of the program that runs pods, for the Node
	Kernel    string // of the guest
	// Address is where others reach the host itself; the zero address = it is on the API server's machine.
	Address netip.Addr
	// Kubelet is where the API server finds the kubelet API of the microVM with an address; nil = nowhere.
	Kubelet func(microVM netip.Addr) netip.AddrPort
	Ready   bool
	// Starting: whether it is ready is not known yet. A host that is not ready and not starting is lost.
	Starting bool
	// Unschedulable: it takes no more pods.
	Unschedulable bool
	Message       string // why it is not ready
}

// Spec is a pod to be run.
type Spec struct {
	ID   string // of the microVM: a DNS label
	Pod  *corev1.Pod
	Size fargate.Size
	// Profile is the FargateProfile by which the pod is here.
	Profile string
}

// Status is what has become of a pod. Pod's phase, container statuses and conditions but PodScheduled are filled.
type Status struct {
	Pod corev1.PodStatus
	// Ended: no container runs any more, and none will be started.
	Ended bool
}
