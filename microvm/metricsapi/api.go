// Package metricsapi serves metrics.k8s.io, which kubectl top and autoscalers read, for the Nodes of microVM pods. It
// runs in "nodeless up", which has no metrics-server. It does not replace a cluster's own metrics-server, which gets
// the same figures through package kubelet.
package metricsapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Source measures nodes and pods.
type Source interface {
	// Nodes returns the known Nodes, with their labels.
	Nodes() []*corev1.Node
	// Pods returns the pods of a node.
	Pods(node string) []*corev1.Pod
	// Stats measures a node and its pods; UsageNanoCores is the rate over the last Window.
	Stats(ctx context.Context, node string) (*stats.Summary, error)
	Window() time.Duration
}

const root = "/apis/metrics.k8s.io/v1beta1"

// Resources are the resources of the API, for discovery.
var Resources = []metav1.APIResource{
	{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}},
	{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
}

// Handler serves lists and single objects of the API to any client.
func Handler(s Source) http.Handler {
	mux := http.NewServeMux()
	a := api{s}
	for path, serve := range map[string]func(http.ResponseWriter, *http.Request, query){
		"/nodes": a.nodes, "/nodes/{name}": a.nodes, "/pods": a.pods, "/namespaces/{namespace}/pods": a.pods,
		"/namespaces/{namespace}/pods/{name}": a.pods,
	} {
		mux.HandleFunc("GET "+root+path, func(w http.ResponseWriter, r *http.Request) {
			q, err := readQuery(r)
			if err != nil {
				fail(w, apierrors.NewBadRequest(err.Error()))
				return
			}
			serve(w, r, q)
		})
	}
	return mux
}

type api struct{ source Source }

// query selects objects.
type query struct {
	labels labels.Selector
	fields fields.Selector
}

func readQuery(r *http.Request) (q query, err error) {
	if q.labels, err = labels.Parse(r.URL.Query().Get("labelSelector")); err != nil {
		return q, fmt.Errorf("labelSelector: %w", err)
	}
	if q.fields, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err != nil {
		return q, fmt.Errorf("fieldSelector: %w", err)
	}
	for _, field := range []string{"name", "namespace"} {
		if value := r.PathValue(field); value != "" {
			q.fields = fields.AndSelectors(q.fields, fields.OneTermEqualSelector("metadata."+field, value))
		}
	}
	return q, nil
}

func (q query) wants(o metav1.Object) bool {
	return q.labels.Matches(labels.Set(o.GetLabels())) && q.fields.Matches(fields.Set{
		"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace(),
	})
}

func (a api) nodes(w http.ResponseWriter, r *http.Request, q query) {
	list := metrics.NodeMetricsList{TypeMeta: kind("NodeMetricsList"), Items: []metrics.NodeMetrics{}}
	for _, n := range a.source.Nodes() {
		if !q.wants(n) {
			continue
		}
		summary, err := a.source.Stats(r.Context(), n.Name)
		if err != nil { // kubectl top shows <unknown>
			continue
		}
		if usage, at, ok := usageOf(summary.Node.CPU, summary.Node.Memory); ok {
			list.Items = append(list.Items, metrics.NodeMetrics{
				TypeMeta:   kind("NodeMetrics"),
				ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: at},
				Timestamp:  at, Window: metav1.Duration{Duration: a.source.Window()}, Usage: usage,
			})
		}
	}
	oneOrAll(w, r, list, list.Items)
}

func (a api) pods(w http.ResponseWriter, r *http.Request, q query) {
	list := metrics.PodMetricsList{TypeMeta: kind("PodMetricsList"), Items: []metrics.PodMetrics{}}
	for _, n := range a.source.Nodes() {
		for _, p := range a.source.Pods(n.Name) {
			if !q.wants(p) {
				continue
			}
			summary, err := a.source.Stats(r.Context(), n.Name)
			if err != nil {
				continue
			}
			if m, ok := a.podMetrics(p, summary); ok {
				list.Items = append(list.Items, m)
			}
		}
	}
	oneOrAll(w, r, list, list.Items)
}

// podMetrics returns the metrics of a pod, and whether all of its containers have been measured.
func (a api) podMetrics(p *corev1.Pod, summary *stats.Summary) (metrics.PodMetrics, bool) {
	m := metrics.PodMetrics{TypeMeta: kind("PodMetrics"), Window: metav1.Duration{Duration: a.source.Window()}}
	for _, s := range summary.Pods {
		if s.PodRef.Namespace != p.Namespace || s.PodRef.Name != p.Name {
			continue
		}
		for _, c := range s.Containers {
			usage, at, ok := usageOf(c.CPU, c.Memory)
			if !ok {
				return m, false
			}
			m.Timestamp = at
			m.Containers = append(m.Containers, metrics.ContainerMetrics{Name: c.Name, Usage: usage})
		}
	}
	m.ObjectMeta = metav1.ObjectMeta{
		Name: p.Name, Namespace: p.Namespace, Labels: p.Labels, CreationTimestamp: m.Timestamp,
	}
	return m, len(m.Containers) > 0
}

func usageOf(cpu *stats.CPUStats, memory *stats.MemoryStats) (corev1.ResourceList, metav1.Time, bool) {
	if cpu == nil || cpu.UsageNanoCores == nil || memory == nil || memory.WorkingSetBytes == nil {
		return nil, metav1.Time{}, false
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(*cpu.UsageNanoCores), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(*memory.WorkingSetBytes), resource.BinarySI),
	}, cpu.Time, true
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: name, APIVersion: metrics.SchemeGroupVersion.String()}
}

// oneOrAll responds with the single object that the path names, or with the list.
func oneOrAll[T any](w http.ResponseWriter, r *http.Request, list any, items []T) {
	name := r.PathValue("name")
	switch {
	case name == "":
		responsewriters.WriteRawJSON(http.StatusOK, list, w)
	case len(items) == 1:
		responsewriters.WriteRawJSON(http.StatusOK, items[0], w)
	default:
		what := strings.Split(strings.TrimPrefix(r.URL.Path, root+"/"), "/")[0]
		missing := apierrors.NewNotFound(metrics.Resource(what), name)
		missing.ErrStatus.Message = fmt.Sprintf("no metrics of %s %q: it does not run on a microVM of this host, or was not "+
			"measured yet", what, name)
		fail(w, missing)
	}
}

func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	responsewriters.WriteRawJSON(int(status.Code), status, w)
}
