package metrics

import (
	"context"
	"errors"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/informer"
)

var _ cloud.Observer = (*Counters)(nil)

type cloudCounters struct {
	calls, batchTime, batchSize *prometheus.HistogramVec
	errors                      *prometheus.CounterVec
	userData                    *prometheus.GaugeVec
}

func newCloudCounters(m maker) cloudCounters {
	const provider = "karpenter_cloudprovider_"
	sizes := append([]float64{1, 2, 4, 5}, prometheus.LinearBuckets(10, 5, 4)...)
	sizes = append(append(sizes, prometheus.LinearBuckets(30, 10, 8)...), prometheus.LinearBuckets(125, 25, 8)...)
	sizes = append(append(sizes, prometheus.LinearBuckets(350, 50, 6)...), prometheus.LinearBuckets(700, 100, 4)...)
	return cloudCounters{
		calls: m.histogram(provider+"duration_seconds", "Time of calls to the cloud provider.", prometheus.DefBuckets,
			"controller", "method", "provider"),
		errors: m.counter(provider+"errors_total", "Calls to the cloud provider that failed.", "controller", "method",
			"provider", "error"),
		batchTime: m.histogram(provider+"batcher_batch_time_seconds",
			"How long the first caller of a batched call waited for it to be sent.", durations(), "batcher"),
		batchSize: m.histogram(provider+"batcher_batch_size", "Number of objects in a batched call.", sizes,
			"batcher"),
		userData: m.gauge("karpenter_ec2nodeclasses_userdata_bytes",
			"Size of a class's user data, before they are encoded.", "nodeclass"),
	}
}

// methods maps a provider's methods to Karpenter's names for them and for the controllers that call them.
var methods = map[string]struct{ name, controller string }{
	"Catalog": {"GetInstanceTypes", "provisioner"}, "Launch": {"Create", "nodeclaim.lifecycle"},
	"Terminate": {"Delete", "nodeclaim.lifecycle"},
	"Get":       {"Get", "nodeclaim.lifecycle"}, "List": {"List", "nodeclaim.garbagecollection"},
	"Drifted": {"IsDrifted", "nodeclaim.disruption"}, "Interruptions": {"Interruptions", "interruption"},
	"Done": {"DeleteInterruptions", "interruption"},
}

// Call measures a call of a provider's method.
func (c *Counters) Call(provider, method string, took time.Duration, err error) {
	m, ok := methods[method]
	if !ok {
		m.name = method
	}
	c.cloud.calls.WithLabelValues(m.controller, m.name, provider).Observe(took.Seconds())
	if err != nil {
		c.cloud.errors.WithLabelValues(m.controller, m.name, provider, errorName(err)).Inc()
	}
}

// errorName returns Karpenter's name for an error, our own for a call that AWS denied; "" for any other.
func errorName(err error) string {
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return "NodeClaimNotFoundError"
	case errors.Is(err, cloud.ErrClassNotReady):
		return "NodeClassNotReadyError"
	case errors.Is(err, cloud.ErrNoCapacity):
		return "InsufficientCapacityError"
	case errors.Is(err, cloud.ErrUnauthorized):
		return "UnauthorizedError"
	}
	return ""
}

// Batch measures one call made for several callers.
func (c *Counters) Batch(call string, waited time.Duration, size int) {
	c.cloud.batchTime.WithLabelValues(call).Observe(waited.Seconds())
	c.cloud.batchSize.WithLabelValues(call).Observe(float64(size))
}

// UserData records the size of a class's user data.
func (c *Counters) UserData(class string, bytes int) {
	c.cloud.userData.WithLabelValues(class).Set(float64(bytes))
}

// WatchClasses deletes the metrics of deleted node classes.
func (c *Counters) WatchClasses(ctx context.Context, from cache.Cache) error {
	return informer.Watch(ctx, from, &ec2v1.EC2NodeClass{}, func(old, now client.Object) {
		if now == nil {
			c.cloud.userData.DeleteLabelValues(old.GetName())
		}
	})
}
