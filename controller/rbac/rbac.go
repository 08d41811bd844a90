// Package rbac defines what the controller may do in a cluster: a service account and its roles, with no more
// permissions than it needs.
package rbac

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// Name is the name of the service account and of all roles and bindings.
const Name = "nodeless"

func rule(group string, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// deviceKinds are the resources of dynamic resource allocation.
var deviceKinds = []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}

// storageKinds say where volumes can be created and attached.
var storageKinds = []string{"storageclasses", "csinodes", "csidrivers", "csistoragecapacities"}

// Rules are the permissions that the controller needs in the whole cluster.
func Rules() []rbacv1.PolicyRule {
	read, write := []string{"get", "list", "watch"}, []string{"patch"}
	return []rbacv1.PolicyRule{
		// What pods request and where they may run.
		rule("", []string{
			"pods", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims", "limitranges",
			"podtemplates",
		}, read),
		rule("apps", []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, read),
		// How many pods will be created.
		rule("batch", []string{"cronjobs", "jobs"}, read),
		rule("", []string{"replicationcontrollers", "resourcequotas"}, read),
		// Which pods default topology spread constraints count, beside those of the controllers above.
		rule("", []string{"services"}, read),
		rule("policy", []string{"poddisruptionbudgets"}, read),
		rule("storage.k8s.io", append([]string{"volumeattachments"}, storageKinds...), read),
		rule("resource.k8s.io", deviceKinds, read),
		// Nodes: taints, labels, finalizers, and deletion.
		rule("", []string{"nodes"}, []string{"patch", "delete"}),
		// Pods are evicted from nodes being removed; those that do not leave in time are deleted.
		rule("", []string{"pods/eviction"}, []string{"create"}),
		rule("", []string{"pods"}, []string{"delete"}),
		rule("", []string{"events"}, []string{"create", "patch"}),
		// Karpenter's objects.
		rule("karpenter.sh", []string{"nodepools", "nodeclaims", "nodeoverlays"}, read),
		rule("karpenter.sh", []string{"nodeclaims"}, []string{"create", "delete", "patch"}),
		rule("karpenter.sh", []string{"nodepools", "nodepools/status", "nodeclaims/status", "nodeoverlays/status"}, write),
		rule("karpenter.k8s.aws", []string{"ec2nodeclasses"}, read),
		rule("karpenter.k8s.aws", []string{"ec2nodeclasses", "ec2nodeclasses/status"}, write),
		// Auto Scaling groups as node classes.
		rule("nodeless.sh", []string{"nodegroups"}, read),
		rule("nodeless.sh", []string{"nodegroups", "nodegroups/status"}, write),
		// Where pods get their addresses under custom networking of the VPC CNI.
		rule("crd.k8s.amazonaws.com", []string{"eniconfigs"}, read),
		// Whether pods on Windows get addresses.
		named(rule("", []string{"configmaps"}, read), catalog.WindowsIPAMMap),
		rule("autoscaling.x-k8s.io", []string{"capacitybuffers"}, read),
		rule("autoscaling.x-k8s.io", []string{"capacitybuffers/status"}, write),
		// Pods of FargateProfiles: the webhook assigns them, fargate-scheduler reports why they wait or creates Nodes for
		// them.
		rule("nodeless.sh", []string{"fargateprofiles", "microvmhosts", "microvms"}, read),
		rule("nodeless.sh", []string{"fargateprofiles/status", "microvmhosts/status"}, write),
		rule("nodeless.sh", []string{"microvms"}, []string{"create", "patch", "delete"}),
		rule("", []string{"pods/status", "nodes/status"}, write),
		rule("", []string{"pods/binding", "nodes"}, []string{"create"}),
		named(rule("", []string{"configmaps"}, []string{"get"}), fargate.LoggingConfigMap),
		// What nodes of AL2023 must know to join.
		named(rule("networking.k8s.io", []string{"servicecidrs"}, []string{"get"}), "kubernetes"),
		// Whether another controller leads in another namespace.
		named(rule("coordination.k8s.io", []string{"leases"}, []string{"list"}), KarpenterLease),
		// The decision log is kept in a ring of objects of this kind, which only the controller writes.
		rule("nodeless.sh", []string{"decisionlogs"}, []string{"list", "create", "update"}),
		rule("admissionregistration.k8s.io", []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
			[]string{"create"}),
		named(rule("admissionregistration.k8s.io",
			[]string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}, []string{"get", "update", "delete"}),
			fargate.MutatingWebhooks, fargate.ValidatingWebhooks),
	}
}

// named returns a rule that is restricted to objects with these names.
func named(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	r.ResourceNames = names
	return r
}

// KarpenterLease is the name of the Lease with which Karpenter's replicas elect a leader (its setting
// LEADER_ELECTION_NAME), in the namespace that Karpenter runs in.
const KarpenterLease = "karpenter-leader-election"

// leaseRules are the permissions needed in the namespace of Nodes' leases, for the Nodes whose hosts the controller
// represents.
func leaseRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("coordination.k8s.io", []string{"leases"}, []string{"create", "get", "update"})}
}

// ownRules are the permissions needed in the controller's own namespace: the lease, and the webhook's certificates.
// Creation cannot be restricted by name.
func ownRules(lease string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("coordination.k8s.io", []string{"leases"}, []string{"create"}),
		named(rule("coordination.k8s.io", []string{"leases"}, []string{"get", "update"}), lease),
		rule("", []string{"secrets"}, []string{"create"}),
		named(rule("", []string{"secrets"}, []string{"get", "update"}), fargate.WebhookSecret),
	}
}

