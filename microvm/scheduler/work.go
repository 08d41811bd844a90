package scheduler

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// work queues the pods and profiles to look at. Nothing is queued before Run: a replica that stands by would otherwise collect the
// name of every pod there ever was.
type work struct {
	o       *Options
	records *records
	leads   atomic.Bool // Run was called

	pods     *workqueue.Queue // as namespace/name; the UID of a pod that is gone
	profiles *workqueue.Queue // names of profiles whose status may have changed
}

func newWork(o *Options, pods *records) *work {
	return &work{
		o: o, records: pods,
		pods: workqueue.New("microVM pod", o.Clock, o.Log), profiles: workqueue.New("FargateProfile", o.Clock, o.Log),
	}
}

// add queues a key of a pod.
func (w *work) add(key string) {
	if w.leads.Load() {
		w.pods.Add(key)
	}
}

// addPod queues a pod by its UID, if it exists.
func (w *work) addPod(uid types.UID) {
	if p := w.records.get(uid); p.key != (types.NamespacedName{}) {
		w.add(p.key.String())
	}
}

// addWaiting queues the pods that wait for a host: all, or those for which want is true.
func (w *work) addWaiting(want func(*corev1.Pod) bool) {
	for _, p := range w.records.each(func(p record) bool { return p.waiting }) {
		pod := &corev1.Pod{}
		if want != nil {
			err := w.o.Cache.Get(context.Background(), p.key, pod, client.UnsafeDisableDeepCopy)
			if err != nil || !want(pod) {
				continue
			}
		}
		w.add(p.key.String())
	}
}

// profilePause is how long changes to a profile's pods are gathered before its status is written.
const profilePause = 250 * time.Millisecond

func (w *work) addProfile(name string) {
	if name != "" && w.leads.Load() {
		w.profiles.After(name, profilePause)
	}
}

func (w *work) addProfiles() {
	var profiles v1alpha1.FargateProfileList
	if err := w.o.Cache.List(context.Background(), &profiles, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has stopped
	}
	for i := range profiles.Items {
		w.addProfile(profiles.Items[i].Name)
	}
}
