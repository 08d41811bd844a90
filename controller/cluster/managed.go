package cluster

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Manages reports whether NodePools and NodeClaims with such a node class are managed here. All others belong to
// another controller, such as that of EKS Auto Mode: the State takes in only their Nodes, as Nodes without NodeClaim.
//
// Karpenter compares group and kind (v1.14.1, pkg/utils/nodepool and nodeclaim, IsManaged). Here the group decides, so
// that plans and conditions name a mistyped kind.
func (os *objects) Manages(ref *karpv1.NodeClassReference) bool {
	return os.classKinds == nil || ref == nil ||
		slices.ContainsFunc(os.classKinds(), func(k schema.GroupKind) bool { return k.Group == ref.Group })
}

// ManagesNode reports whether the label of a Node without NodeClaim names a node class of a kind that is managed here
// (Karpenter v1.14.1, pkg/utils/node, IsManaged).
func (os *objects) ManagesNode(node *corev1.Node) bool {
	return os.classKinds == nil || slices.ContainsFunc(os.classKinds(), func(k schema.GroupKind) bool {
		return node.Labels[karpv1.NodeClassLabelKey(k)] != ""
	})
}

// managed returns a kind that takes in only objects whose node class is managed here. Another object removes an older
// one of its name: the watch may not show that the older one was deleted.
func managed[T client.Object](k kind, in func(*State) *table[T], class func(T) *karpv1.NodeClassReference) kind {
	update := k.update
	k.update = func(s *State, o client.Object, now time.Time) {
		if s.objects.Manages(class(o.(T))) {
			update(s, o, now)
			return
		}
		if old, known := in(s).live[keyOf(o)]; known && version(o) >= version(old) {
			k.delete(s, old, now)
		}
	}
	return k
}
