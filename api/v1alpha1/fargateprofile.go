package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FargateScheduler is the schedulerName of pods that run in microVMs of their own.
const FargateScheduler = "fargate-scheduler"

// FargateProfile selects pods that each run in a microVM of their own, which is their Node. It works like a Fargate
// profile of EKS; the fields document what Nodeless adds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=fargateprofiles,scope=Cluster,shortName=fp,categories=nodeless
// +kubebuilder:printcolumn:name="Sizing",type=string,JSONPath=`.spec.sizing`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`,description="Pods that have a microVM"
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`,description="Pods that wait for one"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Namespaces",type=string,JSONPath=`.spec.selectors[*].namespace`,priority=1
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.spec.engine`,priority=1
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.resources.cpu`,priority=1
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.resources.memory`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
type FargateProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   FargateProfileSpec   `json:"spec"`
	Status FargateProfileStatus `json:"status,omitempty"`
}

// FargateProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type FargateProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FargateProfile `json:"items"`
}

// FargateProfileSpec selects pods and configures their microVMs.
//
// +kubebuilder:validation:XValidation:rule="has(self.selectors) && size(self.selectors) > 0",message="Fargate Profile requires at least one selector."
// +kubebuilder:validation:XValidation:rule="!has(self.selectors) || self.selectors.all(s, has(s.namespace) && size(s.namespace) > 0)",message="Fargate Profile must have at least one selector with at least one namespace value."
// +kubebuilder:validation:XValidation:rule="!(has(self.restrictions) && self.restrictions == 'None') || self.sizing == 'Exact'",message="restrictions: None needs sizing: Exact; with sizing: Fargate pods are refused as Fargate refuses them"
type FargateProfileSpec struct {
	// Selectors select the pods that satisfy any of them. Pods of DaemonSets and pods with the annotation
	// eks.amazonaws.com/compute-type: ec2 are never selected. If several profiles select a pod, it belongs to the first by
	// name, unless the pod's label eks.amazonaws.com/fargate-profile names another of them.
	//
	// +kubebuilder:validation:MaxItems=5
	// +listType=atomic
	// +optional
	Selectors []FargateProfileSelector `json:"selectors,omitempty"`

	// Sizing determines the size of a pod's microVM. Fargate: the smallest of Fargate's sizes that holds the requests
	// plus 256 MiB. Exact: the requests plus what the guest itself needs.
	//
	// +kubebuilder:default=Fargate
	// +optional
	Sizing Sizing `json:"sizing,omitempty"`

	// Engine runs the microVM. Auto: KVM where it works, otherwise TCG, which is emulation: slow, and no security
	// boundary. Namespace: Linux namespaces instead of a virtual machine, which are no security boundary at all.
	// Namespace needs hosts started with --engine namespace; Auto never selects it.
	//
	// +kubebuilder:default=Auto
	// +optional
	Engine Engine `json:"engine,omitempty"`

	// Restrictions determine which pods are refused. Fargate: those that Fargate refuses, such as privileged ones. None:
	// only those that a microVM cannot run; privileged, hostPID and the like then refer to the pod's own kernel. The
	// default is None with sizing: Exact, unless engine is Namespace, which shares the host's kernel; otherwise it is
	// Fargate.
	//
	// +optional
	Restrictions Restrictions `json:"restrictions,omitempty"`

	// Storage configures the disk that containers write to.
	//
	// +optional
	Storage *FargateProfileStorage `json:"storage,omitempty"`

	// Logging controls whether pods of this profile use the log router that the ConfigMap aws-logging in the namespace
	// aws-observability configures.
	//
	// +optional
	Logging *FargateProfileLogging `json:"logging,omitempty"`

	// Limits bound the total resources of all pods of the profile. Pods that would exceed them stay pending.
	//
	// +optional
	Limits *FargateProfileLimits `json:"limits,omitempty"`
}

// FargateProfileLimits bound the total resources of all pods of a profile.
type FargateProfileLimits struct {
	// CPU is the total CPU of all microVMs.
	//
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory is the total memory of all microVMs.
	//
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// Pods is the number of pods.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pods *int32 `json:"pods,omitempty"`
}

