package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
