package rbac_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodeless/nodeless/controller/rbac"
)

// may reports whether the rules allow all verbs, separated by blanks, on a resource such as nodes or apps/deployments.
func may(rules []rbacv1.PolicyRule, group, resource, verbs string) bool {
	for verb := range strings.FieldsSeq(verbs) {
		if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) &&
				slices.Contains(r.Verbs, verb)
		}) {
			return false
		}
	}
	return true
}

// The controller's writes, one line for each kind of write in the code; TestTheRolesAreEnough in package controller
// runs a node's whole life under these roles.
func TestEveryWriteIsAllowed(t *testing.T) {
	for _, w := range []struct{ who, group, resource, verbs string }{
		{"act: claims of plans, commands noted on them, their end", "karpenter.sh", "nodeclaims", "create patch delete"},
		{"act: the condition DisruptionReason", "karpenter.sh", "nodeclaims/status", "patch"},
		{"act, lifecycle: taints, labels, finalizers, the end of Nodes", "", "nodes", "patch delete"},
		{"lifecycle: pods leave", "", "pods/eviction", "create"},
		{"lifecycle: pods that do not leave in time", "", "pods", "delete"},
		{"status: hashes of pools", "karpenter.sh", "nodepools", "patch"},
		{"status: conditions and sums of pools", "karpenter.sh", "nodepools/status", "patch"},
		{"status: hashes and finalizers of classes", "karpenter.k8s.aws", "ec2nodeclasses", "patch"},
		{"status: conditions of classes", "karpenter.k8s.aws", "ec2nodeclasses/status", "patch"},
		{"overlays: conditions", "karpenter.sh", "nodeoverlays/status", "patch"},
		{"buffers: conditions", "autoscaling.x-k8s.io", "capacitybuffers/status", "patch"},
		{"microvm/scheduler: why a pod waits, what it does", "", "pods/status", "patch"},
		{"microvm/scheduler: Nodes of their own", "", "nodes", "create"},
		{"microvm/scheduler: whether they are there", "", "nodes/status", "patch"},
		{"microvm/scheduler: places", "", "pods/binding", "create"},
		{"record: what was decided", "nodeless.sh", "decisionlogs", "list create update"},
		{"microvm/scheduler: conditions of profiles", "nodeless.sh", "fargateprofiles/status", "patch"},
		{"microvm/remote: what hosts are to run", "nodeless.sh", "microvms", "create patch delete"},
		{"microvm/remote: hosts of which nothing is heard", "nodeless.sh", "microvmhosts/status", "patch"},
		{"status: what AWS says about groups", "nodeless.sh", "nodegroups/status", "patch"},
		{"status: finalizers of groups", "nodeless.sh", "nodegroups", "get list watch patch"},
		{"admission: webhooks", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "create get update"},
		{"admission: webhooks", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "create get update"},
		{"everybody: events", "", "events", "create patch"},
		{"run: the range of Services", "networking.k8s.io", "servicecidrs", "get"},
	} {
		if !may(rbac.Rules(), w.group, w.resource, w.verbs) {
			t.Errorf("%s: %s on %s of group %q is not allowed", w.who, w.verbs, w.resource, w.group)
		}
	}
	for _, resource := range [][2]string{{"karpenter.sh", "nodepools"}, {"nodeless.sh", "nodegroups"}} {
		if may(rbac.Rules(), resource[0], resource[1], "create") || !may(rbac.NodeGroupRules(), resource[0], resource[1],
			"create delete") {
			t.Errorf("%s are to be created with the rules for node groups alone", resource[1])
		}
	}
	for _, kind := range []string{"podtemplates", "limitranges", "pods", "nodes"} {
		if !may(rbac.Rules(), "", kind, "get list watch") {
			t.Errorf("%s cannot be watched", kind)
		}
	}
	for _, kind := range []string{"deployments", "statefulsets", "replicasets", "daemonsets"} {
		if !may(rbac.Rules(), "apps", kind, "get list watch") {
			t.Errorf("%s cannot be watched", kind)
		}
	}
}

// No rule uses a wildcard, no secret but the controller's own can be read, and no rule allows impersonation or
// escalation.
func TestNoMoreThanNeededIsAllowed(t *testing.T) {
	var rules []rbacv1.PolicyRule
	for _, o := range rbac.Objects("team", "lease", rbac.HostRules()...) {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			rules = append(rules, o.Rules...)
		case *rbacv1.Role:
			if o.Namespace == corev1.NamespaceNodeLease { // any Node's lease, and nothing else
				if len(o.Rules) != 1 || !slices.Equal(o.Rules[0].Resources, []string{"leases"}) {
					t.Errorf("in %s: %v", o.Namespace, o.Rules)
				}
				continue
			}
			rules = append(rules, o.Rules...)
		}
	}
	for _, r := range rules {
		words := slices.Concat(r.APIGroups, r.Resources, r.Verbs)
		for _, bad := range []string{
			"*", "serviceaccounts/token", "impersonate", "escalate", "bind", "deletecollection",
			rbacv1.GroupName, "users", "groups",
		} {
			if slices.Contains(words, bad) {
				t.Errorf("%s is allowed: %v", bad, r)
			}
		}
		for _, kind := range []string{
			"secrets", "configmaps", "mutatingwebhookconfigurations",
			"validatingwebhookconfigurations",
		} {
			if slices.Contains(r.Resources, kind) && !slices.Equal(r.Verbs, []string{"create"}) && len(r.ResourceNames) == 0 {
				t.Errorf("any of the %s may be read or changed: %v", kind, r)
			}
		}
		if slices.Contains(r.Resources, "leases") && slices.Contains(r.Verbs, "update") &&
			!slices.Equal(r.ResourceNames, []string{"lease"}) {
			t.Errorf("any lease may be changed: %v", r)
		}
	}
}

// A host may impersonate the Nodes that were assigned to it and no one else. The role shared by all hosts names no
// user.
func TestAHostSpeaksAsItsNodesAlone(t *testing.T) {
	nodes := []string{"fargate-ip-10-202-0-1", "fargate-ip-10-202-0-2"}
	users := []string{}
	for _, o := range rbac.HostObjects("shelf", "uid", nodes) {
		role, ok := o.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		for _, r := range role.Rules {
			switch {
			case !slices.Contains(r.Verbs, "impersonate"):
			case slices.Equal(r.Resources, []string{"groups"}) && slices.Equal(r.ResourceNames, []string{rbac.NodeGroup}):
			case slices.Equal(r.Resources, []string{"users"}) && len(r.ResourceNames) > 0:
				users = append(users, r.ResourceNames...)
			default:
				t.Errorf("%s: %v", role.Name, r)
			}
			for _, bad := range []string{"*", "secrets", "serviceaccounts/token"} {
				if slices.Contains(slices.Concat(r.APIGroups, r.Resources, r.Verbs), bad) {
					t.Errorf("%s: %s is allowed in the whole cluster: %v", role.Name, bad, r)
				}
			}
		}
	}
	if !slices.Equal(users, []string{"system:node:fargate-ip-10-202-0-1", "system:node:fargate-ip-10-202-0-2"}) {
		t.Errorf("it speaks as %v", users)
	}
}
