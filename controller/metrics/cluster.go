package metrics

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// ClusterOptions are what a Cluster needs; all are required.
type ClusterOptions struct {
	Reader client.Reader // a cache that is synced
	State  State
	Clock  clock.Clock
}

// State is what the controller knows of its cluster.
type State interface {
	// Snapshot is the cluster at this moment.
	Snapshot() *model.Snapshot
	// Budgeted is how many of a pool's nodes count towards its budgets, and how many of them are being removed.
	Budgeted(pool string) (nodes, removing int)
}

// Cluster tells what is, when it is asked: pods, nodes, pools, offerings and conditions. It remembers nothing, so that
// what is gone from the cluster is gone from the next scrape too.
type Cluster struct{ o ClusterOptions }

// NewCluster is a Cluster; register it where the leader's metrics are.
func NewCluster(o ClusterOptions) *Cluster { return &Cluster{o} }

// Describe says nothing: which series there are depends on the cluster.
func (c *Cluster) Describe(chan<- *prometheus.Desc) {}

// Collect tells what is.
func (c *Cluster) Collect(ch chan<- prometheus.Metric) {
	v, err := c.view()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	v.pods(ch)
	v.nodesAndUse(ch)
	v.pools(ch)
	v.offerings(ch)
	v.conditions(ch)
}

// gauge is a metric whose values are made when they are asked for.
type gauge struct{ desc *prometheus.Desc }

func newGauge(name, help string, labels ...string) gauge {
	return gauge{prometheus.NewDesc(name, help, labels, nil)}
}

func (g gauge) put(ch chan<- prometheus.Metric, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
}

// amount is a quantity in its base unit: cores, bytes, pieces.
func amount(q resource.Quantity) float64 { return q.AsApproximateFloat64() }

// labelValue is a resource's name as label values have it.
func labelValue(resource corev1.ResourceName) string {
	return strings.ReplaceAll(strings.ToLower(string(resource)), "-", "_")
}

// list reads all objects of a kind without copying them.
func (c *Cluster) list(into client.ObjectList) error {
	return c.o.Reader.List(context.Background(), into, client.UnsafeDisableDeepCopy)
}
