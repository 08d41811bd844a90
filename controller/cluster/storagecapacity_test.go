package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func csiDriver(version int) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{
		ObjectMeta: meta("ebs.csi.aws.com", version), Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)},
	}
}

func reportOf(name, key, value, size string, version int) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: meta(name, version), StorageClassName: "disks", Capacity: new(resource.MustParse(size)),
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
	}
}

// lackingStorage returns a State with a pod that needs a new volume of 20Gi.
func lackingStorage(t *testing.T) (*State, func(what string, want string)) {
	t.Helper()
	w, _ := fresh()
	w.Update(storageClass("disks", storagev1.VolumeBindingWaitForFirstConsumer, 1))
	claim := claimData("data", "disks", "", 2)
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
	w.Update(claim)
	w.Update(withClaim(podOf("db", "", "1", 3), "data"))
	return w, func(what string, want string) {
		t.Helper()
		s := onlyPod(t, w.Snapshot())
		got := s.Blocked
		for _, v := range s.Volumes {
			got += fmt.Sprint(v.Topology)
		}
		if got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: got %s", what, got)
		}
	}
}

func TestReportsOfStorageAreFollowed(t *testing.T) {
	w, expect := lackingStorage(t)
	w.Update(csiDriver(4))
	expect("reports may not be read", "[]")
	changed(w)
	w.Update(reportOf("a", corev1.LabelTopologyZone, "a", "5Gi", 5))
	if !changed(w) {
		t.Error("a report does not wake the cycle")
	}
	expect("too little in a", "[karpenter.sh/nodepool Exists, topology.kubernetes.io/zone NotIn [a]]")
	w.Update(reportOf("b", corev1.LabelTopologyZone, "b", "20Gi", 6))
	expect("enough in b", "NotIn [a] topology.kubernetes.io/zone In [b]]")
	w.Update(reportOf("a", corev1.LabelTopologyZone, "a", "30Gi", 7))
	expect("enough in both", "[karpenter.sh/nodepool Exists topology.kubernetes.io/zone In [a b]]")
	w.Delete(reportOf("b", corev1.LabelTopologyZone, "b", "20Gi", 8))
	expect("b is gone", "[karpenter.sh/nodepool Exists topology.kubernetes.io/zone In [a]]")
	off := csiDriver(9)
	off.Spec.StorageCapacity = nil
	w.Update(off)
	expect("the driver stops to report", "[]")
	changed(w)
	other := reportOf("other", corev1.LabelTopologyZone, "b", "20Gi", 10)
	other.StorageClassName = "other"
	if w.Update(other); changed(w) {
		t.Error("a report about a class that no pod waits for wakes the cycle")
	}
}
