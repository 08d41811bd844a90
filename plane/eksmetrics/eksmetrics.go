// Package eksmetrics serves the API metrics.eks.amazonaws.com/v1, through which EKS exposes the Prometheus metrics of
// a cluster's own components (EKS User Guide, "Fetch control plane raw metrics in Prometheus format").
package eksmetrics

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodeless/nodeless/plane/extension"
)

// components are kube-scheduler and kube-controller-manager, under EKS's names, with the prefixes of their metrics.
var components = map[string][]string{
	"ksh": {"scheduler_"},
	"kcm": {
		"attachdetach_", "cronjob_", "endpoint_slice_", "ephemeral_volume_", "garbagecollector_", "node_collector_",
		"horizontal_pod_autoscaler_", "job_", "node_controller_", "node_ipam_", "pod_gc_", "pv_collector_", "replicaset_",
		"root_ca_", "service_controller_", "statefulset_", "storage_", "taint_eviction_", "ttl_after_finished_", "volume_",
	},
}

// shared are the prefixes of metrics that every component has. The components share a process here, so each metric
// covers all of them.
var shared = []string{"go_", "kubernetes_", "process_", "rest_client_", "workqueue_"}

// API returns an API that serves the components' metrics from a registry.
func API(registry prometheus.Gatherer) extension.API {
	api := extension.API{
		GroupVersion: schema.GroupVersion{Group: "metrics.eks.amazonaws.com", Version: "v1"},
		Service:      "eks-extension-metrics-api",
	}
	mux := http.NewServeMux()
	for name, own := range components {
		api.Resources = append(api.Resources, metav1.APIResource{
			Name: name + "/metrics", Kind: "Metrics", Verbs: metav1.Verbs{"get"},
		})
		mux.Handle("GET "+api.Path()+"/"+name+"/container/metrics", promhttp.HandlerFor(
			beginning{registry, slices.Concat(own, shared)}, promhttp.HandlerOpts{}))
	}
	slices.SortFunc(api.Resources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	api.Handler = mux
	return api
}

// beginning gathers the metrics whose names begin with one of the prefixes.
type beginning struct {
	all      prometheus.Gatherer
	prefixes []string
}

// Gather implements prometheus.Gatherer.
func (b beginning) Gather() ([]*dto.MetricFamily, error) {
	families, err := b.all.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc(b.prefixes, func(prefix string) bool { return strings.HasPrefix(f.GetName(), prefix) })
	}), err
}
