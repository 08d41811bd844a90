package translate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagehelper "k8s.io/component-helpers/storage/volume"

	"github.com/nodeless/nodeless/engine/model"
)

// addStatic adds the volumes of a pod that are not provisioned, such as local disks: kube-scheduler binds each claim
// to one of the existing persistentVolumes (k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding). It
// counts a claim once for each volume of the pod. Claims of several pods may be planned for the same
// persistentVolume: then kube-scheduler binds the first of them, and the next plan takes that into account.
func addStatic(s *model.Shape, static []attachment, storage Storage) {
	if len(static) == 0 {
		return
	}
	claims := make([]*corev1.PersistentVolumeClaim, len(static))
	for i := range static {
		claims[i] = static[i].static
	}
	places, without := placesOf(claims, storage)
	if without != nil {
		var modes string
		for _, mode := range without.Spec.AccessModes {
			modes += string(mode) + " "
		}
		s.Blocked = cmp.Or(s.Blocked, fmt.Sprintf(
			"persistentVolumeClaim %s asks for an available %spersistentVolume of storageClass %s and at least %s, "+
				"which does not exist: create it", without.Name, modes,
			storagehelper.GetPersistentVolumeClaimClass(without), without.Spec.Resources.Requests.Storage()))
	}
	for i := range static {
		static[i].volume.Topology = places
		static[i].addTo(s)
	}
}

// placesOf returns where each claim finds a volume of its own, nil for everywhere, and the claim that finds none
// wherever the others do.
func placesOf(
	claims []*corev1.PersistentVolumeClaim, storage Storage,
) (places []model.Requirements, without *corev1.PersistentVolumeClaim) {
	slices.SortStableFunc(claims, func(a, b *corev1.PersistentVolumeClaim) int { // the smallest chooses first
		return a.Spec.Resources.Requests.Storage().Cmp(*b.Spec.Resources.Requests.Storage())
	})
	without = claims[0]
	for _, p := range volumesByPlace(claims, storage) {
		if missing := choose(claims, p.volumes); missing != nil {
			if len(p.volumes) > 0 {
				without = missing
			}
			continue
		}
		if len(p.terms) == 0 {
			return nil, nil
		}
		places = append(places, p.terms...)
	}
	if len(places) == 0 {
		return nil, without
	}
	return orNowhere(places, true), nil
}

// place is where volumes can be used.
type place struct {
	terms   []model.Requirements // nil for everywhere
	volumes []*corev1.PersistentVolume
}

// volumesByPlace groups the volumes of the claims' classes by where they can be used. Volumes that can be used
// everywhere are listed with each place, and once more as the last one.
func volumesByPlace(claims []*corev1.PersistentVolumeClaim, storage Storage) []place {
	everywhere := place{}
	var there []place
	for _, class := range classesOf(claims) {
		for _, v := range storage.VolumesOf(class) {
			terms := whereIs(v, false)
			if len(terms) == 0 {
				everywhere.volumes = append(everywhere.volumes, v)
				continue
			}
			at := slices.IndexFunc(there, func(p place) bool {
				return slices.EqualFunc(p.terms, terms, sameRequirements)
			})
			if at < 0 {
				at, there = len(there), append(there, place{terms: terms})
			}
			there[at].volumes = append(there[at].volumes, v)
		}
	}
	for i := range there {
		there[i].volumes = append(there[i].volumes, everywhere.volumes...)
	}
	return append(there, everywhere)
}

func classesOf(claims []*corev1.PersistentVolumeClaim) []string {
	var names []string
	for _, c := range claims {
		names = append(names, storagehelper.GetPersistentVolumeClaimClass(c))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// choose assigns a volume to each claim, wherever the volumes are, and returns the first claim that finds none.
func choose(claims []*corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	here := make([]*corev1.PersistentVolume, len(volumes))
	for i, v := range volumes {
		at := *v
		at.Spec.NodeAffinity = nil
		here[i] = &at
	}
	chosen := map[string]*corev1.PersistentVolume{}
	for _, c := range claims {
		v, err := storagehelper.FindMatchingVolume(c, here, &corev1.Node{}, chosen, true, true)
		if err != nil || v == nil {
			return c
		}
		chosen[v.Name] = v
	}
	return nil
}
