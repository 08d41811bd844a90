package nodesim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// reconcileNode registers the Node of a booted instance and keeps its Ready condition true, as its kubelet would; it
// deletes the Node of a terminated instance. Calls for the same name never run concurrently, so no Node is created
// after its instance is gone.
func (s *Simulator) reconcileNode(ctx context.Context, name string) error {
	if err := s.removeNode(ctx, name); err != nil {
		return err
	}
	m := s.instance(name)
	s.trackFake(name, m != nil && m.fake)
	if m == nil {
		return nil
	}
	s.startBuiltInCNI(ctx, m)
	node, err := s.nodes.Get(name)
	switch {
	case !m.fake && (apierrors.IsNotFound(err) || err == nil && node.Spec.ProviderID != m.ProviderID):
		return s.register(ctx, m)
	case err != nil:
		return err
	}
	s.markRegistered(m, true)
	if err := s.gpus.publish(ctx, m, node); err != nil {
		return err
	}
	if changed, err := s.controller.offerAddresses(ctx, m, node); changed || err != nil {
		return err // the watch delivers a change
	}
	now := metav1.NewTime(s.o.Clock.Now())
	switch {
	case conditions.NodeReady(node):
		s.enqueuePods(name, markedNotReady)
		return nil
	case reportedUnhealthy(node):
		return nil
	case awaitsAdoption(node, now.Time):
		s.requeueAfter("node/"+name, adoptionTime) // the watch delivers the adoption
		return nil
	case s.awaitsCNI(m, node):
		s.requeueAfter("node/"+name, addressRetry) // startCNI queues the node, but a user may delete the DaemonSet
		return nil
	}
	node = readyNode(node, now)
	_, err = s.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the watch delivers the newer version
	}
	if err == nil {
		s.event(name, nodeReference(name), corev1.EventTypeNormal, reasonNodeReady, messageStatus, name, reasonNodeReady)
	}
	return err
}

// readyNode returns a copy of a Node that its kubelet reports as ready. Its heartbeat, in whole seconds, is another one
// than before: otherwise kube-controller-manager would not notice the change.
func readyNode(node *corev1.Node, now metav1.Time) *corev1.Node {
	was := conditions.OfNode(node, corev1.NodeReady)
	node = node.DeepCopy()
	node.Status.Conditions = kubeletConditions(now, true)
	if c := conditions.OfNode(node, corev1.NodeReady); was != nil && now.Sub(was.LastHeartbeatTime.Time) < time.Second {
		c.LastHeartbeatTime = metav1.NewTime(was.LastHeartbeatTime.Add(time.Second))
	}
	return node
}

func (s *Simulator) register(ctx context.Context, m *Instance) error {
	if s.markRegistered(m, false) {
		return nil
	}
	k, err := kubeletOf(*m)
	if err != nil {
		s.o.Log.Warn("an instance has booted but cannot join the cluster", "instance", m.ID, "error", err)
		return s.reportOnClaim(ctx, m, err)
	}
	now := metav1.NewTime(s.o.Clock.Now())
	node := newNode(m, k, now)
	waits := awaitsAdoption(node, now.Time) || s.awaitsCNI(m, node)
	if waits {
		node.Status.Conditions = kubeletConditions(now, false)
	}
	_, err = s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	// the existing one is our own if a response was lost, or that of an earlier instance with the same address
	if apierrors.IsAlreadyExists(err) {
		var there *corev1.Node
		if there, err = s.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{}); err == nil &&
			there.Spec.ProviderID != m.ProviderID {
			err = fmt.Errorf("the Node of %s has its name", there.Spec.ProviderID)
		}
	}
	if err != nil {
		return fmt.Errorf("register node %s: %w", m.Name, err)
	}
	s.markRegistered(m, true)
	s.recordStart(m.Name, !waits)
	return nil
}

// adoptionTime is how long a Node is at most not ready because no controller has adopted it.
const adoptionTime = 30 * time.Second

// awaitsAdoption reports whether a Node is not ready because no controller has removed Karpenter's taint from it. On
// EC2 a kubelet takes seconds to become ready, and the Node was adopted long before. If both happened at once,
// kube-controller-manager, which may see the pod before the Node without its taint, would evict pods that
// kube-scheduler has just bound (https://github.com/kubernetes/kubernetes/issues/119862).
func awaitsAdoption(node *corev1.Node, now time.Time) bool {
	registered := conditions.OfNode(node, corev1.NodeReady)
	return registered != nil && now.Sub(registered.LastTransitionTime.Time) < adoptionTime &&
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey })
}

// markRegistered reports whether an instance's kubelet has created its Node, and first records so if yes is set.
func (s *Simulator) markRegistered(m *Instance, yes bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.booted[m.Name]
	if b == nil || b.ID != m.ID {
		return true // the instance is already gone
	}
	b.registered = b.registered || yes
	return b.registered
}

