// Package v1beta1 holds the kind SecurityGroupPolicy of EKS's VPC resource controller, group vpcresources.k8s.aws. The
// fields are those that AWS documents (Amazon EKS user guide, "Use a security group policy for an Amazon EKS Pod"); the
// definition is Nodeless's own. On EKS the control plane installs it.
//
// +kubebuilder:object:generate=true
// +groupName=vpcresources.k8s.aws
// +versionName=v1beta1
package v1beta1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of SecurityGroupPolicy.
var GroupVersion = schema.GroupVersion{Group: "vpcresources.k8s.aws", Version: "v1beta1"}

// PodENI is the extended resource for branch network interfaces. A pod with its own security groups requests one.
const PodENI = "vpc.amazonaws.com/pod-eni"

// PrivateIPv4Address is the extended resource for pod addresses on Windows. A Windows pod requests one.
const PrivateIPv4Address = "vpc.amazonaws.com/PrivateIPv4Address"

// SecurityGroupPolicy assigns security groups to the pods that it selects in its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=securitygrouppolicies,shortName=sgp
// +kubebuilder:printcolumn:name="Security-Group-Ids",type=string,JSONPath=`.spec.securityGroups.groupIds`
type SecurityGroupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec SecurityGroupPolicySpec `json:"spec"`
}

// SecurityGroupPolicySpec selects pods by their labels, by the labels of their service accounts, or by both.
//
// +kubebuilder:validation:XValidation:rule="has(self.podSelector) || has(self.serviceAccountSelector)",message="give podSelector or serviceAccountSelector: without either the policy selects no pod"
type SecurityGroupPolicySpec struct {
	// PodSelector selects pods by their labels; {} selects all pods of the namespace.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// ServiceAccountSelector selects pods by the labels of their service accounts.
	// +optional
	ServiceAccountSelector *metav1.LabelSelector `json:"serviceAccountSelector,omitempty"`
	// SecurityGroups are the security groups of the selected pods.
	// +required
	SecurityGroups GroupIDs `json:"securityGroups"`
}

// GroupIDs lists security groups of EC2.
type GroupIDs struct {
	// Groups are the IDs of the security groups.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Groups []string `json:"groupIds"`
}

// SecurityGroupPolicyList is a list of SecurityGroupPolicies.
//
// +kubebuilder:object:root=true
type SecurityGroupPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SecurityGroupPolicy `json:"items"`
}

// AddToScheme adds the kind to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &SecurityGroupPolicy{}, &SecurityGroupPolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// GroupsOf returns the security groups of a pod, given the labels of the pod and of its service account: the groups of
// all policies that select it, each group once, in the order of the policies. An invalid selector selects nothing.
func GroupsOf(policies []SecurityGroupPolicy, pod, account map[string]string) (groups []string) {
	seen := map[string]bool{}
	for i := range policies {
		s := &policies[i].Spec
		if s.PodSelector == nil && s.ServiceAccountSelector == nil || !selects(s.PodSelector, pod) ||
			!selects(s.ServiceAccountSelector, account) {
			continue
		}
		for _, g := range s.SecurityGroups.Groups {
			if !seen[g] {
				groups, seen[g] = append(groups, g), true
			}
		}
	}
	return groups
}

// AsksForBranch reports whether a pod requests a branch interface.
func AsksForBranch(pod *corev1.Pod) bool { return asksFor(pod, PodENI) }

// AsksForAddress reports whether a pod requests an address on a Windows node.
func AsksForAddress(pod *corev1.Pod) bool { return asksFor(pod, PrivateIPv4Address) }

func asksFor(pod *corev1.Pod, resource corev1.ResourceName) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		q := c.Resources.Requests[resource]
		return q.Sign() > 0
	})
}

// selects reports whether a selector matches labels. A nil selector matches all.
func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(of))
}
