package nodesim

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/nodeless/nodeless/catalog"
)

// The DaemonSets of the VPC CNI and of kube-proxy, and their label, as EKS installs them.
const (
	cniNamespace = "kube-system"
	cniLabel     = "k8s-app"
	cniApp       = catalog.CNIContainer
	proxyApp     = "kube-proxy"
)

// cniState is the state of a node's VPC CNI. After its pod has ended, no pod gets an address until the next one runs:
// on EKS, the CNI plugin then finds no daemon to connect to.
type cniState int

const (
	cniNone    cniState = iota // has not run yet
	cniRunning                 // its pod runs
	cniDown                    // its pod has ended
)

func isCNI(pod *corev1.Pod) bool { return isDaemon(pod, cniApp) }

// isDaemon reports whether a pod is one of a DaemonSet that EKS installs.
func isDaemon(pod *corev1.Pod, name string) bool {
	return pod.Namespace == cniNamespace && pod.Labels[cniLabel] == name
}

// cniOf returns the state of a node's VPC CNI.
func (s *Simulator) cniOf(node string) cniState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.booted[node]; m != nil {
		return m.cni
	}
	return cniNone
}

// awaitsCNI reports whether the VPC CNI has not run on a node yet but is going to. Until then the node is not ready,
// and its pods wait. A node that the DaemonSet does not select has an address for each pod.
func (s *Simulator) awaitsCNI(m *Instance, node *corev1.Node) bool {
	return !m.fake && s.cniOf(m.Name) == cniNone && s.daemons.selects(node, cniApp)
}

// daemonSets are those of kube-system.
type daemonSets struct {
	appslisters.DaemonSetNamespaceLister
}

// selects reports whether there is a DaemonSet of this name that selects the node.
func (d daemonSets) selects(node *corev1.Node, name string) bool {
	set, err := d.Get(name)
	if err != nil {
		return false
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: set.Spec.Template.Spec}).Match(node)
	return err == nil && matches
}

// lackProxy reports whether a node with these pods gets kube-proxy, which does not run there yet. Until then aws-node
// does not become ready (https://repost.aws/knowledge-center/eks-cni-plugin-troubleshooting), so both are on the node
// before pods that take its addresses.
func (d daemonSets) lackProxy(node *corev1.Node, pods []*corev1.Pod) bool {
	return d.selects(node, proxyApp) && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return isDaemon(p, proxyApp) && p.Status.Phase == corev1.PodRunning
	})
}

// setCNI records the state of an instance's VPC CNI, and reports whether it has changed.
func (s *Simulator) setCNI(m *Instance, state cniState, pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.booted[m.Name]
	if b == nil || b.ID != m.ID || !b.isNews(state, pod) {
		return false
	}
	b.cni = state
	if state == cniRunning {
		b.cniPod = pod
	}
	return true
}

// isNews reports whether the given state and pod of the VPC CNI differ from the recorded ones.
func (b *instance) isNews(state cniState, pod string) bool {
	return (b.cni != state || b.cniPod != pod && state == cniRunning) && (b.cniPod == pod || state != cniDown)
}

// startCNI configures a node's VPC CNI from the environment of its running aws-node pod. It then retries the pods
// that wait for addresses; until then they get none. The node offers branch interfaces last, as these attract pods.
func (s *Simulator) startCNI(ctx context.Context, pod *corev1.Pod, m *Instance) {
	s.mu.Lock()
	b := s.booted[m.Name]
	news := b != nil && b.ID == m.ID && b.isNews(cniRunning, string(pod.UID))
	s.mu.Unlock()
	if !news {
		return
	}
	c, problems := catalog.ReadCNI(environment(pod))
	if len(problems) > 0 {
		s.event(m.Name, pod, corev1.EventTypeWarning, "InvalidEnvironment", "%s", strings.Join(problems, "; "))
	}
	maxPods := 0
	if k, err := kubeletOf(*m); err == nil {
		_, allocatable := resources(m.Type, k)
		maxPods = int(allocatable.Pods().Value())
	}
	joined := s.joinPodNetwork(ctx, m, &waitingNetwork{cni: c, maxPods: maxPods, about: pod})
	s.setCNI(m, cniRunning, string(pod.UID))
	s.queue.Add("node/" + m.Name)
	s.enqueuePods(m.Name, nil)
	if joined {
		s.controller.startFeatures(ctx, m, c)
	}
}

// labelNodeClass is the label of EKS Auto Mode's nodes that names their NodeClass.
const labelNodeClass = "eks.amazonaws.com/nodeclass"

// startBuiltInCNI configures the VPC CNI of an EKS Auto Mode node, which has no DaemonSet.
func (s *Simulator) startBuiltInCNI(ctx context.Context, m *Instance) {
	if m.fake || m.Name != m.ID || s.cniOf(m.Name) != cniNone { // Auto Mode's nodes are named after their instances
		return
	}
	k, err := kubeletOf(*m)
	if err != nil || !s.setCNI(m, cniRunning, "") {
		return
	}
	s.joinPodNetwork(ctx, m, &waitingNetwork{
		cni: catalog.AutoModeCNI(false, false), maxPods: k.MaxPods, nodeClass: k.Labels[labelNodeClass],
		about: nodeReference(m.Name),
	})
}

// stopCNI records that an aws-node pod has ended.
func (s *Simulator) stopCNI(pod *corev1.Pod) {
	if m := s.instance(pod.Spec.NodeName); m != nil {
		s.setCNI(m, cniDown, string(pod.UID))
	}
}

// environment returns the variables of an aws-node pod. Those that refer to other objects have no value.
func environment(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == cniApp || i == 0 {
			for _, v := range c.Env {
				out[v.Name] = v.Value
			}
		}
	}
	return out
}
