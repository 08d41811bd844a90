package nodesim

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/internal/kit/lease"
)

// runtimeVersion marks Nodes of this simulator.
const runtimeVersion = "simulated://1"

// kubeletPort is the port of every kubelet.
const kubeletPort = 10250

// Host finds the simulated node with a host name or address, and the node's address. node is "" if there is none. It
// returns an error for a node whose instance has ended.
func (s *Simulator) Host(name string) (node string, ip netip.Addr, err error) {
	if n, err := s.nodes.Get(name); err == nil {
		m := s.instance(name)
		switch {
		case m != nil:
			return name, m.IP, nil
		case n.Status.NodeInfo.ContainerRuntimeVersion == runtimeVersion:
			return "", ip, fmt.Errorf("the simulated instance of node %s does not run", name)
		}
		return "", ip, nil
	}
	if ip, err = netip.ParseAddr(name); err != nil {
		return "", ip, nil //nolint:nilerr // a host that is none of ours
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.booted {
		if m.IP == ip && !m.ending {
			return name, ip, nil
		}
	}
	for name := range s.fakes {
		if m := s.fakeInstance(name); m != nil && m.IP == ip {
			return name, ip, nil
		}
	}
	return "", ip, nil
}

// Pod returns a pod on a simulated node, which must not be changed.
func (s *Simulator) Pod(namespace, name string) (*corev1.Pod, bool) {
	pod, err := s.pods.Pods(namespace).Get(name)
	return pod, err == nil && s.instance(pod.Spec.NodeName) != nil
}

// Pods returns the pods of a node, which must not be changed.
func (s *Simulator) Pods(node string) []*corev1.Pod {
	objects, _ := s.byNode.ByIndex(indexByNode, node)
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// leaseNodes returns the Nodes whose leases to renew: those with a running instance, real or fake.
func (s *Simulator) leaseNodes() []lease.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := make([]lease.Node, 0, len(s.booted)+len(s.fakes))
	add := func(name string) {
		if node, err := s.nodes.Get(name); err == nil {
			nodes = append(nodes, lease.Node{Name: name, UID: node.UID})
		}
	}
	for name, m := range s.booted {
		if !m.ending {
			add(name)
		}
	}
	for name := range s.fakes {
		if s.booted[name] == nil {
			add(name)
		}
	}
	return nodes
}
