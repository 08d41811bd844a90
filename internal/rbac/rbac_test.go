package rbac_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodeless/nodeless/internal/rbac"
)

// may reports whether the rules allow all verbs, separated by blanks, on a resource such as nodes or apps/deployments.
func may(rules []rbacv1.PolicyRule, group, resource, verbs string) bool {
	for verb := range strings.FieldsSeq(verbs) {
		if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
		}) {
			return false
		}
	}
	return true
}

// What the rooms write, one line for each kind of write in the code; a whole life under these roles is told in
// internal/controller (TestTheRolesAreEnough).
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
		{"everybody: events", "", "events", "create patch"},
	} {
		if !may(rbac.Rules(), w.group, w.resource, w.verbs) {
			t.Errorf("%s: %s on %s of group %q is not allowed", w.who, w.verbs, w.resource, w.group)
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

// Nothing is allowed wholesale, nothing tells secrets, and nobody can be impersonated or given more.
func TestNoMoreThanNeededIsAllowed(t *testing.T) {
	var rules []rbacv1.PolicyRule
	for _, o := range rbac.Objects("team", "lease") {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			rules = append(rules, o.Rules...)
		case *rbacv1.Role:
			rules = append(rules, o.Rules...)
		}
	}
	for _, r := range rules {
		words := slices.Concat(r.APIGroups, r.Resources, r.Verbs)
		for _, bad := range []string{"*", "secrets", "configmaps", "serviceaccounts/token", "impersonate", "escalate", "bind", "deletecollection", rbacv1.GroupName} {
			if slices.Contains(words, bad) {
				t.Errorf("%s is allowed: %v", bad, r)
			}
		}
		if slices.Contains(r.Resources, "leases") && slices.Contains(r.Verbs, "update") && !slices.Equal(r.ResourceNames, []string{"lease"}) {
			t.Errorf("any lease may be changed: %v", r)
		}
	}
}
