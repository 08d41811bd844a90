package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/wire"
)

// mounted returns how a container's volumes are mounted.
func mounted(c *corev1.Container) (out []corev1.VolumeMountStatus) {
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		switch {
		case recursive(m):
			s.RecursiveReadOnly = ptr.To(corev1.RecursiveReadOnlyEnabled)
		case m.ReadOnly:
			s.RecursiveReadOnly = ptr.To(corev1.RecursiveReadOnlyDisabled)
		}
		out = append(out, s)
	}
	return out
}

// userOf returns the user of a container's first process. As with containerd, the groups begin with the primary one. It
// is nil for IDs for which the API server would refuse the whole status.
func userOf(s *wire.ContainerStatus) *corev1.ContainerUser {
	refused := func(group int64) bool { return validation.IsValidGroupID(group) != nil }
	if s.User == nil || validation.IsValidUserID(s.User.UID) != nil || refused(s.User.GID) ||
		slices.ContainsFunc(s.User.Groups, refused) {
		return nil
	}
	groups := slices.DeleteFunc(slices.Clone(s.User.Groups), func(g int64) bool { return g == s.User.GID })
	return &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{
		UID: s.User.UID, GID: s.User.GID, SupplementalGroups: append([]int64{s.User.GID}, groups...),
	}}
}
