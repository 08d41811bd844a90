package nodesim

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/nodeless/nodeless/catalog"
)

// The VPC CNI's DaemonSet and its label, as EKS installs them.
const (
	cniNamespace = "kube-system"
	cniLabel     = "k8s-app"
	cniApp       = catalog.CNIContainer
)

// cniState is the VPC CNI of a node. Where its pod has ended, no pod gets an address until the next one runs, as on
// EKS, where the CNI plugin then finds nobody to ask.
type cniState int

const (
	cniNone    cniState = iota // it has not run yet
	cniRunning                 // its pod runs
	cniDown                    // its pod has ended
)

func isCNI(pod *corev1.Pod) bool {
	return pod.Namespace == cniNamespace && pod.Labels[cniLabel] == cniApp
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

// awaitsCNI reports whether a node on which the VPC CNI has not run yet is about to get it. Until then its pods wait:
// on EKS the node would not be ready. A node that the DaemonSet leaves out has an address for each pod.
func (s *Simulator) awaitsCNI(name string) bool {
	if s.cniOf(name) != cniNone {
		return false
	}
	d, err := s.cnis.DaemonSets(cniNamespace).Get(cniApp)
	if err != nil {
		return false
	}
	node, err := s.nodes.Get(name)
	if err != nil {
		return false
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: d.Spec.Template.Spec}).Match(node)
	return err == nil && matches
}

// setCNI records the state of the VPC CNI of an instance, and reports whether it is news.
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

// isNews reports whether the state of the VPC CNI, and its pod, are others than before.
func (b *instance) isNews(state cniState, pod string) bool {
	return (b.cni != state || b.cniPod != pod && state == cniRunning) && (b.cniPod == pod || state != cniDown)
}

// startCNI configures the VPC CNI of a node by the environment of its running pod of aws-node. The pods that wait for
// addresses are tried again, and get none before. Only then does the node offer branch interfaces, which brings pods.
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
	joined := s.joinPodNetwork(ctx, m, &waitingNetwork{cni: c, maxPods: maxPods, pod: pod})
	s.setCNI(m, cniRunning, string(pod.UID))
	s.enqueuePods(m.Name)
	if joined {
		s.controller.startFeatures(ctx, m, c)
	}
}

// startBuiltInCNI configures the VPC CNI of a node of EKS Auto Mode, which has it without a DaemonSet: it gives
// prefixes, unless the kubelet takes no more pods than the interfaces hold single addresses (ipv4PrefixSize: "32" of
// the NodeClass).
func (s *Simulator) startBuiltInCNI(m *Instance) {
	if m.fake || m.Name != m.ID || s.cniOf(m.Name) != cniNone { // Auto Mode's nodes are named by their instances
		return
	}
	k, err := kubeletOf(*m)
	if err != nil || !s.setCNI(m, cniRunning, "") {
		return
	}
	single := k.MaxPods < catalog.AutoModeMaxPods && int64(k.MaxPods) == catalog.MaxPods(m.Type, 0, false)
	c := catalog.DefaultCNI()
	c.PrefixDelegation = !single
	s.o.Instances.SetCNI(m.ID, c, k.MaxPods)
}

// stopCNI records that a pod of aws-node has ended.
func (s *Simulator) stopCNI(pod *corev1.Pod) {
	if m := s.instance(pod.Spec.NodeName); m != nil {
		s.setCNI(m, cniDown, string(pod.UID))
	}
}

// environment returns the variables of a pod of aws-node. Those that refer to other objects are left out.
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
