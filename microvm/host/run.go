package host

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/sandbox"
)

const byUID = "uid"

// informers prepares the informers of the pods that may run here and of their Nodes.
func (h *Host) informers() error {
	client := h.o.Kube.CoreV1().RESTClient()
	source := h.o.Pods
	if source == nil {
		source = cache.NewListWatchFromClient(client, "pods", "", fields.OneTermEqualSelector("spec.schedulerName",
			fargate.SchedulerName))
	}
	h.pods = cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0,
		cache.Indexers{byUID: func(o any) ([]string, error) { return []string{string(o.(*corev1.Pod).UID)}, nil }})
	_, err := h.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, now any) {
		was, ok1 := old.(*corev1.Pod)
		is, ok2 := now.(*corev1.Pod)
		if ok1 && ok2 {
			h.podChanged(was, is)
		}
	}})
	if h.o.Pods == nil {
		onHost := func(o *metav1.ListOptions) { o.LabelSelector = microvm.HostLabel + "=" + h.o.Name }
		h.nodes = cache.NewSharedIndexInformer(cache.NewFilteredListWatchFromClient(client, "nodes", "", onHost),
			&corev1.Node{}, 0, cache.Indexers{})
	}
	return err
}

// podOf returns a pod by its UID, nil if the API server has none.
func (h *Host) podOf(uid types.UID) *corev1.Pod {
	if found, err := h.pods.GetIndexer().ByIndex(byUID, string(uid)); err == nil && len(found) == 1 {
		return found[0].(*corev1.Pod)
	}
	return nil
}

// Run works until ctx is done: it takes over what an earlier process has left, serves the kubelet API and keeps running
// pods up to date. Virtual machines keep running when it has returned.
func (h *Host) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { h.pods.RunWithContext(ctx) })
	synced := []cache.InformerSynced{h.pods.HasSynced}
	if h.nodes != nil {
		wg.Go(func() { h.nodes.RunWithContext(ctx) })
		synced = append(synced, h.nodes.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	for _, m := range h.all() {
		h.serveKubelet(m)
		m.resume()
	}
	h.mu.Lock()
	h.state.resumed = true
	h.mu.Unlock()
	h.watchers.Notify("")
	for _, id := range h.ids() {
		h.watchers.Notify(id)
	}
	wg.Go(func() { h.probe(ctx) })
	wg.Go(func() { h.refresh(ctx) })
	wg.Go(func() { h.followLogging(ctx) })
	wg.Go(func() { h.measureAll(ctx) })
	if h.listener == nil {
		<-ctx.Done()
		return nil
	}
	return h.kubelet.Serve(ctx, h.listener)
}

// Running returns how many virtual machines run.
func (h *Host) Running() int {
	n := 0
	for _, vm := range h.vms.VMs() {
		if s, _ := vm.Status(); s.Phase != sandbox.Ended {
			n++
		}
	}
	return n
}
