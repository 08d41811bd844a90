package buffers

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/nodeless/nodeless/engine/model"
)

// namePrefix begins the names of placeholders, as upstream's do.
const namePrefix = "capacity-buffer-"

// placeholder is a pod of the template as the engine should see it: of the least priority there is, and without volumes that
// need a claim, since the claims of a pod that nobody creates do not exist.
func placeholder(b *autoscaling.CapacityBuffer, labels map[string]string, spec corev1.PodSpec) *corev1.Pod {
	pod := &corev1.Pod{Spec: spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: b.Namespace, Name: namePrefix + b.Name, UID: b.UID, CreationTimestamp: b.CreationTimestamp, Labels: labels,
	}}
	pod.Spec.NodeName = ""
	pod.Spec.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
	least := int32(math.MinInt32)
	pod.Spec.Priority = &least
	return pod
}

// ownerOf is the buffer whose placeholder has this key.
func ownerOf(p model.PodKey) types.NamespacedName {
	name := strings.TrimPrefix(p.Name, namePrefix)
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		name = name[:i]
	}
	return types.NamespacedName{Namespace: p.Namespace, Name: name}
}
