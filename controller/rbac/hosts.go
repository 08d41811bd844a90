package rbac

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// HostRules are the additional rules that the controller needs once microVM hosts have joined: it approves the hosts'
// serving certificates. It neither reads nor passes on the objects that pods on hosts refer to.
func HostRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("certificates.k8s.io", []string{"certificatesigningrequests"}, []string{"get", "list", "watch"}),
		rule("certificates.k8s.io", []string{"certificatesigningrequests/approval"}, []string{"update"}),
		named(rule("certificates.k8s.io", []string{"signers"}, []string{"approve"}), "kubernetes.io/kubelet-serving"),
	}
}

// A host is a service account in its own namespace. HostJoin is the Secret whose deletion ends its first token.
const (
	HostAccount = "host"
	HostJoin    = "join"
)

// hostClusterRole allows what a host may do in the whole cluster: review tokens and access and record events on pods,
// as every kubelet does; request certificates, which others approve; read where logs go; and see the objects that
// determine the network of pods.
const hostClusterRole = "nodeless-host"

// HostRole is the role of all hosts. Hosts read the objects that pods refer to as their Nodes.
func HostRole() client.Object {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: hostClusterRole, Labels: map[string]string{"app.kubernetes.io/name": Name}},
		Rules: []rbacv1.PolicyRule{
			rule("authentication.k8s.io", []string{"tokenreviews"}, []string{"create"}),
			rule("authorization.k8s.io", []string{"subjectaccessreviews"}, []string{"create"}),
			rule("certificates.k8s.io", []string{"certificatesigningrequests"}, []string{"create", "get", "list", "watch"}),
			rule("", []string{"events"}, []string{"create", "patch"}),
			// Where the logs of pods go: a host routes those of its own pods.
			named(rule("", []string{"namespaces"}, []string{"get", "list", "watch"}), fargate.LoggingNamespace),
			named(rule("", []string{"configmaps"}, []string{"get", "list", "watch"}), fargate.LoggingConfigMap),
			// Services, as a kube-proxy sees them, and where the other hosts are. What these run is not visible.
			rule("", []string{"services"}, []string{"get", "list", "watch"}),
			rule("discovery.k8s.io", []string{"endpointslices"}, []string{"get", "list", "watch"}),
			rule("networking.k8s.io", []string{"servicecidrs"}, []string{"get", "list"}),
			rule(v1alpha1.GroupVersion.Group, []string{"microvmhosts"}, []string{"get", "list", "watch"}),
		},
	}
}

// HostNamespace returns the namespace of a host. Everything else that belongs to the host is deleted with it.
func HostNamespace(host string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   v1alpha1.HostNamespace(host),
			Labels: map[string]string{"app.kubernetes.io/name": Name},
		},
	}
}

// hostRules allow what a host may do in its own namespace: read what to run, report its resources and the state of
// its microVMs, and renew its token.
func hostRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(v1alpha1.GroupVersion.Group, []string{"microvmhosts", "microvms"}, []string{"get", "list", "watch"}),
		rule(v1alpha1.GroupVersion.Group, []string{"microvmhosts/status", "microvms/status", "microvms"}, []string{"patch"}),
		named(rule("", []string{"serviceaccounts/token"}, []string{"create"}), HostAccount),
		named(rule("", []string{"secrets"}, []string{"delete"}), HostJoin),
	}
}

// HostObjects returns a host's account and permissions, in an order in which they can be created. They are deleted
// with the namespace, whose UID is given. nodes are the names that the Nodes of its microVMs may have.
func HostObjects(host string, namespace types.UID, nodes []string) []client.Object {
	in := v1alpha1.HostNamespace(host)
	labels := map[string]string{"app.kubernetes.io/name": Name}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	with := func(m metav1.ObjectMeta) metav1.ObjectMeta { // for objects outside the namespace
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: in, UID: namespace}}
		return m
	}
	of := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	to := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	who := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: HostAccount, Namespace: in}}
	asNodes := with(meta("", in+":nodes"))
	return []client.Object{
		NodePolicy(), NodePolicyBinding(), HostRole(),
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: meta(in, HostAccount),
		},
		&rbacv1.Role{TypeMeta: of("Role"), ObjectMeta: meta(in, HostAccount), Rules: hostRules()},
		&rbacv1.RoleBinding{
			TypeMeta: of("RoleBinding"), ObjectMeta: meta(in, HostAccount),
			RoleRef: to("Role", HostAccount), Subjects: who,
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: of("ClusterRoleBinding"), ObjectMeta: with(meta("", in)),
			RoleRef: to("ClusterRole", hostClusterRole), Subjects: who,
		},
		&rbacv1.ClusterRole{TypeMeta: of("ClusterRole"), ObjectMeta: asNodes, Rules: asNodeRules(nodes)},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: of("ClusterRoleBinding"), ObjectMeta: asNodes,
			RoleRef: to("ClusterRole", asNodes.Name), Subjects: who,
		},
		// Which client certificates to trust.
		&rbacv1.RoleBinding{
			TypeMeta: of("RoleBinding"), ObjectMeta: with(meta(metav1.NamespaceSystem, in)),
			RoleRef: to("Role", "extension-apiserver-authentication-reader"), Subjects: who,
		},
	}
}
