package translate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/nodeless/nodeless/engine/model"
)

// Storage looks up the objects behind the volumes of pods. Objects that do not exist are nil.
type Storage interface {
	VolumeClaim(namespace, name string) *corev1.PersistentVolumeClaim
	Volume(name string) *corev1.PersistentVolume
	Class(name string) *storagev1.StorageClass
	DefaultClass() *storagev1.StorageClass
	// VolumesOf returns the volumes of a storage class, by name.
	VolumesOf(class string) []*corev1.PersistentVolume
	// Driver returns a CSIDriver; nil also if what drivers report is not known.
	Driver(name string) *storagev1.CSIDriver
	// Capacities returns what the driver of a storage class reports.
	Capacities(class string) *Capacities
	// Devices looks up the objects behind resource claims; nil if they are not known.
	Devices() Devices
}

// VolumeClaimNames returns the names of the PersistentVolumeClaims that a pod uses, including those of ephemeral
// volumes.
func VolumeClaimNames(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		if name := claimName(pod, &pod.Spec.Volumes[i]); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func claimName(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v)
	}
	return ""
}

// addVolumes translates the pod's volumes. Blocked says what must happen first if one cannot be used yet.
func addVolumes(s *model.Shape, pod *corev1.Pod, storage Storage) {
	var static []attachment
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := claimName(pod, v)
		if name == "" {
			continue
		}
		if storage == nil {
			s.Unmodelled = append(s.Unmodelled, "persistentVolumeClaim")
			continue
		}
		a := attachment{storage: storage, pod: pod}
		a.read(name, v)
		s.Blocked = cmp.Or(s.Blocked, a.blocked)
		if a.static != nil {
			static = append(static, a)
			continue
		}
		a.addTo(s)
	}
	addStatic(s, static, storage)
	slices.SortStableFunc(s.Volumes, func(a, b model.Volume) int { return cmp.Compare(a.ID, b.ID) })
	s.Volumes = slices.CompactFunc(s.Volumes, func(a, b model.Volume) bool { return a.ID == b.ID })
}

// addTo adds the volume. Several claims may share one volume of the driver, such as a file system; the place and access
// mode of each are added under the claim's ID.
func (a *attachment) addTo(s *model.Shape) {
	v := a.volume
	if v.ID == "" {
		return
	}
	if v.ID == a.claim {
		s.Volumes = append(s.Volumes, v)
		return
	}
	own := model.Volume{ID: a.claim, Alone: v.Alone}
	v.Alone = false
	if i := slices.IndexFunc(s.Volumes, func(o model.Volume) bool { return o.ID == v.ID }); i < 0 {
		s.Volumes = append(s.Volumes, v)
	} else if !slices.EqualFunc(s.Volumes[i].Topology, v.Topology, sameRequirements) {
		own.Topology = v.Topology
	}
	if own.Alone || len(own.Topology) > 0 {
		s.Volumes = append(s.Volumes, own)
	}
}

func sameRequirements(a, b model.Requirements) bool { return compareRequirements(a, b) == 0 }
