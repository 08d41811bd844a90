package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/engine/model"
)

// The kubelet reports a pod's resources in the status, which does not change the generation.
func TestAResizedPodHoldsTheLargerUntilItIsDone(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	reported := func(cpu string, version int) *corev1.Pod {
		p := podOf("a", "n", "1", version)
		p.Generation = 2
		has := corev1.ResourceList{"cpu": resource.MustParse(cpu)}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, AllocatedResources: has, Resources: &corev1.ResourceRequirements{Requests: has},
		}}
		return p
	}
	for version, step := range []struct {
		has  string
		used int64
	}{{"2", 2000}, {"3", 3000}, {"1", 1000}} {
		w.Update(reported(step.has, 2+version))
		if used := w.Snapshot().Nodes[0].Used[model.CPU]; used != step.used {
			t.Errorf("it asks for 1 and has %s: %dm are used", step.has, used)
		}
	}
}
