package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
)

// defaultSpread adds to pods the topology spread constraints that kube-scheduler adds to those without any.
type defaultSpread struct {
	config    translate.SchedulerConfig
	selectors map[types.UID]*metav1.LabelSelector // of ReplicaSets, StatefulSets and ReplicationControllers
	watched   map[string]bool                     // which of these kinds are watched
	services  table[*corev1.Service]
	in        map[string]map[string]*corev1.Service // by namespace and name
}

// selecting are the API versions of the controllers whose selectors kube-scheduler uses, by kind
// (k8s.io/kubernetes pkg/scheduler/framework/plugins/helper, DefaultSelector). Jobs have none, and another group's
// controllers of the same kinds are not watched.
var selecting = map[string]string{"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}

// Shapes depend on all Services of their namespace, whose key has no name, and on the pod's controller, whose key is
// its UID.
const (
	serviceKind    = "Service"
	controllerKind = "controller" // one that is not known yet
)

// apply returns the pod with the default constraints that apply to it, and notes the objects that these depend on.
func (d *defaultSpread) apply(pod *corev1.Pod, note func(kind string, key types.NamespacedName)) *corev1.Pod {
	constraints := d.config.DefaultSpread(pod)
	if len(constraints) == 0 {
		return pod
	}
	note(serviceKind, types.NamespacedName{Namespace: pod.Namespace})
	var controller *metav1.LabelSelector
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && d.watched[ref.Kind] &&
		ref.APIVersion == selecting[ref.Kind] {
		if controller = d.selectors[ref.UID]; controller == nil {
			note(controllerKind, clusterKey(string(ref.UID)))
		}
	}
	selector := translate.DefaultSelector(pod, maps.Values(d.in[pod.Namespace]), controller)
	if selector == nil {
		return pod
	}
	return translate.WithSpread(pod, constraints, selector)
}

// incomplete reports whether a pod's shape still lacks an input: the pod's controller, which was created before the
// pod but arrives through another watch. Planned without the constraints, pods that have to spread would share a
// node.
func (p *pod) incomplete() bool {
	return slices.ContainsFunc(p.needs, func(n need) bool { return n.kind == controllerKind })
}

// controls records the selector of a controller of pods; nil removes it.
func (s *State) controls(uid types.UID, selector *metav1.LabelSelector) {
	d := s.storage.spread
	if !d.config.Spreads() {
		return
	}
	if selector == nil {
		delete(d.selectors, uid)
		return
	}
	d.selectors[uid] = selector // it never changes, except in a ReplicationController
	s.pods.reshapeUsers(controllerKind, clusterKey(string(uid)))
}

// serviceChanged translates the pods of a Service's namespace again.
func (s *State) serviceChanged(o *corev1.Service) {
	d := s.storage.spread
	if d.in[o.Namespace] == nil {
		d.in[o.Namespace] = map[string]*corev1.Service{}
	}
	if now, ok := d.services.live[keyOf(o)]; ok {
		d.in[o.Namespace][o.Name] = now
	} else {
		delete(d.in[o.Namespace], o.Name)
	}
	s.pods.reshapeUsers(serviceKind, types.NamespacedName{Namespace: o.Namespace})
}

func otherSelector(a, b *corev1.Service) bool {
	return a.UID != b.UID || !maps.Equal(a.Spec.Selector, b.Spec.Selector)
}
