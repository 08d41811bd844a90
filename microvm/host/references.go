package host

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// Kinds of objects that pods refer to, as they stand in URLs.
const (
	secretKind    = "secrets"
	configMapKind = "configmaps"
)

type reference struct{ kind, namespace, name string }

// references know which pods refer to an object, and the Nodes of these pods.
type references struct {
	mu    sync.Mutex
	nodes map[types.UID]string // of pods
	by    map[reference][]types.UID
}

func newReferences() *references {
	return &references{nodes: map[types.UID]string{}, by: map[reference][]types.UID{}}
}

// add notes what a pod refers to. Adding it again changes nothing.
func (r *references) add(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[pod.UID] = pod.Spec.NodeName
	for _, ref := range referencesOf(pod) {
		if !slices.Contains(r.by[ref], pod.UID) {
			r.by[ref] = append(r.by[ref], pod.UID)
		}
	}
}

func (r *references) remove(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, uid)
	for ref, pods := range r.by {
		if pods = slices.DeleteFunc(pods, func(u types.UID) bool { return u == uid }); len(pods) == 0 {
			delete(r.by, ref)
		} else {
			r.by[ref] = pods
		}
	}
}

// nodeOf is the Node of a pod; "" if it is not known.
func (r *references) nodeOf(uid types.UID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[uid]
}

// nodeFor is the Node of the newest pod that refers to an object; "" if there is none.
func (r *references) nodeFor(ref reference) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pods := r.by[ref]; len(pods) > 0 {
		return r.nodes[pods[len(pods)-1]]
	}
	return ""
}

// referencesOf returns the Secrets and ConfigMaps that a pod refers to, once or more often.
func referencesOf(pod *corev1.Pod) []reference {
	var all []reference
	add := func(kind string) podutil.Visitor {
		return func(name string) bool {
			all = append(all, reference{kind, pod.Namespace, name})
			return true
		}
	}
	podutil.VisitPodSecretNames(pod, add(secretKind))
	podutil.VisitPodConfigmapNames(pod, add(configMapKind))
	return all
}