// removeNode deletes the Node of a terminated instance, as a cloud controller does. It reads the Node from the API
// server, as the watch may not have delivered a Node that was just created.
func (s *Simulator) removeNode(ctx context.Context, name string) error {
	s.mu.Lock()
	id, gone := s.gone[name]
	s.mu.Unlock()
	if !gone {
		return nil
	}
	node, err := s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil && node.Spec.ProviderID == id && node.DeletionTimestamp == nil {
		err = s.client.CoreV1().Nodes().Delete(ctx, name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s, whose instance is gone: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone[name] == id {
		delete(s.gone, name)
	}
	return nil
}

// The Ready condition of a node that awaits its VPC CNI, or its adoption: the kubelet's wording (Kubernetes 1.36,
// pkg/kubelet/nodestatus/setters.go) around containerd's.
const (
	reasonNotReady  = "KubeletNotReady"
	messageNotReady = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady " +
		"message:Network plugin returns error: cni plugin not initialized"
)

// kubeletConditions returns the conditions that a kubelet reports for its node.
func kubeletConditions(now metav1.Time, ready bool) []corev1.NodeCondition {
	condition := func(t corev1.NodeConditionType, v corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: v, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	out := []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
	if !ready {
		c := &out[len(out)-1]
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonNotReady, messageNotReady
	}
	return out
}

// newNode returns the Node that an instance's kubelet registers.
func newNode(m *Instance, k kubelet, now metav1.Time) *corev1.Node {
	t, kernel := m.Type, "simulated"
	labels := map[string]string{
		corev1.LabelHostname: m.Name, "topology.k8s.aws/zone-id": m.ZoneID,
		corev1.LabelArchStable: t.Arch, "beta.kubernetes.io/arch": t.Arch,
		corev1.LabelOSStable: m.os(), "beta.kubernetes.io/os": m.os(),
		corev1.LabelInstanceTypeStable: t.Name, corev1.LabelInstanceType: t.Name,
		corev1.LabelTopologyZone: m.Zone, corev1.LabelFailureDomainBetaZone: m.Zone,
		corev1.LabelTopologyRegion: m.Region, corev1.LabelFailureDomainBetaRegion: m.Region,
	}
	if build := catalog.WindowsBuilds[m.Windows]; build != "" {
		kernel, labels[corev1.LabelWindowsBuild] = build, build
	}
	maps.Copy(labels, k.Labels)
	maps.Copy(labels, m.Labels)
	capacity, allocatable := resources(t, k)
	for _, list := range []corev1.ResourceList{capacity, allocatable} {
		delete(list, v1beta1.PodENI)             // comes with the trunk: see startFeatures
		delete(list, v1beta1.PrivateIPv4Address) // see offerAddresses
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: m.ProviderID, Taints: k.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
			Conditions: kubeletConditions(now, true),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: m.IP.String()},
				{Type: corev1.NodeInternalDNS, Address: m.Name},
				{Type: corev1.NodeHostName, Address: m.Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: t.Arch, OperatingSystem: m.os(), OSImage: k.osImage(),
				KubeletVersion: "v1.36.2", ContainerRuntimeVersion: runtimeVersion,
				MachineID: m.ID, SystemUUID: m.ID, BootID: m.ID, KernelVersion: kernel,
			},
		},
	}
}

// Resources returns the capacity and allocatable resources of an instance's Node, derived from its type, user data
// and root disk. They include branch interfaces, which a Node offers only with ENABLE_POD_ENI, and Windows addresses,
// which it offers only with enable-windows-ipam.
func Resources(m Instance) (capacity, allocatable corev1.ResourceList, err error) {
	k, err := kubeletOf(m)
	if err != nil {
		return nil, nil, fmt.Errorf("resources of node %s: %w", m.Name, err)
	}
	capacity, allocatable = resources(m.Type, k)
	return capacity, allocatable, nil
}

// kubeletOf returns the kubelet settings from an instance and its user data.
func kubeletOf(m Instance) (kubelet, error) {
	if m.Type == nil {
		return kubelet{}, errors.New("an instance of an unknown type")
	}
	read := parseUserData
	if m.Windows != "" {
		read = powerShellSettings
	}
	k, err := read(m.UserData)
	k.RootDisk, k.Windows = m.RootDisk, m.Windows
	return k, err
}

// resources returns the capacity and allocatable resources of a node of type t with kubelet settings k.
func resources(t *catalog.Type, k kubelet) (capacity, allocatable corev1.ResourceList) {
	n := catalog.NodeOf(t, k.settings())
	common := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(n.Pods, resource.DecimalSI)}
	add := func(name corev1.ResourceName, count int) {
		if count > 0 {
			common[name] = *resource.NewQuantity(int64(count), resource.DecimalSI)
		}
	}
	add(v1beta1.PodENI, int(n.PodENI))
	add(v1beta1.PrivateIPv4Address, int(n.PrivateIPv4))
	switch t.GPU.Manufacturer {
	case "nvidia":
		add("nvidia.com/gpu", t.GPU.Count)
	case "amd":
		add("amd.com/gpu", t.GPU.Count)
	case "habana":
		add("habana.ai/gaudi", t.GPU.Count)
	}
	if t.Accelerator.Manufacturer == "aws" {
		add("aws.amazon.com/neuron", t.Accelerator.Count)
		add("aws.amazon.com/neuroncore", t.Accelerator.Count*t.Accelerator.Cores)
	}
	list := func(cpu, memory, storage int64) corev1.ResourceList {
		l := maps.Clone(common)
		l[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
		l[corev1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
		l[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(storage, resource.BinarySI)
		return l
	}
	return list(n.CPU, n.MemoryBytes, n.EphemeralBytes),
		list(n.AllocatableCPU, n.AllocatableMemoryBytes, n.AllocatableEphemeralBytes)
}
