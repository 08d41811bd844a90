package kubelet

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// The names of /metrics/resource are a stable interface, which metrics-server reads for kubectl top and autoscalers
// (kubernetes.io, Metrics For Kubernetes System Components).
var (
	ofContainer = []string{"container", "pod", "namespace"}
	ofPod       = []string{"pod", "namespace"}

	nodeCPU = prometheus.NewDesc("node_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the node in core-seconds", nil, nil)
	nodeMemory = prometheus.NewDesc("node_memory_working_set_bytes",
		"Current working set of the node in bytes", nil, nil)
	containerCPU = prometheus.NewDesc("container_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the container in core-seconds", ofContainer, nil)
	containerMemory = prometheus.NewDesc("container_memory_working_set_bytes",
		"Current working set of the container in bytes", ofContainer, nil)
	containerStart = prometheus.NewDesc("container_start_time_seconds",
		"Start time of the container since unix epoch in seconds", ofContainer, nil)
	podCPU = prometheus.NewDesc("pod_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the pod in core-seconds", ofPod, nil)
	podMemory = prometheus.NewDesc("pod_memory_working_set_bytes",
		"Current working set of the pod in bytes", ofPod, nil)
	scrapeError = prometheus.NewDesc("resource_scrape_error",
		"1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// metrics serves /metrics/resource: a node's stats in Prometheus format, with the time of each measurement.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request, node string) {
	summary, err := s.backend.Stats(r.Context(), node)
	registry := prometheus.NewRegistry()
	registry.MustRegister(measurements{summary, err})
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

type measurements struct {
	summary *stats.Summary
	err     error
}

// Describe implements prometheus.Collector. It describes nothing: the registry serves one request and needs no checks.
func (m measurements) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m measurements) Collect(ch chan<- prometheus.Metric) {
	if m.err != nil {
		ch <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, 1)
		return
	}
	ch <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, 0)
	cpu(ch, nodeCPU, m.summary.Node.CPU)
	memory(ch, nodeMemory, m.summary.Node.Memory)
	for _, p := range m.summary.Pods {
		cpu(ch, podCPU, p.CPU, p.PodRef.Name, p.PodRef.Namespace)
		memory(ch, podMemory, p.Memory, p.PodRef.Name, p.PodRef.Namespace)
		for _, c := range p.Containers {
			labels := []string{c.Name, p.PodRef.Name, p.PodRef.Namespace}
			cpu(ch, containerCPU, c.CPU, labels...)
			memory(ch, containerMemory, c.Memory, labels...)
			if !c.StartTime.IsZero() {
				ch <- prometheus.MustNewConstMetric(containerStart, prometheus.GaugeValue,
					float64(c.StartTime.UnixNano())/float64(time.Second), labels...)
			}
		}
	}
}

func cpu(ch chan<- prometheus.Metric, d *prometheus.Desc, s *stats.CPUStats, labels ...string) {
	if s != nil && s.UsageCoreNanoSeconds != nil {
		ch <- prometheus.NewMetricWithTimestamp(s.Time.Time, prometheus.MustNewConstMetric(d, prometheus.CounterValue,
			float64(*s.UsageCoreNanoSeconds)/float64(time.Second), labels...))
	}
}

func memory(ch chan<- prometheus.Metric, d *prometheus.Desc, s *stats.MemoryStats, labels ...string) {
	if s != nil && s.WorkingSetBytes != nil {
		ch <- prometheus.NewMetricWithTimestamp(s.Time.Time, prometheus.MustNewConstMetric(d, prometheus.GaugeValue,
			float64(*s.WorkingSetBytes), labels...))
	}
}
