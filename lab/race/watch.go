package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
)

// podTimes are the times at which the watcher saw a pod's transitions; the time of a transition that did not happen
// is zero. Timestamps in objects have a resolution of one second, so the watcher uses its own clock.
type podTimes struct {
	Name    string    `json:"name"` // namespace/name
	Owner   string    `json:"owner,omitempty"`
	Created time.Time `json:"created"`
	Bound   time.Time `json:"bound,omitzero"`
	Ready   time.Time `json:"ready,omitzero"` // or finished
	Deleted time.Time `json:"deleted,omitzero"`
}

// watcher watches the pods of a cluster and the objects that own them.
type watcher struct {
	deployments appslisters.DeploymentLister
	daemonSets  appslisters.DaemonSetLister
	jobs        batchlisters.JobLister

	mu   sync.Mutex
	pods map[string]*podTimes // by UID
}

// watch returns a synced watcher, which follows the cluster until ctx is done.
func (c *cluster) watch(ctx context.Context) (*watcher, error) {
	all := informers.NewSharedInformerFactory(c.client, 0)
	w := &watcher{
		deployments: all.Apps().V1().Deployments().Lister(), daemonSets: all.Apps().V1().DaemonSets().Lister(),
		jobs: all.Batch().V1().Jobs().Lister(), pods: map[string]*podTimes{},
	}
	_, err := all.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.see(o, time.Now(), false) },
		UpdateFunc: func(_, o any) { w.see(o, time.Now(), false) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			w.see(o, time.Now(), true)
		},
	})
	if err != nil {
		return nil, err
	}
	all.StartWithContext(ctx)
	for kind, synced := range all.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("watch %s: %w", kind, context.Cause(ctx))
		}
	}
	return w, nil
}

// see records the state of a pod at a time.
func (w *watcher) see(object any, now time.Time, deleted bool) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[string(pod.UID)]
	if p == nil {
		p = &podTimes{Name: pod.Namespace + "/" + pod.Name, Created: now}
		if of := metav1.GetControllerOf(pod); of != nil {
			p.Owner = of.Kind + "/" + of.Name
		}
		w.pods[string(pod.UID)] = p
	}
	first := func(at *time.Time, when bool) {
		if when && at.IsZero() {
			*at = now
		}
	}
	first(&p.Bound, pod.Spec.NodeName != "")
	first(&p.Ready, runs(pod))
	first(&p.Deleted, deleted || pod.DeletionTimestamp != nil)
}

// runs reports whether a pod is Ready or has finished.
func runs(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// times returns a copy of the recorded times, ordered by the creation of the pods.
func (w *watcher) times() []podTimes {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []podTimes
	for _, p := range w.pods {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b podTimes) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// unmet says which part of the workload does not run yet; "" means that everything runs.
func (w *watcher) unmet() string {
	everything, of := labels.Everything(), corev1.NamespaceDefault
	deployments, _ := w.deployments.Deployments(of).List(everything)
	for _, d := range deployments {
		if want := replicas(d); d.Status.ObservedGeneration < d.Generation || d.Status.Replicas != want ||
			d.Status.UpdatedReplicas != want || d.Status.ReadyReplicas != want {
			return fmt.Sprintf("deployment %s has %d of %d replicas Ready", d.Name, d.Status.ReadyReplicas, want)
		}
	}
	daemonSets, _ := w.daemonSets.DaemonSets(of).List(everything)
	for _, d := range daemonSets {
		if s := d.Status; s.ObservedGeneration < d.Generation || s.NumberReady != s.DesiredNumberScheduled {
			return fmt.Sprintf("daemonset %s has %d of %d pods Ready", d.Name, s.NumberReady, s.DesiredNumberScheduled)
		}
	}
	jobs, _ := w.jobs.Jobs(of).List(everything)
	pending := 0
	for _, j := range jobs {
		if !started(j) {
			pending++
		}
	}
	if pending > 0 {
		return fmt.Sprintf("%d of %d jobs wait for their pod", pending, len(jobs))
	}
	return w.pending(of)
}

// pending says how many pods of a namespace wait, whatever their owners.
func (w *watcher) pending(namespace string) string {
	waiting, all := 0, 0
	for _, p := range w.times() {
		if p.in(namespace) && p.Deleted.IsZero() {
			all++
			if p.Ready.IsZero() {
				waiting++
			}
		}
	}
	if waiting > 0 {
		return fmt.Sprintf("%d of %d pods wait", waiting, all)
	}
	return ""
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// started reports whether a Job of one pod runs or has finished.
func started(j *batchv1.Job) bool {
	return j.Status.Succeeded+j.Status.Failed > 0 || j.Status.Ready != nil && *j.Status.Ready > 0
}
