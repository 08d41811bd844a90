package cluster

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/engine/model"
)

func withClaim(p *corev1.Pod, claim string) *corev1.Pod {
	p.Generation = 1
	p.Spec.Volumes = []corev1.Volume{{
		Name:         "v",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
	}}
	return p
}

// claimData is a claim that waits for its first consumer, or is bound to a volume.
func claimData(name, class, volume string, version int) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: meta(name, version)}
	c.Namespace, c.Spec.StorageClassName, c.Spec.VolumeName = "default", &class, volume
	if volume != "" {
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	}
	return c
}

func volumeIn(name, zone string, version int) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: meta(name, version)}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + name}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: model.LabelZone, Operator: corev1.NodeSelectorOpIn,
			Values: []string{zone},
		}},
	}}}}
	return v
}

func storageClass(name string, mode storagev1.VolumeBindingMode, version int) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: meta(name, version), Provisioner: "ebs.csi.aws.com",
		VolumeBindingMode: &mode,
	}
}

// onlyPod returns the shape of the only pod.
func onlyPod(t *testing.T, s *model.Snapshot) model.Shape {
	t.Helper()
	if len(s.Pending) == 1 {
		return s.Shapes[s.Pending[0].Shape]
	}
	if len(s.Nodes) == 1 && len(s.Nodes[0].Pods) == 1 {
		return s.Shapes[s.Nodes[0].Pods[0].Shape]
	}
	t.Fatalf("want one pod, got %+v", s)
	return model.Shape{}
}

func TestAVolumeIsFollowedFromClaimToZone(t *testing.T) {
	w, _ := fresh()
	w.Update(withClaim(podOf("db", "", "1", 1), "data"))
	step := func(what string, o client.Object, wakes bool, want string) {
		t.Helper()
		changed(w)
		w.Update(o)
		if changed(w) != wakes {
			t.Errorf("%s: wakes the loop: %v", what, !wakes)
		}
		s := onlyPod(t, w.Snapshot())
		got := s.Blocked
		for _, v := range s.Volumes {
			got += fmt.Sprint(" ", v.ID, v.Topology)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s", what, got)
		}
	}
	step("nothing", nodeOf("other", 1), true, "data does not exist")
	w.Delete(nodeOf("other", 1))
	step("the claim", claimData("data", "gp3", "", 2), true, "storageClass gp3, which does not exist")
	step("another claim", claimData("other", "gp3", "", 3), false, "gp3")
	step("the class", storageClass("gp3", storagev1.VolumeBindingWaitForFirstConsumer, 4), true, " pvc/default/data[]")
	step("the same again", claimData("data", "gp3", "", 5), false, " pvc/default/data[]")
	step("bound", claimData("data", "gp3", "pv", 6), true, "persistentVolume pv, which does not exist")
	step("the volume", volumeIn("pv", "z", 7), true, " ebs.csi.aws.com/vol-pv[topology.kubernetes.io/zone In [z]]")

	changed(w)
	before := w.Snapshot()
	w.Delete(volumeIn("pv", "z", 8))
	if after := onlyPod(t, w.Snapshot()); after.Blocked == "" || !changed(w) || onlyPod(t, before).Blocked != "" {
		t.Errorf("the volume is gone: %+v", after)
	}
	w.Delete(withClaim(podOf("db", "", "1", 9), "data"))
	if len(w.storage.users) != 0 {
		t.Errorf("nobody is left, and still waited for: %v", w.storage.users)
	}
}

// A claim without a provisioner is matched again whenever a volume of its class is created, bound or deleted.
func TestAVolumeThatNobodyProvisionsIsFollowed(t *testing.T) {
	w, _ := fresh()
	class := storageClass("local", storagev1.VolumeBindingWaitForFirstConsumer, 1)
	class.Provisioner = "kubernetes.io/no-provisioner"
	w.Update(class)
	w.Update(claimData("data", "local", "", 2))
	w.Update(withClaim(podOf("db", "", "1", 3), "data"))
	volume := func(name, zone string, version int) *corev1.PersistentVolume {
		v := volumeIn(name, zone, version)
		v.Spec.StorageClassName, v.Status.Phase = "local", corev1.VolumeAvailable
		return v
	}
	step := func(what string, wakes bool, want string) {
		t.Helper()
		if changed(w) != wakes {
			t.Errorf("%s: wakes the loop: %v", what, !wakes)
		}
		if s := onlyPod(t, w.Snapshot()); !strings.Contains(s.Blocked+fmt.Sprint(s.Volumes), want) {
			t.Errorf("%s: %+v, want %s", what, s, want)
		}
	}
	step("no volume", true, "data asks for an available persistentVolume")
	w.Update(volume("first", "a", 4))
	step("a volume", true, "[topology.kubernetes.io/zone In [a]]")
	w.Update(volume("second", "b", 5))
	step("another one", true, "[topology.kubernetes.io/zone In [a] topology.kubernetes.io/zone In [b]]")
	taken := volume("first", "a", 6)
	taken.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "other", UID: "7"}
	w.Update(taken)
	step("the first is taken", true, "[topology.kubernetes.io/zone In [b]]")
	w.Update(volumeIn("foreign", "c", 7))
	step("one of another class", false, "[topology.kubernetes.io/zone In [b]]")
	w.Delete(volume("second", "b", 8))
	step("the second is gone", true, "data asks for an available persistentVolume")
}

func TestABoundPodsVolumeIsFollowedToo(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	w.Update(withClaim(podOf("db", "n", "1", 2), "data"))
	w.Update(claimData("data", "gp3", "pv", 3))
	w.Snapshot()
	changed(w)
	w.Update(volumeIn("pv", "z", 4))
	if s := onlyPod(t, w.Snapshot()); len(s.Volumes) != 1 || s.Volumes[0].Driver != "ebs.csi.aws.com" || !changed(w) {
		t.Errorf("got %+v", s)
	}
}

