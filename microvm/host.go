package microvm

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// ErrUnknown is returned by a Host that has no microVM with the given ID.
var ErrUnknown = errors.New("the host has no such microVM")

// Host runs pods in microVMs on one instance. All methods are safe for concurrent use and return quickly: slow work,
// such as pulling images and booting, continues in the background and shows in Status.
type Host interface {
	// Describe returns the host's identity, capacity and current state.
	Describe() Description
	// Start starts running a pod and returns the microVM's address. It is idempotent: the same ID gives the same
	// microVM, even after a restart of either side. An error means that the pod cannot run on this host now.
	Start(ctx context.Context, spec Spec) (netip.Addr, error)
	// Status returns the status of a microVM's pod, or ErrUnknown.
	Status(ctx context.Context, id string) (Status, error)
	// Stop ends a pod's containers: preStop hooks and SIGTERM, then SIGKILL after graceSeconds. It returns at once;
	// Status shows when they have ended.
	Stop(ctx context.Context, id string, graceSeconds int64) error
	// Remove deletes a microVM, running or not. It returns ErrUnknown if there is none.
	Remove(ctx context.Context, id string) error
	// List returns the IDs of all microVMs that have not been removed, ended ones included.
	List(ctx context.Context) ([]string, error)
	// Watch calls changed with the ID of each microVM whose status changes, and with "" when the host itself changes,
	// until ctx is done.
	Watch(ctx context.Context, changed func(id string))
}

// Follower is implemented by a Host that does not read its pods from the API server and must be passed their updates.
type Follower interface {
	// Follow passes the current pod of a microVM to the host.
	Follow(ctx context.Context, id string, pod *corev1.Pod) error
}

// Description describes a host: its identity, capacity and state.
type Description struct {
	Name         string // unique, a valid label value
	Region, Zone string // "" if unknown
	// Billed is set if pods cost what AWS Fargate charges in Region; otherwise their price is unknown.
	Billed    bool
	Arch      string // as in kubernetes.io/arch
	Engine    string // KVM, TCG or Namespace
	Capacity  fargate.Size
	MaxPods   int
	Abilities fargate.Abilities
	Version   string // of the program that runs pods, for the Node
	Kernel    string // of the guest
	// Address is where other instances reach the host; the zero address for a host on the API server's own instance.
	Address netip.Addr
	// Kubelet returns the endpoint at which the API server reaches the kubelet API of a microVM, given the microVM's
	// address; nil if the API server cannot reach it.
	Kubelet func(microVM netip.Addr) netip.AddrPort
	Ready   bool
	// Starting is set while it is unknown whether the host is ready. A host that is neither ready nor starting is lost.
	Starting bool
	// Unschedulable is set on a host that accepts no more pods.
	Unschedulable bool
	Message       string // why the host is not ready
}

// Spec is a pod to run.
type Spec struct {
	ID   string // of the microVM: a DNS label
	Pod  *corev1.Pod
	Size fargate.Size
	// Profile is the FargateProfile that selected the pod.
	Profile string
}

// Status is the status of a pod in a microVM. Pod holds the phase, container statuses and all conditions but
// PodScheduled.
type Status struct {
	Pod corev1.PodStatus
	// Ended is set when no container runs and none will be started.
	Ended bool
}

// Watchers implements Watch for a Host. The zero value is ready to use.
type Watchers struct {
	mu      sync.Mutex
	changed map[*func(id string)]struct{}
}

// Watch passes notifications to changed until ctx is done. First it notifies changed of the host and of the microVMs
// that existing returns, since they may have changed before the watch began.
func (w *Watchers) Watch(ctx context.Context, changed func(id string), existing func() []string) {
	w.mu.Lock()
	if w.changed == nil {
		w.changed = map[*func(string)]struct{}{}
	}
	w.changed[&changed] = struct{}{}
	w.mu.Unlock()
	changed("")
	for _, id := range existing() {
		changed(id)
	}
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.changed, &changed)
}

// Notify tells all watchers that a microVM, or with "" the host, has changed.
func (w *Watchers) Notify(id string) {
	w.mu.Lock()
	all := make([]*func(string), 0, len(w.changed))
	for changed := range w.changed {
		all = append(all, changed)
	}
	w.mu.Unlock()
	for _, changed := range all {
		(*changed)(id)
	}
}

// HostLabel names the host of a microVM on its NodeClaim and Node.
const HostLabel = "nodeless.sh/host"

// PodAnnotation is on the NodeClaim and Node of a microVM: namespace/name of its pod.
const PodAnnotation = "nodeless.sh/pod"

// NodeName returns the name of the Node of the microVM with address ip, in Fargate's format.
func NodeName(ip netip.Addr, region string) string {
	name := fargate.NodePrefix + strings.NewReplacer(".", "-", ":", "-").Replace(ip.StringExpanded())
	switch region {
	case "":
		return name
	case "us-east-1":
		return name + ".ec2.internal"
	}
	return name + "." + region + ".compute.internal"
}

// JoinedNodeName returns the name of the Node of a microVM on a host that has joined the cluster. It depends only on
// the address, so the Node names under which a host may act are known in advance (package rbac).
func JoinedNodeName(ip netip.Addr) string { return NodeName(ip, "") }

// KubeletEndpoints locates the kubelet APIs of a host that serves them at its own address, not on loopback. Each
// microVM's API has a port derived from the microVM's address: host and controller compute it and store nothing.
type KubeletEndpoints struct {
	Host      netip.Addr
	FirstPort uint16       // of the first address in Pods
	Pods      netip.Prefix // the IPv4 addresses of the host's microVMs
}

// At returns the endpoint for the address of a microVM, or the zero value if the address is not in Pods.
func (k KubeletEndpoints) At(microVM netip.Addr) netip.AddrPort {
	if !microVM.Is4() || !k.Pods.Contains(microVM) {
		return netip.AddrPort{}
	}
	address, first := microVM.As4(), k.Pods.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(address[:]) - binary.BigEndian.Uint32(first[:])
	return netip.AddrPortFrom(k.Host, k.FirstPort+uint16(n))
}

// GateConditions returns the pod's conditions that its readiness gates name.
func GateConditions(pod *corev1.Pod) (of []corev1.PodCondition) {
	for _, c := range pod.Status.Conditions {
		if slices.Contains(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: c.Type}) {
			of = append(of, c)
		}
	}
	return of
}
