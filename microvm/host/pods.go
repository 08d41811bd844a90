package host

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// podStore holds the pods that may run here, by UID. Two of them can have the same name: a StatefulSet's pod is created
// again while the MicroVM of its predecessor terminates.
type podStore struct {
	cache.Store
	changed func(was, is *corev1.Pod) // called for each change, one call at a time
	synced  atomic.Bool               // the first list is complete
}

func newPodStore(changed func(was, is *corev1.Pod)) *podStore {
	return &podStore{changed: changed, Store: cache.NewStore(func(o any) (string, error) {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return "", cache.KeyError{Obj: o}
		}
		return string(pod.UID), nil
	})}
}

// Add implements cache.ReflectorStore.
func (s *podStore) Add(o any) error { return s.Update(o) }

// Update implements cache.ReflectorStore.
func (s *podStore) Update(o any) error {
	was, _, err := s.Get(o)
	if err == nil {
		err = s.Store.Update(o)
	}
	if err == nil {
		s.tell(was, o)
	}
	return err
}

// Replace implements cache.ReflectorStore.
func (s *podStore) Replace(all []any, version string) error {
	were := map[types.UID]any{}
	for _, o := range s.List() {
		if pod, ok := o.(*corev1.Pod); ok {
			were[pod.UID] = pod
		}
	}
	if err := s.Store.Replace(all, version); err != nil {
		return err
	}
	s.synced.Store(true)
	for _, o := range all {
		if pod, ok := o.(*corev1.Pod); ok {
			s.tell(were[pod.UID], pod)
		}
	}
	return nil
}

// tell calls changed with a pod that the store had before.
func (s *podStore) tell(was, is any) {
	old, ok1 := was.(*corev1.Pod)
	now, ok2 := is.(*corev1.Pod)
	if ok1 && ok2 {
		s.changed(old, now)
	}
}

// source lists and watches the pods that may run here.
func (h *Host) source() cache.ListerWatcher {
	if h.o.Pods != nil {
		return listed{cache.ToListerWatcherWithContext(h.o.Pods), h.o.Pods}
	}
	return cache.NewListWatchFromClient(h.o.Kube.CoreV1().RESTClient(), "pods", "",
		fields.OneTermEqualSelector("spec.schedulerName", fargate.SchedulerName))
}

// listed makes a cache.Reflector list the pods. A reflector that streams its first list collects it by namespace and
// name, so that one of two pods of the same name is lost.
type listed struct {
	cache.ListerWatcherWithContext
	cache.ListerWatcher
}

// IsWatchListSemanticsUnSupported tells the reflector to list.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

// podOf returns a pod by its UID, nil if the API server has none.
func (h *Host) podOf(uid types.UID) *corev1.Pod {
	o, _, err := h.pods.GetByKey(string(uid))
	if pod, ok := o.(*corev1.Pod); ok && err == nil {
		return pod
	}
	return nil
}
