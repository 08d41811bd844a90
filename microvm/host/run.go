package host

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/sandbox"
)

// informers prepares what follows the pods that may run here and their Nodes.
func (h *Host) informers() {
	h.pods = newPodStore(h.podChanged)
	if h.o.Pods == nil {
		client := h.o.Kube.CoreV1().RESTClient()
		onHost := func(o *metav1.ListOptions) { o.LabelSelector = microvm.HostLabel + "=" + h.o.Name }
		h.nodes = cache.NewSharedIndexInformer(cache.NewFilteredListWatchFromClient(client, "nodes", "", onHost),
			&corev1.Node{}, 0, cache.Indexers{})
	}
}

// Run runs the host until ctx is done: it takes over the microVMs of an earlier process, serves the kubelet API and
// keeps running pods up to date. Virtual machines keep running after it returns.
func (h *Host) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pods := cache.NewReflector(h.source(), &corev1.Pod{}, h.pods, 0)
	wg.Go(func() { pods.RunWithContext(ctx) })
	synced := []cache.InformerSynced{h.pods.synced.Load}
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

// Running returns the number of virtual machines that have not ended.
func (h *Host) Running() int {
	n := 0
	for _, vm := range h.vms.VMs() {
		if s, _ := vm.Status(); s.Phase != sandbox.Ended {
			n++
		}
	}
	return n
}
