package plane

import (
	"slices"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
)

// Anyone who looks for a fault may read the audit log, so it must not contain secrets and tokens.
func TestTheAuditLogKeepsSecrets(t *testing.T) {
	var policy auditv1.Policy
	if err := yaml.UnmarshalStrict([]byte(auditPolicy), &policy); err != nil {
		t.Fatal(err)
	}
	// level returns the level of the first rule that matches a write of a resource: the API server stops there.
	level := func(group, resource string) auditv1.Level {
		for _, r := range policy.Rules {
			about := func(g auditv1.GroupResources) bool {
				return g.Group == group && (len(g.Resources) == 0 || slices.Contains(g.Resources, resource))
			}
			if (len(r.Verbs) == 0 || slices.Contains(r.Verbs, "create")) &&
				(len(r.Resources) == 0 || slices.ContainsFunc(r.Resources, about)) {
				return r.Level
			}
		}
		return auditv1.LevelNone
	}
	for _, of := range [][2]string{
		{"", "secrets"},
		{"", "serviceaccounts/token"},
		{"authentication.k8s.io", "tokenreviews"},
	} {
		if got := level(of[0], of[1]); got != auditv1.LevelMetadata {
			t.Errorf("%s: level %s, want Metadata", of[1], got)
		}
	}
	if got := level("karpenter.sh", "nodepools"); got != auditv1.LevelRequest {
		t.Errorf("nodepools: level %s, want Request", got)
	}
}
