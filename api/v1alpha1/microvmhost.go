package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MicroVMHost is a host that runs pods of FargateProfiles in microVMs. Each has its own namespace, nodeless-host-NAME,
// the only one that the host may write to. A MicroVMHost in any other namespace is ignored.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=microvmhosts,scope=Namespaced,categories=nodeless
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.engine`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.capacity.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.capacity.memory`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.address`
// +kubebuilder:printcolumn:name="Heard",type=date,JSONPath=`.status.heartbeat`,description="Time of the last heartbeat"
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type MicroVMHost struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   MicroVMHostSpec   `json:"spec"`
	Status MicroVMHostStatus `json:"status,omitempty"`
}

// AnnotationOwnHost is "true" on the MicroVMHost of the machine that the controller itself runs on, as with "nodeless
// up". No other host can join under its name.
const AnnotationOwnHost = "nodeless.sh/own-host"

// MicroVMHostList is a list of hosts.
//
// +kubebuilder:object:root=true
type MicroVMHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MicroVMHost `json:"items"`
}

// MicroVMHostSpec is what the cluster decides about a host.
type MicroVMHostSpec struct {
	// PodCIDR is the address range of the host's microVMs. Each host has its own.
	//
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the addresses of a host's microVMs stay; remove the host and add it again"
	PodCIDR string `json:"podCIDR"`

	// Unschedulable keeps new pods off the host; running pods continue.
	//
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`
}

// MicroVMHostStatus is what a host reports about itself.
type MicroVMHostStatus struct {
	// Ready reports whether the host can run microVMs now.
	Ready bool `json:"ready,omitempty"`
	// Starting reports that the host does not yet know whether it is ready.
	Starting bool `json:"starting,omitempty"`
	// Message is why the host is neither ready nor starting.
	Message string `json:"message,omitempty"`

	// Heartbeat is the time of the last heartbeat by the host's own clock. Only changes of it matter, not its value.
	Heartbeat *metav1.MicroTime `json:"heartbeat,omitempty"`

	// Engine is KVM, TCG or Namespace.
	Engine string `json:"engine,omitempty"`
	// Architecture of the CPU, as in the label kubernetes.io/arch.
	Architecture string `json:"architecture,omitempty"`
	// Region of the microVMs' Nodes.
	Region string `json:"region,omitempty"`
	// Zone of the microVMs' Nodes.
	Zone string `json:"zone,omitempty"`
	// Capacity is the total that microVMs may use: cpu, memory, pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// KubeletVersion of the microVMs' Nodes.
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	// KernelVersion of the microVMs' Nodes.
	KernelVersion string `json:"kernelVersion,omitempty"`

	// Address is where API servers reach the host.
	Address string `json:"address,omitempty"`
	// KubeletPort determines where the host serves the kubelet APIs: at address, port kubeletPort + n, for the microVM
	// with the n-th address of podCIDR. 0: the microVM's Node says where.
	KubeletPort int32 `json:"kubeletPort,omitempty"`
	// OverlayPort is the UDP port at address that receives packets from other hosts for the microVMs (WireGuard). 0: the
	// microVMs use user-mode networking and cannot be reached.
	OverlayPort int32 `json:"overlayPort,omitempty"`
	// OverlayPublicKey is the host's public WireGuard key, in base64.
	OverlayPublicKey string `json:"overlayPublicKey,omitempty"`
}

// MicroVM is a pod on a MicroVMHost. The scheduler writes the spec, the host the status. Deleting a MicroVM ends its
// pod at once.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=microvms,scope=Namespaced,categories=nodeless
// +kubebuilder:printcolumn:name="Pod-Namespace",type=string,JSONPath=`.spec.pod.metadata.namespace`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.pod.metadata.name`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.address`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.pod.phase`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.error`
type MicroVM struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   MicroVMSpec   `json:"spec"`
	Status MicroVMStatus `json:"status,omitempty"`
}

// MicroVMList is a list of microVMs.
//
// +kubebuilder:object:root=true
type MicroVMList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MicroVM `json:"items"`
}

// MicroVMSpec is what the host runs.
type MicroVMSpec struct {
	// Pod is a copy of the pod. Its metadata, its spec and the conditions of its readiness gates are kept up to date with
	// the pod's.
	//
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Pod corev1.Pod `json:"pod"`
	// Profile is the FargateProfile that selects the pod.
	Profile string `json:"profile,omitempty"`
	// Size of the microVM: cpu, memory, ephemeral-storage.
	//
	// +required
	Size corev1.ResourceList `json:"size"`
	// StopGraceSeconds, if set, stops the pod: its containers get SIGTERM and have this many seconds to exit.
	//
	// +optional
	StopGraceSeconds *int64 `json:"stopGraceSeconds,omitempty"`
}

// MicroVMStatus is the observed state of a microVM.
type MicroVMStatus struct {
	// Address of the microVM, which does not change.
	Address string `json:"address,omitempty"`
	// Error is why the microVM could not be started.
	Error string `json:"error,omitempty"`
	// Ended reports that no container is running and none will be started.
	Ended bool `json:"ended,omitempty"`
	// Pod is the status of the pod, as a kubelet would write it.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Pod *corev1.PodStatus `json:"pod,omitempty"`
}

// FinalizerMicroVM keeps a MicroVM until its host has removed everything that belongs to it.
const FinalizerMicroVM = "nodeless.sh/microvm"

// HostNamespace returns the namespace of a host.
func HostNamespace(host string) string { return "nodeless-host-" + host }
