package podspec

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/securitycontext"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/wire"
)

// The API's defaults for modes and lifetimes, and the mode of tokens that belong to a user or group.
const (
	defaultMode         = 0o644
	defaultTokenSeconds = 60 * 60
	ownerOnly           = 0o600
)

// volume translates a volume of the pod, with its files.
func (t translation) volume(v *corev1.Volume) (wire.Volume, error) {
	out := wire.Volume{Name: v.Name}
	var err error
	switch {
	case v.EmptyDir != nil:
		if m := v.EmptyDir.Medium; m != corev1.StorageMediumDefault && m != corev1.StorageMediumMemory {
			return out, fmt.Errorf("its medium %q is not supported by microVMs", m)
		}
		if v.EmptyDir.SizeLimit != nil {
			out.SizeLimit = v.EmptyDir.SizeLimit.Value()
		}
		if out.Memory = v.EmptyDir.Medium == corev1.StorageMediumMemory; out.Memory {
			out.SizeLimit = t.memorySize(out.SizeLimit)
		}
		return out, nil
	case v.ConfigMap != nil:
		out.Files, err = t.source(&corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional,
		}}, v.ConfigMap.DefaultMode)
	case v.Secret != nil:
		out.Files, err = t.source(&corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName},
			Items:                v.Secret.Items, Optional: v.Secret.Optional,
		}}, v.Secret.DefaultMode)
	case v.DownwardAPI != nil:
		out.Files, err = t.downward(v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		out.Files, err = t.projected(v.Projected)
	case v.Image != nil:
		out.Disk = t.o.ImageVolumes[v.Name]
		return out, nil
	default:
		return out, fmt.Errorf("its type is not supported by microVMs")
	}
	out.Projected = true
	return out, err
}

// memorySize returns the size of an emptyDir in memory as a kubelet does (calculateEmptyDirMemorySize, Kubernetes
// 1.36): the least of its limit, the memory limit of the pod and the memory of the node; a limit of 0 is none.
func (t translation) memorySize(limit int64) int64 {
	limited := true
	ofPod := resourcehelper.PodLimits(t.pod, resourcehelper.PodResourcesOptions{
		ContainerFn: func(l corev1.ResourceList, _ resourcehelper.ContainerType) {
			limited = limited && !l.Memory().IsZero()
		},
	})
	if whole := t.pod.Spec.Resources; whole != nil && !whole.Limits.Memory().IsZero() {
		limited = true
	}
	size := t.o.MemoryBytes
	if n := ofPod.Memory().Value(); limited && n > 0 {
		size = min(size, n)
	}
	if limit > 0 {
		size = min(size, limit)
	}
	return size
}

// files returns the files of an object's data: all keys, or the selected ones.
func files(read data, name string, items []corev1.KeyToPath, mode *int32, optional *bool) ([]wire.File, error) {
	all, err := read(name, optional)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	var out []wire.File
	for _, item := range items {
		content, ok := all[item.Key]
		if !ok {
			if ptr.Deref(optional, false) {
				continue
			}
			return nil, missing("key", item.Key)
		}
		out = append(out, wire.File{Path: item.Path, Mode: modeOf(item.Mode, mode), Data: content})
	}
	return out, nil
}

func modeOf(modes ...*int32) uint32 {
	for _, m := range modes {
		if m != nil {
			return uint32(*m)
		}
	}
	return defaultMode
}

// downward returns the files of the downward API.
func (t translation) downward(items []corev1.DownwardAPIVolumeFile, mode *int32) ([]wire.File, error) {
	var out []wire.File
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = t.field(item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = t.resourceField(nil, item.ResourceFieldRef)
		}
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", item.Path, err)
		}
		out = append(out, wire.File{Path: item.Path, Mode: modeOf(item.Mode, mode), Data: []byte(value)})
	}
	return out, nil
}

// projected returns the files of several sources. A later one replaces an earlier one at the same path.
func (t translation) projected(v *corev1.ProjectedVolumeSource) ([]wire.File, error) {
	var out []wire.File
	for i := range v.Sources {
		more, err := t.source(&v.Sources[i], v.DefaultMode)
		if err != nil {
			return nil, err
		}
		for _, f := range more {
			out = slices.DeleteFunc(out, func(had wire.File) bool { return had.Path == f.Path })
			out = append(out, f)
		}
	}
	return out, nil
}

// user returns the user that all of the pod's containers run as by its specification, nil if there is none. As with a
// kubelet, tokens belong to that user (pkg/volume/util, FsUserFrom, Kubernetes 1.36).
func (t translation) user() (same *int64) {
	for c := range podutil.ContainerIter(&t.pod.Spec, podutil.AllContainers) {
		user, ok := securitycontext.DetermineEffectiveRunAsUser(t.pod, c)
		if !ok || same != nil && *same != *user {
			return nil
		}
		same = user
	}
	return same
}

func (t translation) source(s *corev1.VolumeProjection, mode *int32) ([]wire.File, error) {
	switch {
	case s.ConfigMap != nil:
		return files(t.configMap, s.ConfigMap.Name, s.ConfigMap.Items, mode, s.ConfigMap.Optional)
	case s.Secret != nil:
		return files(t.secret, s.Secret.Name, s.Secret.Items, mode, s.Secret.Optional)
	case s.DownwardAPI != nil:
		return t.downward(s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		lifetime := time.Duration(ptr.Deref(s.ServiceAccountToken.ExpirationSeconds, defaultTokenSeconds)) * time.Second
		token, err := t.o.Objects.Token(t.ctx, t.pod, s.ServiceAccountToken.Audience, lifetime)
		if err != nil {
			return nil, fmt.Errorf("token of service account %q: %w", t.pod.Spec.ServiceAccountName, err)
		}
		out := wire.File{Path: s.ServiceAccountToken.Path, Mode: modeOf(mode), UID: t.user(), Data: []byte(token)}
		if out.UID != nil || t.pod.Spec.SecurityContext != nil && t.pod.Spec.SecurityContext.FSGroup != nil {
			out.Mode = ownerOnly // as with a kubelet; the guest makes it readable for the fsGroup
		}
		return []wire.File{out}, nil
	}
	return nil, fmt.Errorf("a source of its type is not supported by microVMs")
}
