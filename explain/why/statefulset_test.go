package why

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/engine/model"
)

// A changed template reaches a pending pod of a StatefulSet by itself only if the StatefulSet replaces unready pods.
func TestAPodOfAStatefulSetIsReplaced(t *testing.T) {
	const (
		edit = `kubectl -n shop patch statefulset db --type json -p '[{"op":"replace","path":"/spec/template/spec/nodeSelector/disk","value":"ssd"}]'`
		how  = "in spec.template.spec of StatefulSet db: let nodeSelector or nodeAffinity allow disk: ssd"
		del  = " && kubectl -n shop delete pod db-1"
	)
	for spec, want := range map[string]struct{ command, how string }{
		`{podManagementPolicy: Parallel, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}`: {edit, ""},
		`{podManagementPolicy: OrderedReady, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}`: {
			edit + del, "; then delete pod db-1: podManagementPolicy OrderedReady replaces no pod while one is not ready",
		},
		`{podManagementPolicy: Parallel, updateStrategy: {type: OnDelete}}`: {
			edit + del, "; then delete pod db-1: updateStrategy OnDelete replaces no pod by itself",
		},
		`{podManagementPolicy: Parallel, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 3}}}`: {
			"", "; lower spec.updateStrategy.rollingUpdate.partition of StatefulSet db from 3 to at most 1 too, else the " +
				"pod keeps the old template even if it is deleted",
		},
		`{ordinals: {start: 1}, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}`: {
			"", "; lower spec.updateStrategy.rollingUpdate.partition of StatefulSet db from 1 to at most 0 too, else the " +
				"pod keeps the old template even if it is deleted; then delete pod db-1: podManagementPolicy OrderedReady " +
				"replaces no pod while one is not ready",
		},
	} {
		var set appsv1.StatefulSet
		if err := yaml.UnmarshalStrict([]byte("{metadata: {name: db, namespace: shop}, spec: "+spec+"}"), &set); err != nil {
			t.Fatal(err)
		}
		set.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "hdd"}
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(`metadata: {name: db-1, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u, controller: true}]}`), pod); err != nil {
			t.Fatal(err)
		}
		c := &model.Change{Rule: model.RuleRequirement, Object: "disk", From: "hdd", To: "ssd"}
		patch, then := patchOfWorkload(pod, &set, c)
		command := ""
		if patch != nil {
			command = patch.Command()
		}
		if command != want.command {
			t.Errorf("%s\ngot  %s\nwant %s", spec, command, want.command)
		}
		if got := remedy(pod, c, then); got != how+want.how {
			t.Errorf("%s\ngot  %s\nwant %s", spec, got, how+want.how)
		}
	}
}
