package rbac

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A host reads what pods refer to as the Nodes of its microVMs, by impersonation: the API server's node authorizer
// lets a Node read the Secrets and ConfigMaps of the pods that are bound to it, and get tokens for these, and nothing
// of other pods. Nobody else has to be able to read them in order to give them to the host.

// NodeGroup is the group that all Nodes are in, NodeUser begins their names as users.
const (
	NodeGroup = "system:nodes"
	NodeUser  = "system:node:"
)

// asNodeRules let a host speak as Nodes of these names.
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

// nodePolicyName is that of the policy and its binding.
const nodePolicyName = "nodeless-hosts"

// isHostsNode is true for the Nodes of joined hosts, whose names are of no other kind of Node: those of Fargate and
// EC2 have a domain.
const isHostsNode = `request.userInfo.username.matches('^system:node:fargate-ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+$')`

// onlyTokens is true for a request of a token that ends with a pod.
const onlyTokens = `request.operation == 'CREATE' && request.resource.resource == 'serviceaccounts' && ` +
	`request.subResource == 'token' && has(object.spec.boundObjectRef) && object.spec.boundObjectRef.kind == 'Pod'`

// NodePolicy keeps hosts from all that the node authorizer lets Nodes write: Nodes, leases and the status of pods are
// the controller's. All that a host may create as a Node are tokens for its pods.
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
