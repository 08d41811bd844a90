package whatif

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/controller/cluster"
)

// A webhook changes what a DaemonSet's pods request. The next ones are like the newest, as the controller assumes,
// unless they will be made from another template.
func TestADaemonPodIsLikeTheNewestOne(t *testing.T) {
	at := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	requesting := func(cpu, node string) corev1.PodSpec {
		requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		return corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: requests},
		}}}
	}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "agent", UID: "ds",
		Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "3"},
	}}
	ds.Spec.Template.Spec = requesting("100m", "")
	owner := *metav1.NewControllerRef(ds, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	pod := func(name, template, cpu, node string, age time.Duration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(at.Add(-age)),
				Labels:          map[string]string{"pod-template-generation": template},
				OwnerReferences: []metav1.OwnerReference{owner},
			},
			Spec: requesting(cpu, node),
		}
	}
	before := pod("a", "2", "200m", "n1", time.Minute)
	older, newer := pod("b", "3", "300m", "n2", time.Hour), pod("c", "3", "400m", "n3", time.Minute)
	for name, x := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"no pod":                  {nil, "100m"},
		"a pod of the template":   {[]*corev1.Pod{newer}, "400m"},
		"the newest of two":       {[]*corev1.Pod{newer, older}, "400m"},
		"beside an earlier one's": {[]*corev1.Pod{older, before}, "300m"},
		"of an earlier one alone": {[]*corev1.Pod{before}, "100m"},
		"one that is not bound":   {[]*corev1.Pod{older, pod("d", "3", "500m", "", 0)}, "300m"},
	} {
		r := &run{
			daemons: map[string]*appsv1.DaemonSet{"shop/agent": ds}, newest: map[string]*corev1.Pod{},
			cluster: cluster.New(cluster.Options{}),
		}
		for _, p := range x.pods {
			r.noteDaemonPod(p)
		}
		spec := r.daemonSpec("shop/agent")
		if got := spec.Containers[0].Resources.Requests.Cpu().String(); got != x.want || spec.NodeName != "" {
			t.Errorf("%s: the next one requests %s on node %q, want %s on none", name, got, spec.NodeName, x.want)
		}
	}
}
