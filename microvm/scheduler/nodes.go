package scheduler

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/lease"
	"github.com/nodeless/nodeless/microvm"
)

// nodes maintains the Node of each pod: it creates it, renews its lease, and updates its readiness and kubelet
// endpoint.
type nodes struct {
	o     *Options
	pods  *records
	hosts *hosts
}

// create creates the Node of a microVM. It fails, to be retried, while a Node of the same name exists: that of an
// earlier pod with the same address.
func (n *nodes) create(ctx context.Context, claim *karpv1.NodeClaim, hostName string, ip netip.Addr) error {
	host := n.hosts.get(hostName)
	if host == nil {
		return fmt.Errorf("host %s of NodeClaim %s is not registered", hostName, claim.Name)
	}
	n.pods.update(podUID(claim), func(p *record) { p.address = ip })
	node := newNode(claim, host.Describe(), ip, metav1.NewTime(n.o.Clock.Now()))
	err := n.o.Client.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		have := &corev1.Node{}
		if err := n.o.Client.Get(ctx, client.ObjectKeyFromObject(node), have); err == nil && podUID(have) == podUID(claim) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("create Node %s: %w", node.Name, err)
	}
	return nil
}

// leases returns the Nodes whose leases are to be renewed: those on hosts that are ready, or that are starting while
// their microVMs keep running.
func (n *nodes) leases() []lease.Node {
	hosts := n.hosts.describe()
	wanted := func(p record) bool {
		return p.node != "" && p.claim != nil && (hosts[p.claim.host].Ready || hosts[p.claim.host].Starting)
	}
	var out []lease.Node
	for _, p := range n.pods.each(wanted) {
		node := &corev1.Node{}
		err := n.o.Cache.Get(context.Background(), client.ObjectKey{Name: p.node}, node, client.UnsafeDisableDeepCopy)
		if err == nil {
			out = append(out, lease.Node{Name: p.node, UID: node.UID})
		}
	}
	return out
}

// setReady records on a pod's Node whether its host is ready, and if not, why.
func (n *nodes) setReady(ctx context.Context, uid types.UID, ready bool, why string) error {
	return n.patch(ctx, n.pods.get(uid).node, func(node *corev1.Node) bool {
		want := nodeConditions(ready, why, metav1.NewTime(n.o.Clock.Now()))[0]
		have := conditions.OfNode(node, corev1.NodeReady)
		if have == nil || have.Status == want.Status && have.Reason == want.Reason {
			return false
		}
		*have = want
		return true
	})
}

// updateKubelet keeps the kubelet endpoint of a pod's Node current: a restarted host may serve it elsewhere.
func (n *nodes) updateKubelet(ctx context.Context, pod *corev1.Pod, d microvm.Description) error {
	ip := n.address(ctx, pod)
	if d.Kubelet == nil || !ip.IsValid() {
		return nil
	}
	return n.patch(ctx, pod.Spec.NodeName, func(node *corev1.Node) bool {
		before := node.Status.DeepCopy()
		setKubelet(&node.Status, d, ip)
		return node.Status.DaemonEndpoints != before.DaemonEndpoints ||
			!slices.Equal(node.Status.Addresses, before.Addresses)
	})
}

// patch writes the status of a Node if the Node exists and change reports that it changed the status.
func (n *nodes) patch(ctx context.Context, name string, change func(*corev1.Node) bool) error {
	before := &corev1.Node{}
	if name == "" {
		return nil
	}
	if err := n.o.Cache.Get(ctx, client.ObjectKey{Name: name}, before, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	node := before.DeepCopy()
	if !change(node) {
		return nil
	}
	if err := n.o.Client.Status().Patch(ctx, node, client.StrategicMergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of Node %s: %w", name, err)
	}
	return nil
}

// address returns the address of a bound pod's microVM: the one that its host returned or, for a microVM that an
// earlier process started, the one on its Node.
func (n *nodes) address(ctx context.Context, pod *corev1.Pod) netip.Addr {
	ip := n.pods.get(pod.UID).address
	if ip.IsValid() {
		return ip
	}
	node := &corev1.Node{}
	if err := n.o.Cache.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node,
		client.UnsafeDisableDeepCopy); err != nil {
		return ip
	}
	if noted, err := netip.ParseAddr(node.Annotations[annotationIP]); err == nil {
		return noted
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			ip, _ = netip.ParseAddr(a.Address) // the zero address means that there is none
		}
	}
	return ip
}
