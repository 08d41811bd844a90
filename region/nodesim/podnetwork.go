package nodesim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodeless/nodeless/catalog"
)

// waitingNetwork is a VPC CNI that has not found a usable ENIConfig.
type waitingNetwork struct {
	cni     catalog.CNI
	maxPods int
	pod     *corev1.Pod // of aws-node
	retryAt time.Time
	told    string // last problem reported as an event of the pod
}

// joinPodNetwork configures an instance's VPC CNI and applies the subnet and security groups of its ENIConfig to its
// pod interfaces. It reports whether the instance has joined. If there is no usable ENIConfig, it says so in an event
// of the node's aws-node pod, and the next pod that starts tries again; the real VPC CNI retries every 5 s and
// reports it only in its log.
func (s *Simulator) joinPodNetwork(ctx context.Context, m *Instance, w *waitingNetwork) bool {
	waits := w
	if err := w.join(ctx, s, m); err == nil {
		waits = nil
	} else if text := err.Error(); text != w.told {
		s.event(m.Name, w.pod, corev1.EventTypeWarning, "ENIConfigUnusable", "pods of node %s get no addresses: %s", m.Name,
			text)
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

// retryPodNetwork looks again for the ENIConfig of a node that had none.
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
	if s.joinPodNetwork(ctx, m, w) {
		s.controller.startFeatures(ctx, m, w.cni)
	}
}

// join applies the ENIConfig that the Node names to the instance, under custom networking.
func (w *waitingNetwork) join(ctx context.Context, s *Simulator, m *Instance) error {
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