// FargateProfileSelector selects pods by namespace and labels; both must match.
type FargateProfileSelector struct {
	// Namespace of the pods; * stands for any characters, ? for one.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9*?]([-a-z0-9*?]*[a-z0-9*?])?$')",message="a namespace consists of lower case letters, digits and '-', and may have the wildcards '*' and '?'"
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Labels must all be present on the pod; keys and values may contain the wildcards * and ?.
	//
	// +kubebuilder:validation:MaxProperties=5
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && k.matches('^[-A-Za-z0-9_./*?]+$') && size(self[k]) <= 63 && self[k].matches('^[-A-Za-z0-9_.*?]*$'))",message="labels consist of letters, digits, '-', '_' and '.', keys also of '/'; both may have the wildcards '*' and '?'"
	// +optional
	Labels map[string]LabelPattern `json:"labels,omitempty"`
}

// LabelPattern is the value of a label; * stands for any characters, ? for one.
//
// +kubebuilder:validation:MaxLength=63
type LabelPattern string

// Sizing is the size of a pod's microVM.
//
// +kubebuilder:validation:Enum=Fargate;Exact
type Sizing string

// The values of Sizing.
const (
	SizingFargate Sizing = "Fargate" // a row of Fargate's table
	SizingExact   Sizing = "Exact"   // the pod's requests plus what the guest itself needs
)

// Engine runs a microVM.
//
// +kubebuilder:validation:Enum=Auto;KVM;TCG;Namespace
type Engine string

// The values of Engine.
const (
	EngineAuto      Engine = "Auto"
	EngineKVM       Engine = "KVM"
	EngineTCG       Engine = "TCG"
	EngineNamespace Engine = "Namespace"
)

// Restrictions determine which pods are refused.
//
// +kubebuilder:validation:Enum=Fargate;None
type Restrictions string

// The values of Restrictions.
const (
	RestrictionsFargate Restrictions = "Fargate"
	RestrictionsNone    Restrictions = "None"
)

// FargateProfileStorage configures the disk that containers write to.
type FargateProfileStorage struct {
	// Ephemeral is the disk size of a pod that requests no ephemeral storage; the default is 20Gi, as on Fargate. Space
	// is allocated when it is written.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0')) && quantity(self).compareTo(quantity('175Gi')) <= 0",message="ephemeral storage is above 0 and at most 175Gi"
	// +optional
	Ephemeral *resource.Quantity `json:"ephemeral,omitempty"`
}

// FargateProfileLogging configures the log router.
type FargateProfileLogging struct {
	// Router selects the log router. ConfigMap: the one that the ConfigMap aws-logging configures, if that exists.
	// Disabled: none.
	//
	// +kubebuilder:default=ConfigMap
	// +optional
	Router LogRouter `json:"router,omitempty"`
}

// LogRouter controls whether the log router is used.
//
// +kubebuilder:validation:Enum=ConfigMap;Disabled
type LogRouter string

// The values of LogRouter.
const (
	LogRouterConfigMap LogRouter = "ConfigMap"
	LogRouterDisabled  LogRouter = "Disabled"
)

// FargateProfileStatus is the observed state of a profile.
type FargateProfileStatus struct {
	// Pods is the number of pods that have a microVM of this profile.
	//
	// +optional
	Pods int32 `json:"pods"`
	// Pending is the number of pods that wait for a microVM, including refused pods.
	//
	// +optional
	Pending int32 `json:"pending"`
	// Resources are the total of all microVMs of the profile: cpu, memory and pods.
	//
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// Conditions: Ready reports whether pods of the profile get microVMs and, if not, what is missing.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a FargateProfile and their reasons.
const (
	ConditionReady = "Ready" // pods of the profile get microVMs

	ReasonHostsReady = "HostsReady" // there is a microVM host for the profile's engine
	ReasonNoHost     = "NoHost"     // there is no such host
)

// Restricted returns the effective restrictions: those of the spec, or the default for the sizing.
func (s *FargateProfileSpec) Restricted() Restrictions {
	switch {
	case s.Restrictions != "":
		return s.Restrictions
	case s.Sizing == SizingExact && s.Engine != EngineNamespace: // Namespace: the host's kernel
		return RestrictionsNone
	}
	return RestrictionsFargate
}
