package cluster

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
)

// starting is a ReplicaSet that wants pods and has none.
type starting struct {
	object *corev1.Pod // as the API server will create it from the template
	pod    *pod        // the same, with its shape
}

// starts notes that a ReplicaSet is starting, unless its template does not say what its pods need.
func (os *owners) starts(rs *appsv1.ReplicaSet) {
	yes, template := true, &rs.Spec.Template
	os.started(rs.UID)
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rs.Namespace, Name: rs.Name, UID: rs.UID, CreationTimestamp: rs.CreationTimestamp,
			Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: selecting["ReplicaSet"], Kind: "ReplicaSet", UID: rs.UID, Name: rs.Name, Controller: &yes,
			}},
		},
		Spec: translate.AsCreated(&template.Spec, os.objects.limitRangesOf(rs.Namespace)),
	}
	if !tells(&o.Spec) {
		return
	}
	m, _ := os.pods.storage.shapeOf(o)
	os.starting[rs.UID] = &starting{
		object: o,
		pod:    &pod{Pod: os.pods.storage.spread.config.ReadPod(o), shape: os.pods.shapes.intern(m)},
	}
}

// tells reports whether a template says what its pods will need: their priority, if they have a class, is known from
// the pods alone, and what volumes and claims of devices demand may change until the pods exist.
func tells(spec *corev1.PodSpec) bool {
	return (spec.PriorityClassName == "" || spec.Priority != nil) && len(spec.ResourceClaims) == 0 &&
		!slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		})
}

// started forgets what starts noted.
func (os *owners) started(uid types.UID) {
	if s := os.starting[uid]; s != nil {
		os.pods.shapes.release(s.pod.shape)
		delete(os.starting, uid)
	}
}

// awaited adds to newest a pod for each ReplicaSet that is starting and whose pods will wait for nodes, and returns
// these ReplicaSets by namespace and name.
func (os *owners) awaited(newest map[types.UID]*pod) []types.UID {
	var out []types.UID
	for uid, s := range os.starting {
		if newest[uid] == nil && s.pod.Waiting && !(os.apart != nil && os.apart(s.object)) {
			newest[uid] = s.pod
			out = append(out, uid)
		}
	}
	slices.SortFunc(out, func(a, b types.UID) int { return cmp.Or(compareKeys(newest[a], newest[b]), cmp.Compare(a, b)) })
	return out
}
