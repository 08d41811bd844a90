package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MicroVMHost is a machine that runs pods of FargateProfiles in microVMs. It is in a namespace of its own,
// nodeless-host-NAME, in which the host may write what it has to say, and nowhere else; one in another namespace counts
// for nothing.
//
// +kubebuilder:object:root=true +kubebuilder:subresource:status
// +kubebuilder:resource:path=microvmhosts,scope=Namespaced,categories=nodeless
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.engine`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.capacity.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.capacity.memory`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.address`
// +kubebuilder:printcolumn:name="Heard",type=date,JSONPath=`.status.heartbeat`,description="When it last said that it
// is there" +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type MicroVMHost struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   MicroVMHostSpec   `json:"spec"`
	Status MicroVMHostStatus `json:"status,omitempty"`
}

// MicroVMHostList is a list of hosts.
//
// +kubebuilder:object:root=true
type MicroVMHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MicroVMHost `json:"items"`
}

// MicroVMHostSpec is what the cluster says of a host.
type MicroVMHostSpec struct {
	// PodCIDR are the addresses of the host's microVMs. No two hosts have the same.
	//
	// +required +kubebuilder:validation:MinLength=9 +kubebuilder:validation:XValidation:rule="self ==
	// oldSelf",message="the addresses of a host's microVMs stay; remove the host and add it again"
	PodCIDR string `json:"podCIDR"`

	// Unschedulable keeps new pods away; those that run go on.
	//
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`
}

// MicroVMHostStatus is what a host says of itself.
type MicroVMHostStatus struct {
	// Ready: it can run microVMs now. If it is neither ready nor starting, message says why.
	Ready    bool   `json:"ready,omitempty"`
	Starting bool   `json:"starting,omitempty"`
	Message  string `json:"message,omitempty"`

	// Heartbeat is when the host last said that it is there, by its own clock. Only that it changes counts.
	Heartbeat *metav1.MicroTime `json:"heartbeat,omitempty"`

	// Engine is KVM, TCG or Namespace.
	Engine string `json:"engine,omitempty"`
	// Architecture as in kubernetes.io/arch.
	Architecture string `json:"architecture,omitempty"`
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// Capacity is what microVMs may have together: cpu, memory, pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// KubeletVersion and KernelVersion are those of the microVMs' Nodes.
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	KernelVersion  string `json:"kernelVersion,omitempty"`

	// Address is where API servers reach the host. The kubelet API of the microVM with the n-th address of podCIDR is
	// there at port kubeletPort + n.
	Address     string `json:"address,omitempty"`
	KubeletPort int32  `json:"kubeletPort,omitempty"`
	// OverlayPort is the UDP port at address where the host takes packets from other hosts for its microVMs (VXLAN). 0:
	// its microVMs are in user mode, and nobody reaches them.
	OverlayPort int32 `json:"overlayPort,omitempty"`
}

// MicroVM is a pod on a MicroVMHost: the scheduler says in spec what is to run, the host in status what has become of
// it. Deleting it ends it at once.
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

// MicroVMSpec is what is to run.
type MicroVMSpec struct {
	// Pod is the pod as the API server has it. It follows the pod's metadata.
	//
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Pod corev1.Pod `json:"pod"`
	// Profile is the FargateProfile by which the pod is here.
	Profile string `json:"profile,omitempty"`
	// Size of the microVM: cpu, memory, ephemeral-storage.
	//
	// +required
	Size corev1.ResourceList `json:"size"`
	// StopGraceSeconds has the pod ended: its containers have so long after SIGTERM.
	//
	// +optional
	StopGraceSeconds *int64 `json:"stopGraceSeconds,omitempty"`
}

// MicroVMStatus is what has become of it.
type MicroVMStatus struct {
	// Address of the microVM; it stays.
	Address string `json:"address,omitempty"`
	// Error is why it could not be begun.
	Error string `json:"error,omitempty"`
	// Ended: no container runs any more, and none will be started.
	Ended bool `json:"ended,omitempty"`
	// Pod is the status of the pod, as a kubelet would write it.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Pod *corev1.PodStatus `json:"pod,omitempty"`
}

// FinalizerMicroVM keeps a MicroVM until its host has nothing left of it.
const FinalizerMicroVM = "nodeless.sh/microvm"

// HostNamespace is the namespace of a host.
func HostNamespace(host string) string { return "nodeless-host-" + host }
