package faults

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/lab/apisim"
)

// crowd provides for the pods of a large cluster as cheaply as possible: a scheduler that binds each pod to the first
// node with CPU for it, kubelets that start and end pods at once, and a ReplicaSet controller.
type crowd struct {
	kube  kubernetes.Interface
	news  chan struct{}
	asked chan func()   // by do
	ended chan struct{} // closed at the end of work

	mu    sync.Mutex
	heard []apisim.Change

	// The fields below belong to the goroutine of work, and so do the ReplicaSets' counts; others use them through do.
	hosts   map[string]*host
	order   []*host
	waiting []*waiting
	sets    map[string]*replicas
	serial  int
	bound   int
}

// host is a node.
type host struct {
	name       string
	cpu, used  int64 // thousandths
	open, gone bool
}

type waiting struct {
	name   string
	cpu    int64
	marked bool // as unschedulable
}

// replicas is a ReplicaSet.
type replicas struct {
	app          string
	uid          types.UID
	wanted, have int
}

func newCrowd(c *cluster, kube kubernetes.Interface) *crowd {
	w := &crowd{
		kube: kube, news: make(chan struct{}, 1), asked: make(chan func()), ended: make(chan struct{}),
		hosts: map[string]*host{}, sets: map[string]*replicas{},
	}
	c.api.Observe(func(x apisim.Change) {
		if x.Resource != podsGVR && x.Resource != nodesGVR || x.By == heartbeatAgent {
			return
		}
		w.mu.Lock()
		w.heard = append(w.heard, x)
		w.mu.Unlock()
		select {
		case w.news <- struct{}{}:
		default:
		}
	})
	return w
}

// do runs a function in the goroutine of work, and returns when it has run. It does nothing once work has ended.
func (w *crowd) do(f func()) {
	done := make(chan struct{})
	select {
	case w.asked <- func() { defer close(done); f() }:
		<-done
	case <-w.ended:
	}
}

// nodes returns how many nodes there are.
func (w *crowd) nodes() (n int) {
	w.do(func() { n = len(w.hosts) })
	return n
}

