package translate

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// diskLabel is the prefix of the label keys that a shape has for disks which its pod names itself, without a
// PersistentVolumeClaim. No Kubernetes label has such a key.
const diskLabel = "inline volume "

// writes and reads are the values of these labels.
const writes, reads = "read-write", "read-only"

// addDisks translates disks that a pod names itself. kube-scheduler lets two pods of a node use the same disk only if
// both only read it, and never the same EBS volume
// (k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions): the pods keep apart, as with anti-affinity.
// A driver attaches the disk, and counts it.
func addDisks(s *model.Shape, pod *corev1.Pod) {
	disks := map[string]string{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		ids, readOnly := disksOf(v)
		for _, id := range ids {
			if readOnly && disks[id] != writes {
				disks[id] = reads
			} else {
				disks[id] = writes
			}
		}
		driver, handle := driverOf(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				AWSElasticBlockStore: v.AWSElasticBlockStore, GCEPersistentDisk: v.GCEPersistentDisk,
			},
		}})
		if handle != "" {
			s.Volumes = append(s.Volumes, model.Volume{ID: driver + "/" + handle, Driver: driver})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(disks)) {
		others := model.Requirement{Key: diskLabel + id, Complement: true}
		if disks[id] == reads {
			others = model.OneOf(others.Key, writes)
		}
		s.Labels = append(s.Labels, model.Label{Key: others.Key, Value: disks[id]})
		s.AntiAffinity = append(s.AntiAffinity, model.PodTerm{
			Topology: model.LabelHostname, Pods: model.Selector{InMatching: true, Labels: model.Requirements{others}},
		})
	}
	slices.SortFunc(s.Labels, func(a, b model.Label) int { return cmp.Compare(a.Key, b.Key) })
}

// disksOf returns the names of a disk, and whether the pod only reads it. A Ceph image has a name for each monitor.
func disksOf(v *corev1.Volume) (ids []string, readOnly bool) {
	switch {
	case v.AWSElasticBlockStore != nil:
		return []string{"awsElasticBlockStore " + v.AWSElasticBlockStore.VolumeID}, false
	case v.GCEPersistentDisk != nil:
		return []string{"gcePersistentDisk " + v.GCEPersistentDisk.PDName}, v.GCEPersistentDisk.ReadOnly
	case v.ISCSI != nil:
		return []string{"iscsi " + v.ISCSI.IQN}, v.ISCSI.ReadOnly
	case v.RBD != nil:
		for _, monitor := range v.RBD.CephMonitors {
			ids = append(ids, "rbd "+monitor+"/"+v.RBD.RBDPool+"/"+v.RBD.RBDImage)
		}
		return ids, v.RBD.ReadOnly
	}
	return nil, false
}
