package scheduler

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// Labels and annotations of the NodeClaim and the Node of a pod.
const (
	labelPod      = "nodeless.sh/pod-uid" // the pod's UID, which identifies its NodeClaim, Node and microVM
	labelHost     = microvm.HostLabel
	labelEngine   = "nodeless.sh/engine"
	annotationPod = microvm.PodAnnotation
	annotationIP  = "nodeless.sh/pod-ip"
)

// classKind is the kind of node class that the NodeClaims of microVMs refer to.
const classKind = "FargateProfile"

// idPrefix is the prefix of every microVM's ID, and of no cloud instance's.
const idPrefix = "microvm-"

func vmID(uid types.UID) string { return idPrefix + string(uid) }

// podOf returns the UID of a microVM's pod, "" if the ID is not a microVM's.
func podOf(id string) types.UID {
	if uid, ok := strings.CutPrefix(id, idPrefix); ok {
		return types.UID(uid)
	}
	return ""
}

func providerID(host, id string) string { return "nodeless:///" + host + "/" + id }

// taint keeps all pods but its own from a microVM.
var taint = corev1.Taint{
	Key: fargate.ComputeType, Value: fargate.ComputeTypeFargate, Effect: corev1.TaintEffectNoSchedule,
}

// newClaim returns the NodeClaim of a pod on a host.
func newClaim(pod *corev1.Pod, profile string, host microvm.Description, size fargate.Size) *karpv1.NodeClaim {
	labels := hostLabels(host, size)
	labels[fargate.ComputeType], labels[fargate.ProfileLabel] = fargate.ComputeTypeFargate, profile
	labels[labelPod] = string(pod.UID)
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: fargate.ClaimName(pod.UID), Labels: labels, Finalizers: []string{karpv1.TerminationFinalizer},
			Annotations: map[string]string{
				annotationPod:               pod.Namespace + "/" + pod.Name,
				fargate.CapacityProvisioned: size.String(),
			},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints:       []corev1.Taint{taint},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
			Resources:    karpv1.ResourceRequirements{Requests: size.List()},
			NodeClassRef: &karpv1.NodeClassReference{Group: v1alpha1.GroupVersion.Group, Kind: classKind, Name: profile},
			ExpireAfter:  karpv1.MustParseNillableDuration(karpv1.Never), // it lives as long as its pod
		},
	}
}

// labelPrice tells eks-node-viewer, and Nodeless's own views, the hourly price of a Node in dollars (eks-node-viewer,
// pkg/client/controller.go).
const labelPrice = "eks-node-viewer/instance-price"

// hostLabels returns the labels that the host determines.
func hostLabels(host microvm.Description, size fargate.Size) map[string]string {
	labels := map[string]string{
		corev1.LabelArchStable: host.Arch, corev1.LabelOSStable: "linux", labelHost: host.Name, labelEngine: host.Engine,
		karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand,
		// Fargate's Nodes have no instance type; here it is the size, for the TYPE column of NodeClaims.
		corev1.LabelInstanceTypeStable: strings.ReplaceAll(size.String(), " ", "-"),
		corev1.LabelTopologyZone:       host.Zone, corev1.LabelTopologyRegion: host.Region,
	}
	micros, ok := catalog.FargateHour(host.Region, size.MilliCPU, size.MemoryBytes, size.StorageBytes)
	if ok && host.Billed {
		labels[labelPrice] = strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64)
	}
	maps.DeleteFunc(labels, unknown)
	return labels
}

// unknown matches the labels that a host without a zone or region lacks.
func unknown(_, value string) bool { return value == "" }

// unregistered is removed when the Node is registered. Its effect is NoSchedule, not upstream's NoExecute: the pod is
// bound at that moment, and Kubernetes' taint eviction, whose copy of the Node may be slightly stale, would delete
// it.
var unregistered = corev1.Taint{Key: karpv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoSchedule}