// work handles changes, and what do asks for, until the context is done.
func (w *crowd) work(ctx context.Context) error {
	defer close(w.ended)
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-w.asked:
			f()
			continue
		case <-w.news:
		}
		if err := w.catchUp(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// catchUp handles the changes observed so far.
func (w *crowd) catchUp(ctx context.Context) error {
	w.mu.Lock()
	heard := w.heard
	w.heard = nil
	w.mu.Unlock()
	for _, x := range heard {
		if x.Resource == nodesGVR {
			w.noteNode(x)
		} else if err := w.notePod(ctx, x); err != nil {
			return err
		}
	}
	return w.schedule(ctx)
}

func (w *crowd) noteNode(x apisim.Change) {
	if x.Is == nil {
		if h := w.hosts[x.Was.GetName()]; h != nil {
			h.gone = true
			delete(w.hosts, h.name)
		}
		return
	}
	h := w.hosts[x.Is.GetName()]
	if h == nil {
		h = &host{name: x.Is.GetName()}
		w.hosts[h.name], w.order = h, append(w.order, h)
	}
	text, _, _ := unstructured.NestedString(x.Is.Object, "status", "allocatable", "cpu")
	closed, _, _ := unstructured.NestedBool(x.Is.Object, "spec", "unschedulable")
	taints, _, _ := unstructured.NestedSlice(x.Is.Object, "spec", "taints")
	h.cpu = thousandths(text)
	h.open = !closed && len(taints) == 0 && x.Is.GetLabels()[karpv1.NodeInitializedLabelKey] == "true"
}

func thousandths(text string) int64 {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return q.MilliValue()
}

func cpuOf(pod *unstructured.Unstructured) int64 {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	container, _ := containers[0].(map[string]any)
	text, _, _ := unstructured.NestedString(container, "resources", "requests", "cpu")
	return thousandths(text)
}

func nodeOf(pod *unstructured.Unstructured) string {
	node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	return node
}

// notePod updates the counts, removes a pod that is being deleted, and creates a replacement if its ReplicaSet lacks
// one.
func (w *crowd) notePod(ctx context.Context, x apisim.Change) error {
	before, after := x.Was != nil && x.Was.GetDeletionTimestamp() == nil, x.Is != nil && x.Is.GetDeletionTimestamp() == nil
	if x.Is == nil {
		if h := w.hosts[nodeOf(x.Was)]; h != nil {
			h.used -= cpuOf(x.Was)
		}
	} else if h := w.hosts[nodeOf(x.Is)]; h != nil && (x.Was == nil || nodeOf(x.Was) == "") && x.By != crowdAgent {
		h.used += cpuOf(x.Is)
	}
	switch {
	case x.Was == nil:
		if x.By != crowdAgent { // otherwise it was counted when it was created
			w.setOf(x.Is).have++
		}
		if nodeOf(x.Is) == "" {
			w.waiting = append(w.waiting, &waiting{name: x.Is.GetName(), cpu: cpuOf(x.Is)})
		}
	case before && !after:
		set := w.setOf(x.Was)
		set.have--
		if x.Is != nil {
			if err := w.end(ctx, x.Is.GetName()); err != nil {
				return err
			}
		}
		return w.fill(ctx, set)
	}
	return nil
}

func (w *crowd) setOf(pod *unstructured.Unstructured) *replicas {
	return w.sets[pod.GetOwnerReferences()[0].Name]
}

func (w *crowd) end(ctx context.Context, pod string) error {
	err := w.kube.CoreV1().Pods(namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// fill creates the pods that a ReplicaSet lacks. It runs in the goroutine of work.
func (w *crowd) fill(ctx context.Context, set *replicas) error {
	for set.have < set.wanted {
		w.serial++
		set.have++
		if _, err := w.kube.CoreV1().Pods(namespace).Create(ctx, w.pod(set), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// How long kube-scheduler takes for a pod.
const bindTime, failTime = 5 * time.Millisecond, time.Millisecond

// schedule binds the pods that fit, in order.
func (w *crowd) schedule(ctx context.Context) error {
	var left []*waiting
	hopeless := int64(1 << 60) // no node has room for pods with this much CPU or more
	for _, p := range w.waiting {
		h := w.room(p.cpu, hopeless)
		var err error
		switch {
		case h != nil:
			h.used += p.cpu
			err = w.bind(ctx, p.name, h.name)
			time.Sleep(bindTime)
		case !p.marked:
			p.marked = true
			err = w.mark(ctx, p.name)
			time.Sleep(failTime)
		}
		if h == nil {
			hopeless = min(hopeless, p.cpu)
			left = append(left, p)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("pod %s: %w", p.name, err)
		}
	}
	w.waiting = left
	return nil
}

func (w *crowd) room(cpu, hopeless int64) *host {
	if cpu >= hopeless {
		return nil
	}
	for _, h := range w.order {
		if h.open && !h.gone && h.cpu-h.used >= cpu {
			return h
		}
	}
	return nil
}

func (w *crowd) bind(ctx context.Context, pod, node string) error {
	err := w.kube.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	w.bound++
	return w.patchStatus(ctx, pod, runs(time.Now()))
}

func (w *crowd) mark(ctx context.Context, pod string) error {
	return w.patchStatus(ctx, pod, `{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":`+
		`"Unschedulable","message":"0 nodes are available: Insufficient cpu."}]}}`)
}

func (w *crowd) patchStatus(ctx context.Context, pod, body string) error {
	_, err := w.kube.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, []byte(body), metav1.PatchOptions{},
		"status")
	return err
}

// runs returns the status of a running pod.
func runs(since time.Time) string {
	at := since.UTC().Format(time.RFC3339)
	conditions := ""
	for _, c := range []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		conditions += fmt.Sprintf(`{"type":%q,"status":"True","lastTransitionTime":%q},`, c, at)
	}
	return fmt.Sprintf(`{"status":{"phase":"Running","startTime":%q,"hostIP":"10.0.0.1","podIP":"10.9.9.9",`+
		`"podIPs":[{"ip":"10.9.9.9"}],"qosClass":"Burstable","conditions":[%s],"containerStatuses":[{"name":"c",`+
		`"image":"registry.example.com/team/app:v1.2.3","imageID":"registry.example.com/team/app@sha256:%064d",`+
		`"containerID":"containerd://%064d","ready":true,"started":true,"restartCount":0,`+
		`"state":{"running":{"startedAt":%q}}}]}}`, at, conditions[:len(conditions)-1], 1, 2, at)
}
