package webpage

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/client/clientset/versioned"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/view/web"
)

// usageKept is how long an answer about usage is cached. Metrics-server measures every 15 s.
const usageKept = 10 * time.Second

// usageReader reads what nodes use, as the page's own user.
type usageReader struct {
	metrics versioned.Interface
	clock   clock.Clock
}

func usage(cfg *rest.Config, c clock.Clock) (web.ReadUsage, error) {
	metrics, err := versioned.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of metrics: %w", err)
	}
	r, last := usageReader{metrics, c}, kept[web.Usage]{clock: c, keep: usageKept}
	return func(ctx context.Context) (*web.Usage, error) {
		return last.get(func() (*web.Usage, error) { return r.read(ctx) })
	}, nil
}

func (r *usageReader) read(ctx context.Context) (*web.Usage, error) {
	out := &web.Usage{At: r.clock.Now().Unix(), Nodes: []web.NodeUsage{}}
	list, err := r.metrics.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err): // nobody serves it
	case err != nil:
		return nil, fmt.Errorf("list what nodes use (nodes.metrics.k8s.io): %w", err)
	default:
		out.Served = true
		for i := range list.Items {
			n := &list.Items[i]
			out.Nodes = append(out.Nodes, web.NodeUsage{
				Name: n.Name, CPU: n.Usage.Cpu().MilliValue(), Memory: n.Usage.Memory().Value(),
			})
		}
	}
	return out, nil
}
