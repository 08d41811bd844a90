package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MicroVMHost is a host that runs pods of FargateProfiles in microVMs. It is in a namespace of its own,
// nodeless-host-NAME, the only one to which the host may write; one in another namespace is ignored.
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

// AnnotationOwnHost is "true" on the MicroVMHost of the instance on which the controller itself runs, as with "nodeless
// up": nobody joins by its name.
const AnnotationOwnHost = "nodeless.sh/own-host"

// MicroVMHostList is a list of hosts.
//
// +kubebuilder:object:root=true
type MicroVMHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MicroVMHost `json:"items"`
}

// MicroVMHostSpec is what the cluster determines about a host.
type MicroVMHostSpec struct {
	// PodCIDR is the address range of the host's microVMs, which no two hosts share.
	//
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the addresses of a host's microVMs stay; remove the host and add it again"
	PodCIDR string `json:"podCIDR"`

	// Unschedulable keeps new pods away; running pods continue.
	//
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`
}

// MicroVMHostStatus is what a host reports about itself.
type MicroVMHostStatus struct {
	// Ready reports whether the host can run microVMs now. If it is neither ready nor starting, message says why.
	Ready    bool   `json:"ready,omitempty"`
	Starting bool   `json:"starting,omitempty"`
	Message  string `json:"message,omitempty"`

	// Heartbeat is the time of the last heartbeat by the host's own clock. Only its changes matter.
	Heartbeat *metav1.MicroTime `json:"heartbeat,omitempty"`

	// Engine is KVM, TCG or Namespace.
	Engine string `json:"engine,omitempty"`
	// Architecture as in kubernetes.io/arch.
	Architecture string `json:"architecture,omitempty"`
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// Capacity is the total that microVMs may use: cpu, memory, pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// KubeletVersion and KernelVersion are those of the microVMs' Nodes.
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	KernelVersion  string `json:"kernelVersion,omitempty"`

	// Address is where API servers reach the host. It serves the kubelet API of the microVM with the n-th address of
	// podCIDR at port kubeletPort + n, or with kubeletPort 0 where the microVM's Node says.
	Address     string `json:"address,omitempty"`
	KubeletPort int32  `json:"kubeletPort,omitempty"`
	// OverlayPort is the UDP port at address that receives packets from other hosts for the microVMs (WireGuard). 0:
	// the microVMs use user-mode networking and cannot be reached.
	OverlayPort int32 `json:"overlayPort,omitempty"`
	// OverlayPublicKey is the host's WireGuard key, in base64.
	OverlayPublicKey string `json:"overlayPublicKey,omitempty"`
}

// MicroVM is a pod on a MicroVMHost: the scheduler writes the spec, the host the status. Deleting it ends the pod at
// once.
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
	// Pod is a copy of the pod; its metadata follow the pod's.
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
	// StopGraceSeconds ends the pod: its containers have this long after SIGTERM.
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
	// Ended reports that no container runs and none will be started.
	Ended bool `json:"ended,omitempty"`
	// Pod is the status of the pod, as a kubelet would write it.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Pod *corev1.PodStatus `json:"pod,omitempty"`
}

// FinalizerMicroVM keeps a MicroVM until its host has removed everything of it.
const FinalizerMicroVM = "nodeless.sh/microvm"

// HostNamespace returns the namespace of a host.
func HostNamespace(host string) string { return "nodeless-host-" + host }
