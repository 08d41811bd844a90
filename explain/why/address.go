package why

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// What the kubelet of an EKS node reports about a pod to which the VPC CNI cannot assign an IP address.
const (
	reasonNoSandbox = "FailedCreatePodSandBox"
	textNoAddress   = "failed to assign an IP address to container"
)

// hostPods is the number of pods on the host network in EKS's formula for max pods: aws-node and kube-proxy.
const hostPods = 2

// address explains why a pod that is bound to a node gets no IP address there. It says nothing about other pods.
func (q *podQuestion) address(ctx context.Context) {
	pod := q.pod
	n := q.nodeNamed(pod.Spec.NodeName)
	node := q.c.State.Node(pod.Spec.NodeName)
	if n == nil || node == nil || pod.Status.Phase != corev1.PodPending || pod.Status.PodIP != "" ||
		pod.DeletionTimestamp != nil || !q.lacksAddress(ctx) {
		return
	}
	q.conclude(q.a.State, NoAddress, "it is bound to %s and cannot start: the node has no IP address left for it",
		nodeText(n))
	if v1beta1.AsksForBranch(pod) {
		q.say("what helps", "the pod needs a branch network interface: its event BranchAllocationFailed says why EC2 "+
			"creates none, such as a missing security group or a subnet without addresses")
		return
	}
	own, host := holders(q.c.State.PodsOnNode(n.Name))
	t, ok := catalog.Lookup(n.Type)
	if !ok || t.MaxENIs == 0 {
		return
	}
	cni := catalog.DefaultCNI()
	if c := q.c.State.CNI(); c != nil {
		cni = *c
	}
	enis, room := cni.PodENIs(t), cni.PodAddresses(t)
	takes := int(node.Status.Allocatable.Pods().Value())
	q.sayf("addresses", "%s has %s%s with %d pod addresses each, %d in all; %d in use",
		n.Type, reason.Count(enis, "network interface"), besides(&cni, t), room/max(enis, 1), room, own)
	q.sayf("kubelet allows", "%s; %d use the host network and need no address", reason.Count(takes, "pod"), host)
	if own < room && cni.Custom(t) {
		q.say("what helps", "the node has no ENIConfig that it can use, or its subnet has no free address: the condition "+
			"NodelessPodNetworkReady of NodePool "+n.Pool+" and the events of the node's pod of aws-node say which")
		return
	}
	q.say("what helps", moreAddresses(own, room, takes, q.classOf(n)))
}

// holders counts the pods with an address of the node's interfaces, and those on the host network.
func holders(pods []*corev1.Pod) (own, host int) {
	for _, p := range pods {
		switch {
		case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || v1beta1.AsksForBranch(p):
		case p.Spec.HostNetwork:
			host++
		case p.Status.PodIP != "" || p.Status.Phase == corev1.PodRunning: // a capture has no addresses
			own++
		}
	}
	return own, host
}

// besides says which interfaces of a node are not for pods; "" if there are none.
func besides(cni *catalog.CNI, t *catalog.Type) string {
	var others []string
	if cni.Custom(t) {
		others = append(others, "the first one under custom networking")
	}
	if cni.Branches(t) > 0 {
		others = append(others, "its trunk")
	}
	if len(others) == 0 {
		return ""
	}
	return " for pods (beside " + strings.Join(others, " and ") + ")"
}

// branches says how to make nodes offer branch interfaces, if the pod requests one and they offer none.
func (q *podQuestion) branches() {
	if cni := q.c.State.CNI(); cni != nil && !cni.PodENI && v1beta1.AsksForBranch(q.pod) {
		q.say("what helps", "nodes offer "+v1beta1.PodENI+" only while the VPC CNI has security groups for pods: "+
			"kubectl set env daemonset "+catalog.CNIContainer+" -n kube-system ENABLE_POD_ENI=true")
	}
}

// moreAddresses says what helps a node whose interfaces provide room addresses, used of them in use, and whose
// kubelet allows takes pods.
func moreAddresses(used, room, takes int, class string) string {
	switch {
	case used < room:
		return "the node's subnet has no free address: free some, or add subnets to subnetSelectorTerms of " + class
	case takes > room+hostPods:
		return fmt.Sprintf("set spec.kubelet.maxPods of %s to at most %d (%d addresses and %d pods on the host network), "+
			"or remove it; "+
			"existing nodes drift and are replaced", class, room+hostPods, room, hostPods)
	}
	return "delete the pod, so that its owner creates another elsewhere; EKS's max pods assumes aws-node and " +
		"kube-proxy, which need no address, " +
		"and this node does not run both"
}

// lacksAddress reports whether the last event about the pod's sandbox says that no address is available.
func (q *podQuestion) lacksAddress(ctx context.Context) bool {
	all, err := q.past.events(ctx, q.of)
	if err != nil {
		return false // events reports what could not be read
	}
	for i := len(all) - 1; i >= 0; i-- {
		if e := &all[i]; e.Reason == reasonNoSandbox && e.InvolvedObject.UID == q.pod.UID {
			return strings.Contains(e.Message, textNoAddress)
		}
	}
	return false
}

// classOf names the EC2NodeClass of a node.
func (q *podQuestion) classOf(n *model.Node) string {
	if np := q.c.State.NodePool(n.Pool); np != nil {
		return "EC2NodeClass " + np.Spec.Template.Spec.NodeClassRef.Name
	}
	return "its EC2NodeClass"
}