// SurgeRules are the additional permissions needed if Deployments request another pod before their only one is
// evicted (nodeless.sh/surge-before-eviction). An account that may change Deployments may run anything, so these are
// granted only on request.
func SurgeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("apps", []string{"deployments"}, []string{"patch"})}
}

// NodeGroupRules are the additional permissions needed to create a NodePool for each NodeGroup that none refers to,
// and a NodeGroup for each Auto Scaling group that is discovered.
func NodeGroupRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("karpenter.sh", []string{"nodepools"}, []string{"create", "delete"}),
		rule("nodeless.sh", []string{"nodegroups"}, []string{"create", "delete"}),
	}
}

// AutoModeRules are the additional permissions needed to accept the NodeClasses of EKS Auto Mode and to maintain the
// mode's built-in objects.
func AutoModeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("karpenter.sh", []string{"nodepools"}, []string{"create", "update", "delete"}),
		rule("eks.amazonaws.com", []string{"nodeclasses"}, []string{
			"get", "list", "watch", "create", "update", "patch", "delete",
		}),
		rule("eks.amazonaws.com", []string{"nodeclasses/status"}, []string{"update", "patch"}),
		rule("eks.amazonaws.com", []string{"cninodes"}, []string{"create"}),
	}
}

// PageRules are the additional permissions needed to serve the page to users on other hosts: to identify users, to
// check what they may list, and to read what is shown to them.
func PageRules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rule("authentication.k8s.io", []string{"tokenreviews"}, []string{"create"}),
		rule("authorization.k8s.io", []string{"subjectaccessreviews"}, []string{"create"}),
	}, ViewRules()...)
}

// ViewName is the name of the role for read-only users.
const ViewName = "nodeless-view"

// ViewRules are the permissions needed by "nodeless why" and other commands that only read a cluster: the built-in
// role view covers neither Nodes nor NodePools.
func ViewRules() []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		rule("", []string{
			"pods", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims", "limitranges",
			"events", "services", "replicationcontrollers",
		}, read),
		// what pods are made from: a change patches it
		rule("apps", []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, read),
		rule("batch", []string{"cronjobs", "jobs"}, read),
		rule("policy", []string{"poddisruptionbudgets"}, read),
		rule("storage.k8s.io", storageKinds, read),
		rule("resource.k8s.io", deviceKinds, read),
		rule("karpenter.sh", []string{"nodepools", "nodeclaims", "nodeoverlays"}, read),
		rule("karpenter.k8s.aws", []string{"ec2nodeclasses"}, read),
		rule("eks.amazonaws.com", []string{"nodeclasses"}, read),
		rule("nodeless.sh", []string{"fargateprofiles", "microvmhosts", "microvms", "nodegroups", "decisionlogs"}, read),
		rule("metrics.k8s.io", []string{"nodes"}, []string{"list"}), // what nodes use
	}
}

// ViewObjects returns the role for read-only users and its binding to each subject. Each binding has a name of its own:
// applying one must not replace the subject of another.
func ViewObjects(subjects ...rbacv1.Subject) []client.Object {
	meta := metav1.ObjectMeta{Name: ViewName, Labels: map[string]string{"app.kubernetes.io/name": Name}}
	of := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	out := []client.Object{&rbacv1.ClusterRole{TypeMeta: of("ClusterRole"), ObjectMeta: meta, Rules: ViewRules()}}
	for _, s := range subjects {
		meta := *meta.DeepCopy()
		meta.Name += "-" + fmt.Sprintf("%x", sha256.Sum256([]byte(s.Kind+"/"+s.Namespace+"/"+s.Name)))[:10]
		out = append(out, &rbacv1.ClusterRoleBinding{
			TypeMeta: of("ClusterRoleBinding"), ObjectMeta: meta, Subjects: []rbacv1.Subject{s},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ViewName},
		})
	}
	return out
}

// Objects returns a service account in a namespace, its roles and bindings, in an order in which they can be created.
// more are permissions in the whole cluster in addition to Rules.
func Objects(namespace, lease string, more ...rbacv1.PolicyRule) []client.Object {
	meta := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: Name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": Name}}
	}
	of := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	to := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: Name}
	}
	who := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: Name, Namespace: namespace}}
	return []client.Object{
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: meta(namespace),
		},
		&rbacv1.ClusterRole{TypeMeta: of("ClusterRole"), ObjectMeta: meta(""), Rules: append(Rules(), more...)},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: of("ClusterRoleBinding"), ObjectMeta: meta(""), RoleRef: to("ClusterRole"),
			Subjects: who,
		},
		&rbacv1.Role{TypeMeta: of("Role"), ObjectMeta: meta(namespace), Rules: ownRules(lease)},
		&rbacv1.RoleBinding{TypeMeta: of("RoleBinding"), ObjectMeta: meta(namespace), RoleRef: to("Role"), Subjects: who},
		&rbacv1.Role{TypeMeta: of("Role"), ObjectMeta: meta(corev1.NamespaceNodeLease), Rules: leaseRules()},
		&rbacv1.RoleBinding{
			TypeMeta: of("RoleBinding"), ObjectMeta: meta(corev1.NamespaceNodeLease), RoleRef: to("Role"),
			Subjects: who,
		},
	}
}
