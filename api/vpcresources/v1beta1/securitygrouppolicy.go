// Package v1beta1 holds the kind SecurityGroupPolicy of EKS's VPC resource controller, group vpcresources.k8s.aws. The
// fields are those that AWS documents (Amazon EKS user guide, "Use a security group policy for an Amazon EKS Pod"); the
// definition is Nodeless's own. On EKS the control plane brings it.
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

// PodENI is the extended resource of which pods in security groups of their own ask for one: a branch interface.
const PodENI = "vpc.amazonaws.com/pod-eni"

// SecurityGroupPolicy says in which security groups the pods of its namespace are that it selects.
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

// SecurityGroupPolicySpec selects pods by their labels, by those of their service accounts, or by both.
//
// +kubebuilder:validation:XValidation:rule="has(self.podSelector) || has(self.serviceAccountSelector)",message="give podSelector or serviceAccountSelector: without either the policy selects no pod"
type SecurityGroupPolicySpec struct {
	// PodSelector selects pods by their labels; {} selects all of the namespace.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// ServiceAccountSelector selects the pods of service accounts by these accounts' labels.
	// +optional
	ServiceAccountSelector *metav1.LabelSelector `json:"serviceAccountSelector,omitempty"`
	// +required
	SecurityGroups GroupIDs `json:"securityGroups"`
}

// GroupIDs are security groups of EC2.
type GroupIDs struct {
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

// GroupsOf returns the security groups of a pod with these labels, whose service account has those: of all policies
// that select it, each group once, in the order of the policies. A selector that cannot be understood selects nothing.
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

// AsksForBranch reports whether a pod is to have an interface of its own.
func AsksForBranch(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		q := c.Resources.Requests[PodENI]
		return q.Sign() > 0
	})
}

// selects reports whether a selector that may be missing selects labels.
func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(of))
}
