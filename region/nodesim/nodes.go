package nodesim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// reconcileNode registers the Node of a booted instance and keeps its Ready condition true, as its kubelet would; it
// deletes the Node of a terminated instance. It runs once at a time for each name, so that no Node is created after its
// instance is gone.
func (s *Simulator) reconcileNode(ctx context.Context, name string) error {
	if err := s.removeNode(ctx, name); err != nil {
		return err
	}
	m := s.instance(name)
	s.trackFake(name, m != nil && m.fake)
	if m == nil {
		return nil
	}
	s.startBuiltInCNI(m)
	node, err := s.nodes.Get(name)
	switch {
	case !m.fake && (apierrors.IsNotFound(err) || err == nil && node.Spec.ProviderID != m.ProviderID):
		return s.register(ctx, m)
	case err != nil:
		return err
	}
	s.markRegistered(m, true)
	if conditions.NodeReady(node) || reportedUnhealthy(node) {
		return nil
	}
	node = node.DeepCopy()
	now := metav1.NewTime(s.o.Clock.Now())
	node.Status.Conditions = readyConditions(now)
	_, err = s.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the newer version comes through the watch
	}
	return err
}

func (s *Simulator) register(ctx context.Context, m *Instance) error {
	if s.markRegistered(m, false) {
		return nil
	}
	k, err := kubeletOf(*m)
	if err != nil {
		s.o.Log.Warn("instance boots but joins no cluster", "instance", m.ID, "error", err)
		return s.reportOnClaim(ctx, m, err)
	}
	_, err = s.client.CoreV1().Nodes().Create(ctx, newNode(m, k, metav1.NewTime(s.o.Clock.Now())), metav1.CreateOptions{})
	// it is our own if an answer was lost, or that of an earlier instance with the same address
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
	s.recordStart(m.Name)
	return nil
}

// markRegistered reports whether an instance's kubelet has created its Node, after recording yes.
func (s *Simulator) markRegistered(m *Instance, yes bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.booted[m.Name]
	if b == nil || b.ID != m.ID {
		return true // the instance is gone by now
	}
	b.registered = b.registered || yes
	return b.registered
}

// removeNode deletes the Node of a terminated instance, as a cloud controller does. It reads the Node from the API
// server, since the watch may not have seen a Node that was just created.
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

func readyConditions(now metav1.Time) []corev1.NodeCondition {
	condition := func(t corev1.NodeConditionType, v corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: v, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
}

// newNode returns the Node that the kubelet of an instance registers.
func newNode(m *Instance, k kubelet, now metav1.Time) *corev1.Node {
	t := m.Type
	labels := map[string]string{
		corev1.LabelHostname: m.Name, "topology.k8s.aws/zone-id": m.ZoneID,
		corev1.LabelArchStable: t.Arch, "beta.kubernetes.io/arch": t.Arch,
		corev1.LabelOSStable: cmp.Or(t.OS, "linux"), "beta.kubernetes.io/os": cmp.Or(t.OS, "linux"),
		corev1.LabelInstanceTypeStable: t.Name, corev1.LabelInstanceType: t.Name,
		corev1.LabelTopologyZone: m.Zone, corev1.LabelFailureDomainBetaZone: m.Zone,
		corev1.LabelTopologyRegion: m.Region, corev1.LabelFailureDomainBetaRegion: m.Region,
	}
	maps.Copy(labels, k.Labels)
	maps.Copy(labels, m.Labels)
	capacity, allocatable := resources(t, k)
	delete(capacity, v1beta1.PodENI) // it comes with the trunk: see startFeatures
	delete(allocatable, v1beta1.PodENI)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: m.ProviderID, Taints: k.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
			Conditions: readyConditions(now),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: m.IP.String()},
				{Type: corev1.NodeInternalDNS, Address: m.Name},
				{Type: corev1.NodeHostName, Address: m.Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: t.Arch, OperatingSystem: cmp.Or(t.OS, "linux"), OSImage: k.osImage(),
				KubeletVersion: "v1.36.2", ContainerRuntimeVersion: runtimeVersion,
				MachineID: m.ID, SystemUUID: m.ID, BootID: m.ID, KernelVersion: "simulated",
			},
		},
	}
}

// Resources returns the capacity and allocatable resources of the Node of an instance, which follow from its type, user
// data and root disk. Branch interfaces are among them, which a Node offers only with ENABLE_POD_ENI.
func Resources(m Instance) (capacity, allocatable corev1.ResourceList, err error) {
	k, err := kubeletOf(m)
	if err != nil {
		return nil, nil, fmt.Errorf("resources of node %s: %w", m.Name, err)
	}
	capacity, allocatable = resources(m.Type, k)
	return capacity, allocatable, nil
}

// kubeletOf returns the kubelet settings of an instance and its user data.
func kubeletOf(m Instance) (kubelet, error) {
	if m.Type == nil {
		return kubelet{}, errors.New("an instance of an unknown type")
	}
	k, err := parseUserData(m.UserData)
	k.RootDisk = m.RootDisk
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
