package nodesim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodeless/nodeless/catalog"
)

// waitingNetwork is a VPC CNI that has not found a usable ENIConfig, or, in EKS Auto Mode, NodeClass.
type waitingNetwork struct {
	cni       catalog.CNI
	maxPods   int
	nodeClass string         // "" outside of EKS Auto Mode
	about     runtime.Object // that events are about: the pod of aws-node, or the Node
	retryAt   time.Time
	told      string // last problem reported as an event
}

// joinPodNetwork configures an instance's VPC CNI and applies the subnet and security groups of its ENIConfig or
// NodeClass to its pod interfaces. It reports whether the instance has joined. If it cannot, it says so in an event of
// the node's aws-node pod or of the node, and the next pod that starts tries again; the real VPC CNI retries every 5 s
// and reports it only in its log.
func (s *Simulator) joinPodNetwork(ctx context.Context, m *Instance, w *waitingNetwork) bool {
	waits := w
	if err := w.join(ctx, s, m); err == nil {
		waits = nil
	} else if text := err.Error(); text != w.told {
		reason := "ENIConfigUnusable"
		if w.nodeClass != "" {
			reason = "PodSubnetUnusable"
		}
		s.event(m.Name, w.about, corev1.EventTypeWarning, reason, "pods of node %s get no addresses: %s", m.Name, text)
		w.told = text
	}
	w.retryAt = s.o.Clock.Now().Add(addressRetry)
	s.mu.Lock()
	if b := s.booted[m.Name]; b != nil && b.ID == m.ID {
		b.cniNetwork = waits
	}
	s.mu.Unlock()
	s.o.Instances.SetCNI(m.ID, w.cni, w.maxPods)
	return waits == nil
}

// retryPodNetwork looks again for the ENIConfig or NodeClass of a node that had none.
func (s *Simulator) retryPodNetwork(ctx context.Context, m *Instance) {
	s.mu.Lock()
	var w *waitingNetwork
	if b := s.booted[m.Name]; b != nil && b.cniNetwork != nil && !s.o.Clock.Now().Before(b.cniNetwork.retryAt) {
		again := *b.cniNetwork
		w = &again
		b.cniNetwork.retryAt = s.o.Clock.Now().Add(addressRetry) // only one pod tries
	}
	s.mu.Unlock()
	if w == nil {
		return
	}
	if s.joinPodNetwork(ctx, m, w) && w.nodeClass == "" {
		s.controller.startFeatures(ctx, m, w.cni)
	}
}

// join applies the NodeClass of the instance to it or, under custom networking, the ENIConfig that the Node names.
func (w *waitingNetwork) join(ctx context.Context, s *Simulator, m *Instance) error {
	if w.nodeClass != "" {
		return w.joinNodeClass(ctx, s, m)
	}
	if !w.cni.CustomNetwork {
		return nil
	}
	node, err := s.nodes.Get(m.Name)
	if err != nil {
		return fmt.Errorf("read node %s: %w", m.Name, err)
	}
	name := w.cni.ENIConfig(node.Labels, node.Annotations)
	var config struct {
		Spec struct {
			Subnet         string   `json:"subnet"`
			SecurityGroups []string `json:"securityGroups"`
		} `json:"spec"`
	}
	err = readAs(ctx, s.client, "/apis/crd.k8s.amazonaws.com/v1alpha1/eniconfigs/"+name, &config)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("ENIConfig %q does not exist; create it with spec.subnet, the ID of a subnet in %s, or name "+
			"another by the node's label %s", name, m.Zone, w.cni.ENIConfigLabel)
	}
	if err != nil {
		return fmt.Errorf("read ENIConfig %q: %w", name, err)
	}
	subnet := config.Spec.Subnet
	if err := s.o.Instances.SetPodNetwork(m.ID, subnet, config.Spec.SecurityGroups); err != nil {
		return fmt.Errorf("spec.subnet %q of ENIConfig %q: %w; name a subnet in %s", subnet, name, err, m.Zone)
	}
	return nil
}

// joinNodeClass configures the VPC CNI of an EKS Auto Mode node as its NodeClass says.
func (w *waitingNetwork) joinNodeClass(ctx context.Context, s *Simulator, m *Instance) error {
	w.cni = catalog.AutoModeCNI(false, true) // in case of an error no pod gets an address of the node's subnet
	var class struct {
		Spec struct {
			PodSubnetSelectorTerms        []Selector `json:"podSubnetSelectorTerms"`
			PodSecurityGroupSelectorTerms []Selector `json:"podSecurityGroupSelectorTerms"`
			AdvancedNetworking            struct {
				IPv4PrefixSize string `json:"ipv4PrefixSize"`
			} `json:"advancedNetworking"`
		} `json:"spec"`
	}
	err := readAs(ctx, s.client, "/apis/eks.amazonaws.com/v1/nodeclasses/"+w.nodeClass, &class)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read NodeClass %q: %w", w.nodeClass, err)
	}
	subnets := class.Spec.PodSubnetSelectorTerms
	w.cni = catalog.AutoModeCNI(class.Spec.AdvancedNetworking.IPv4PrefixSize == "32", len(subnets) > 0)
	if len(subnets) == 0 {
		return nil
	}
	if err := s.o.Instances.SelectPodNetwork(m.ID, subnets, class.Spec.PodSecurityGroupSelectorTerms); err != nil {
		return fmt.Errorf("NodeClass %q: %w", w.nodeClass, err)
	}
	return nil
}
