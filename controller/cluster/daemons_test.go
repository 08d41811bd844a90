package cluster

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// daemonPod is a pod that the DaemonSet controller creates for a Node.
func daemonPod(name, daemonSet, node, bound string, version int) *corev1.Pod {
	p := podOf(name, bound, "1", version)
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: daemonSet, Controller: &yes}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key:      "metadata.name",
			Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}}}},
	}}}
	return p
}

func TestAMachineKnowsWhichDaemonSetsWaitForIt(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	w.Update(nodeOf("m", 1))
	w.Update(daemonPod("a", "agent", "n", "", 2))
	w.Update(daemonPod("b", "proxy", "n", "", 2))
	lacks := func(node string) []model.MissingDaemon {
		for _, n := range w.Snapshot().Nodes {
			if n.Name == node {
				return n.MissingDaemons
			}
		}
		return nil
	}
	if got := lacks("n"); len(got) != 2 || got[0] != (model.MissingDaemon{DaemonSet: "default/agent", Since: noon}) ||
		got[1].DaemonSet != "default/proxy" {
		t.Fatalf("two wait: %+v", got)
	}
	if got := lacks("m"); len(got) != 0 {
		t.Errorf("none waits for m: %+v", got)
	}
	if len(w.Snapshot().Pending) != 0 {
		t.Error("no machine is launched for a DaemonSet's pod")
	}
	w.Update(daemonPod("a", "agent", "n", "n", 3))
	going := daemonPod("b", "proxy", "n", "", 3)
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	w.Update(going)
	if got := lacks("n"); len(got) != 0 {
		t.Errorf("one is bound, the other is going: %+v", got)
	}
	again := daemonPod("b", "proxy", "m", "", 4)
	again.UID, again.CreationTimestamp = "another", metav1.Time{Time: noon.Add(time.Second)}
	w.Update(again)
	if got := lacks("m"); len(got) != 1 || !got[0].Since.Equal(noon.Add(time.Second)) {
		t.Errorf("it waits for the other machine now: %+v", got)
	}
	changed(w)
	w.Delete(again)
	if got := lacks("m"); len(got) != 0 || !changed(w) {
		t.Errorf("it was deleted: %+v", got)
	}
}

// The next pods of a DaemonSet will be like its newest pod, to which admission may have added, not like its template.
// Pods of an older template say nothing about the current one.
func TestADaemonIsLikeItsNewestPod(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	w.Update(nodeOf("m", 1))
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "agent", UID: "agent", ResourceVersion: "1", Generation: 1,
		Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "1"},
	}}
	ds.Spec.Template.Spec.Containers = podOf("template", "", "1", 1).Spec.Containers
	pod := func(name, cpu, template string, age time.Duration, version int) *corev1.Pod {
		p := daemonPod(name, "agent", "n", "n", version)
		p.OwnerReferences[0].UID = "agent"
		p.CreationTimestamp.Time = noon.Add(-age)
		p.Labels = map[string]string{"pod-template-generation": template}
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cpu)
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 9100}}
		return p
	}
	expect := func(what string, cpu int64, ports int) {
		t.Helper()
		s := w.Snapshot()
		d, m := s.Daemons[0].Shape, s.Nodes[s.NodeIndex("m")]
		if d.Requests[model.CPU] != cpu || len(d.HostPorts) != ports || m.Used[model.CPU] != cpu || len(m.DaemonPorts) != ports {
			t.Errorf("%s: it requests %v and ports %v; on node m %v and %v", what, d.Requests, d.HostPorts, m.Used, m.DaemonPorts)
		}
	}
	w.Update(pod("b", "3", "1", time.Minute, 2))
	w.Update(ds)
	expect("the webhook has tripled the request", 3000, 1)
	w.Update(pod("a", "2", "1", time.Hour, 2))
	expect("an older pod", 3000, 1)
	w.Delete(pod("b", "3", "1", time.Minute, 3))
	expect("the newest pod is gone", 3000, 1)
	ds = ds.DeepCopy()
	ds.Annotations[appsv1.DeprecatedTemplateGeneration], ds.Generation, ds.ResourceVersion = "2", 2, "9"
	w.Update(ds)
	expect("the template is another one", 1000, 0)
	w.Update(pod("c", "4", "2", 0, 10))
	expect("its first pod", 4000, 1)
}

// An annotation changes neither the generation nor the status of a pool, but it does change what the pool allows.
func TestAPoolsWishesAreSeenAtOnce(t *testing.T) {
	w, clock := fresh()
	w.SetCatalog(class, types1(), "")
	update := func(version int, annotations map[string]string) {
		np := poolOf("p", version)
		np.Generation, np.Annotations = 1, annotations
		w.Update(np)
	}
	update(1, nil)
	w.Snapshot()
	changed(w)
	update(2, map[string]string{
		translate.AnnotationWindows:  "0 22 * * * 8h",
		translate.AnnotationTimeZone: "Europe/Berlin",
	})
	window := func() model.Window { return w.Snapshot().Pools[0].Disruption.Window }
	if opens := noon.Add(8 * time.Hour); !changed(w) || window().Open || !window().Until.Equal(opens) {
		t.Fatalf("it opens at 20:00 UTC: %+v", window())
	}
	clock.Advance(8 * time.Hour)
	if !changed(w) || !window().Open {
		t.Errorf("nobody was told that the window is open: %+v", window())
	}
	changed(w)
	update(3, map[string]string{
		translate.AnnotationWindows:  "0 22 * * * 8h",
		translate.AnnotationTimeZone: "Europe/Berlin", "example.com/other": "x",
	})
	if changed(w) {
		t.Error("an annotation that is none of ours changed something")
	}
}
