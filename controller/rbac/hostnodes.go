package rbac

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A host reads the objects that pods refer to as the Nodes of its microVMs, by impersonation: the API server's node
// authorizer lets a Node read the Secrets and ConfigMaps of the pods bound to it, and get tokens for these pods, and
// nothing of other pods. So no other component needs to read them in order to pass them to the host.

// NodeGroup is the group of all Nodes; NodeUser is the prefix of their user names.
const (
	NodeGroup = "system:nodes"
	NodeUser  = "system:node:"
)

// asNodeRules let a host impersonate the Nodes of these names.
func asNodeRules(nodes []string) []rbacv1.PolicyRule {
	users := make([]string, len(nodes))
	for i, n := range nodes {
		users[i] = NodeUser + n
	}
	impersonate := []string{"impersonate"}
	return []rbacv1.PolicyRule{
		named(rule("", []string{"users"}, impersonate), users...),
		named(rule("", []string{"groups"}, impersonate), NodeGroup),
	}
}

// nodePolicyName is the name of the policy and its binding.
const nodePolicyName = "nodeless-hosts"

// isHostsNode is true for the Nodes of joined hosts. No other kind of Node has such names: those of Fargate and EC2
// include a domain.
const isHostsNode = `request.userInfo.username.matches('^system:node:fargate-ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+$')`

// onlyTokens is true for a request for a token that is bound to a pod.
const onlyTokens = `request.operation == 'CREATE' && request.resource.resource == 'serviceaccounts' && ` +
	`request.subResource == 'token' && has(object.spec.boundObjectRef) && object.spec.boundObjectRef.kind == 'Pod'`

// NodePolicy denies hosts all writes that the node authorizer allows Nodes: Nodes, leases and the status of pods are
// the controller's. As a Node, a host may create only tokens for its pods.
func NodePolicy() client.Object {
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: nodePolicyName, Labels: map[string]string{"app.kubernetes.io/name": Name}},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.OperationAll},
					Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "node-of-a-host", Expression: isHostsNode}},
			Validations: []admissionv1.Validation{{
				Expression: onlyTokens, Message: "a microVM host writes nothing as a Node",
				Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
		},
	}
}

// NodePolicyBinding puts the policy in force.
func NodePolicyBinding() client.Object {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionv1.SchemeGroupVersion.String(),
			Kind:       "ValidatingAdmissionPolicyBinding",
		},
		ObjectMeta: metav1.ObjectMeta{Name: nodePolicyName, Labels: map[string]string{"app.kubernetes.io/name": Name}},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: nodePolicyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
}