func TestAPodsLabelsAreNotPartOfItsGeneration(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	w.Update(generation(podOf("a", "n", "1", 2)))
	w.Snapshot()
	changed(w)
	p := generation(podOf("a", "n", "1", 3))
	p.Labels = map[string]string{"role": "leader"}
	w.Update(p)
	if s := onlyPod(t, w.Snapshot()); len(s.Labels) != 1 || !changed(w) {
		t.Errorf("got %+v", s)
	}
}

func TestNamespacesAreSeen(t *testing.T) {
	w, _ := fresh()
	space := func(team string, version int) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: meta("shop", version)}
		ns.Labels = map[string]string{"team": team}
		return ns
	}
	w.Update(&corev1.Namespace{ObjectMeta: meta("zoo", 1)})
	w.Update(space("a", 2))
	before := w.Snapshot()
	if len(before.Namespaces) != 2 || before.Namespaces[0].Name != "shop" || !changed(w) {
		t.Fatalf("got %+v", before.Namespaces)
	}
	w.Update(space("a", 3))
	if after := w.Snapshot(); changed(w) || &after.Namespaces[0] != &before.Namespaces[0] {
		t.Error("nothing changed, and it was told")
	}
	w.Update(space("b", 4))
	w.Delete(&corev1.Namespace{ObjectMeta: meta("zoo", 5)})
	after := w.Snapshot()
	if v, _ := model.Value(after.Namespaces[0].Labels, "team"); len(after.Namespaces) != 1 || v != "b" || !changed(w) {
		t.Errorf("got %+v", after.Namespaces)
	}
	if len(before.Namespaces) != 2 {
		t.Error("the first snapshot was changed")
	}
}

func TestANodeSaysHowManyVolumesItTakes(t *testing.T) {
	w, _ := fresh()
	driver := func(count int32, version int) *storagev1.CSINode {
		return &storagev1.CSINode{
			ObjectMeta: meta("n", version),
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
				{Name: "ebs.csi.aws.com", Allocatable: &storagev1.VolumeNodeResources{Count: &count}},
			}},
		}
	}
	w.Update(driver(25, 1)) // before its node
	w.Update(nodeOf("n", 2))
	want := []model.AttachLimit{{Driver: "ebs.csi.aws.com", Max: 25}}
	if got := w.Snapshot().Nodes[0].AttachLimits; !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v", got)
	}
	changed(w)
	if w.Update(driver(25, 3)); changed(w) {
		t.Error("nothing changed, and it was told")
	}
	w.Update(driver(24, 4))
	if got := w.Snapshot().Nodes[0].AttachLimits; got[0].Max != 24 || !changed(w) {
		t.Errorf("got %+v", got)
	}
	w.Delete(driver(24, 5))
	if got := w.Snapshot().Nodes[0].AttachLimits; len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestTheDefaultStorageClassIsTheNewest(t *testing.T) {
	w, _ := fresh()
	p := podOf("a", "", "1", 1)
	p.Spec.Volumes = []corev1.Volume{{
		Name:         "scratch",
		VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}},
	}}
	w.Update(p)
	if s := onlyPod(t, w.Snapshot()); !strings.Contains(s.Blocked, "has no storageClass") {
		t.Errorf("got %+v", s)
	}
	for i, name := range []string{"old", "new"} {
		c := storageClass(name, storagev1.VolumeBindingWaitForFirstConsumer, 2+i)
		c.Annotations = map[string]string{defaultClass: "true"}
		c.CreationTimestamp = metav1.Time{Time: noon.AddDate(0, 0, i)}
		c.Provisioner = name
		w.Update(c)
		if s := onlyPod(t, w.Snapshot()); s.Blocked != "" || s.Volumes[0].Driver != name {
			t.Errorf("got %+v", s)
		}
	}
}

func TestAPodThatLeavesIsStillThere(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	p := podOf("a", "n", "1", 2)
	p.DeletionTimestamp = &metav1.Time{Time: noon}
	w.Update(p)
	if n := w.Snapshot().Nodes[0]; len(n.Pods) != 1 || !n.Pods[0].Terminating || n.Used[model.CPU] != 1000 {
		t.Errorf("got %+v", n)
	}
}

func TestPodsOfADeploymentAreOneShape(t *testing.T) {
	w, _ := fresh()
	for i := range 100 {
		p := podOf(fmt.Sprintf("web-%d", i), "", "1", 1)
		p.Labels = map[string]string{"app": "web", "pod-template-hash": "7d9"}
		w.Update(p)
	}
	if n := len(w.Snapshot().Shapes); n != 1 {
		t.Errorf("got %d shapes", n)
	}
}

// A pod with a unique label, as StatefulSets create, joins 10,000 others.
func BenchmarkSnapshotOf10000Shapes(b *testing.B) {
	w, _ := fresh()
	pod := func(i, version int) *corev1.Pod {
		p := podOf(fmt.Sprintf("db-%05d", i), fmt.Sprintf("n%04d", i/10), "1", version)
		p.UID = types.UID(fmt.Sprint(p.Name, version))
		p.Labels = map[string]string{"app": "db", "statefulset.kubernetes.io/pod-name": p.Name}
		return p
	}
	for i := range 1000 {
		w.Update(nodeOf(fmt.Sprintf("n%04d", i), 1))
	}
	for i := range 10000 {
		w.Update(pod(i, 1))
	}
	w.Snapshot()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := pod(i%10000, i+2)
		p.Labels["turn"] = fmt.Sprint(i)
		w.Update(p)
		w.Snapshot()
	}
}
