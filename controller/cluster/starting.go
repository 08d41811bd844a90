package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
)

// starting is an owner that has yet to create the first of the pods that it wants. Of Jobs and ReplicationControllers,
// whose templates are not kept, none is.
type starting struct {
	object *corev1.Pod // as the API server will create it from the template
	pod    *pod        // the same, with its shape
}

// starts notes that an owner of a kind wants pods like the template.
func (os *owners) starts(kind string, object metav1.Object, template *corev1.PodTemplateSpec) {
	yes := true
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
			CreationTimestamp: object.GetCreationTimestamp(), Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{
				{Kind: kind, UID: object.GetUID(), Name: object.GetName(), Controller: &yes},
			},
		},
		Spec: translate.AsCreated(&template.Spec, os.objects.limitRangesOf(object.GetNamespace())),
	}
	os.started(object.GetUID())
	if os.apart != nil && os.apart(o) {
		return
	}
	m, _ := os.pods.storage.shapeOf(o)
	next := &pod{Pod: os.pods.storage.spread.config.ReadPod(o), shape: os.pods.shapes.intern(m)}
	os.starting[object.GetUID()] = &starting{object: o, pod: next}
}

// started forgets what starts noted.
func (os *owners) started(uid types.UID) {
	if s := os.starting[uid]; s != nil {
		os.pods.shapes.release(s.pod.shape)
		delete(os.starting, uid)
	}
}

// awaited adds to newest a pod for each owner that is starting and whose pods will wait for nodes, and returns these
// owners by namespace and name.
func (os *owners) awaited(newest map[types.UID]*pod) []types.UID {
	var out []types.UID
	for uid, s := range os.starting {
		if newest[uid] == nil && s.pod.Waiting {
			newest[uid] = s.pod
			out = append(out, uid)
		}
	}
	slices.SortFunc(out, func(a, b types.UID) int { return cmp.Or(compareKeys(newest[a], newest[b]), cmp.Compare(a, b)) })
	return out
}
