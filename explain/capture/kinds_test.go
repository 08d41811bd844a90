package capture

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodeless/nodeless/controller/rbac"
)

// Whoever has the role of "nodeless rbac --view" captures everything, and is not told to ask for that role.
func TestReadersMayReadWhatIsCaptured(t *testing.T) {
	for _, k := range slices.Concat(kinds, spreadKinds, extraKinds) {
		if !slices.ContainsFunc(rbac.ViewRules(), func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, k.group) && slices.Contains(r.Resources, k.resource) &&
				slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
		}) {
			t.Errorf("%s may not be read", k.name())
		}
	}
}

// Captures of earlier versions hold PriorityClasses, and count them.
func TestACaptureWithPriorityClassesIsRead(t *testing.T) {
	const old = `apiVersion: nodeless.sh/v1alpha1
kind: Capture
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1
---
apiVersion: nodeless.sh/v1alpha1
kind: CaptureEnd
objects: 1
`
	if _, err := Load(t.Context(), strings.NewReader(old), "c.yaml", Options{}); err != nil {
		t.Error(err)
	}
}
