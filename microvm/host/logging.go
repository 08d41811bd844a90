package host

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/logs"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
	"github.com/nodeless/nodeless/microvm/sandbox"
)

// LogRouterDir is the log router's directory below the state directory. It also holds what the outputs stdout and
// file write.
const LogRouterDir = "log-router"

// drainLimit is how long routing the last lines of a pod may take: Fluent Bit's Grace.
const drainLimit = 5 * time.Second

// watchOne returns an informer of a single object, which calls changed after each change.
func watchOne(
	client cache.Getter, resource, namespace, name string, object runtime.Object, changed func(),
) (cache.SharedIndexInformer, error) {
	list := cache.NewListWatchFromClient(client, resource, namespace, fields.OneTermEqualSelector("metadata.name", name))
	informer := cache.NewSharedIndexInformer(list, object, 0, cache.Indexers{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(_, _ any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	return informer, err
}

// followLogging configures the log router from the ConfigMap aws-logging, again after each change, until ctx is done.
func (h *Host) followLogging(ctx context.Context) {
	changed := signal.New()
	client := h.o.Kube.CoreV1().RESTClient()
	namespaces, err1 := watchOne(client, "namespaces", "", fargate.LoggingNamespace, &corev1.Namespace{}, changed.Set)
	configMaps, err2 := watchOne(client, "configmaps", fargate.LoggingNamespace, fargate.LoggingConfigMap,
		&corev1.ConfigMap{}, changed.Set)
	if err1 != nil || err2 != nil {
		return // impossible: only a stopped informer refuses handlers
	}
	h.work.Go(func() { namespaces.RunWithContext(ctx) })
	h.work.Go(func() { configMaps.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), namespaces.HasSynced, configMaps.HasSynced) {
		return
	}
	able := h.abilities()
	var last *corev1.ConfigMap
	for first := true; ; first = false {
		namespace, _ := only(namespaces).(*corev1.Namespace)
		configMap, _ := only(configMaps).(*corev1.ConfigMap)
		if namespace == nil || namespace.Labels[fargate.LoggingLabel] != "enabled" {
			configMap = nil
		}
		if first || !sameData(last, configMap) {
			h.router.Configure(pipeline.State(&v1alpha1.FargateProfileSpec{}, namespace, configMap, able))
			last = configMap
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// only returns the single object of an informer, or nil if there is none.
func only(i cache.SharedIndexInformer) any {
	if all := i.GetStore().List(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// sameData reports whether two ConfigMaps, each nil if it does not exist, hold the same data.
func sameData(a, b *corev1.ConfigMap) bool {
	return a == nil && b == nil || a != nil && b != nil && maps.Equal(a.Data, b.Data)
}

// storedLog adapts a VM's log to the router.
type storedLog struct{ *sandbox.VM }

// Tail implements logs.Log.
func (s storedLog) Tail(container string, after int64) (logs.Tail, error) {
	t, err := s.VM.Tail(container, after)
	if err != nil {
		return nil, err // not t, which would be a non-nil Tail
	}
	return t, nil
}

// routeLogs routes the pod's logs, unless its profile disables that.
func (m *microVM) routeLogs(vm *sandbox.VM) {
	pod := m.current()
	if pod == nil || strings.HasSuffix(pod.Annotations[fargate.Logging], fargate.DisabledByProfile) {
		return
	}
	route := m.h.router.Add(logs.Pod{
		ID: m.record.ID, Log: storedLog{vm}, Source: m.logSource,
		Report: func(warning bool, reason, message string) {
			m.h.event(pod, "", eventType(warning), reason, message)
		},
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.route = route
}

// logSource describes a container for the log router. It works even if the pod is gone, so that the container's last
// lines go where the earlier ones went.
func (m *microVM) logSource(container string) *pipeline.Source {
	from := &pipeline.Source{
		Namespace: m.record.Namespace, Pod: m.record.Name, UID: string(m.record.UID), Node: m.h.node(m.record),
		IP: m.record.address().String(), Container: container,
	}
	if pod := m.current(); pod != nil {
		from.Labels, from.Annotations = pod.Labels, pod.Annotations
		for c := range containers(pod) {
			if c.Name == container {
				from.Image = c.Image
			}
		}
	}
	return from
}

// endRoute routes the last lines of the virtual machine, and pauses or ends the route.
func (m *microVM) endRoute(end func(*logs.Route, context.Context)) {
	m.mu.Lock()
	route := m.route
	m.mu.Unlock()
	if route == nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.h.ctx, drainLimit)
	defer cancel()
	end(route, ctx)
}