// newNode returns the Node of a microVM with an address. It allows no pods, so kube-scheduler assigns none to it;
// fargate-scheduler binds the microVM's pod without checking this.
func newNode(claim *karpv1.NodeClaim, host microvm.Description, ip netip.Addr, now metav1.Time) *corev1.Node {
	name := microvm.NodeName(ip, host.Region)
	if host.Address.IsValid() { // it is a joined host
		name = microvm.JoinedNodeName(ip)
	}
	hostname := strings.TrimPrefix(name, "fargate-")
	size := fargate.SizeOf(claim.Spec.Resources.Requests)
	size.MilliCPU = size.WholeCPUs() * 1000 // the microVM has whole CPUs, up to which a pod can be resized
	capacity, allocatable := size.List(), size.List()
	capacity[corev1.ResourcePods], allocatable[corev1.ResourcePods] = resource.MustParse("1"), resource.MustParse("0")
	labels := maps.Clone(claim.Labels)
	labels[corev1.LabelHostname] = hostname
	labels["beta.kubernetes.io/arch"], labels["beta.kubernetes.io/os"] = host.Arch, "linux"
	labels[corev1.LabelFailureDomainBetaZone], labels[corev1.LabelFailureDomainBetaRegion] = host.Zone, host.Region
	maps.DeleteFunc(labels, unknown)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels,
			Annotations: map[string]string{annotationPod: claim.Annotations[annotationPod], annotationIP: ip.String()},
		},
		Spec: corev1.NodeSpec{
			ProviderID: providerID(host.Name, vmID(podUID(claim))),
			Taints:     []corev1.Taint{taint, unregistered},
		},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: ip.String()},
				{Type: corev1.NodeHostName, Address: hostname},
			},
			Conditions:      nodeConditions(true, "", now),
			RuntimeHandlers: runtimeHandlers, Features: &corev1.NodeFeatures{SupplementalGroupsPolicy: ptr.To(true)},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: host.Arch, OperatingSystem: "linux", KubeletVersion: host.Version, KernelVersion: host.Kernel,
				ContainerRuntimeVersion: "nodeless://" + strings.ToLower(host.Engine), OSImage: osImage(host.Engine),
			},
		},
	}
	setKubelet(&node.Status, host, ip)
	return node
}

// runtimeHandlers says what microVMs can do: a kubelet asks its container runtime.
var runtimeHandlers = []corev1.NodeRuntimeHandler{{Features: &corev1.NodeRuntimeHandlerFeatures{
	RecursiveReadOnlyMounts: ptr.To(true), UserNamespaces: ptr.To(false),
}}}

// osImage returns the OSImage of a pod's Node.
func osImage(engine string) string {
	if engine == string(v1alpha1.EngineNamespace) {
		return "Nodeless namespaces, no virtual machine"
	}
	return fmt.Sprintf("Nodeless microVM (%s)", engine)
}

// setKubelet sets where the API server finds the Node's kubelet API, if it is served. If pods can reach that address,
// it is the Node's InternalIP, which metrics-server and Prometheus use (ADR 50). If it is on loopback, InternalIP
// stays the pod's address, as on Fargate (ADR 18).
func setKubelet(status *corev1.NodeStatus, host microvm.Description, ip netip.Addr) {
	if host.Kubelet == nil {
		return
	}
	at := host.Kubelet(ip)
	status.DaemonEndpoints.KubeletEndpoint.Port = int32(at.Port())
	if host.Address.IsValid() { // whatever the order of address types: mostly InternalIP or Hostname is first
		status.Addresses = nil
	}
	types := []corev1.NodeAddressType{corev1.NodeInternalDNS}
	if !at.Addr().IsLoopback() {
		types = []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeInternalDNS}
	}
	status.Addresses = slices.DeleteFunc(status.Addresses,
		func(a corev1.NodeAddress) bool { return slices.Contains(types, a.Type) })
	for _, t := range types {
		status.Addresses = append(status.Addresses, corev1.NodeAddress{Type: t, Address: at.Addr().String()})
	}
}

// nodeConditions returns the conditions of a Node whose host is ready (there), or lost for the reason why.
func nodeConditions(there bool, why string, now metav1.Time) []corev1.NodeCondition {
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "MicroVMReady",
		Message: "the microVM's host is ready", LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if !there {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionUnknown, "HostLost", why
	}
	out := []corev1.NodeCondition{ready}
	for _, pressure := range []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		out = append(out, corev1.NodeCondition{
			Type: pressure, Status: corev1.ConditionFalse, Reason: "Sufficient",
			LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	return out
}
