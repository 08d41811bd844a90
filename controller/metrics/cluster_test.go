package metrics_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// oneNode is a cluster of a Node and nothing else.
type oneNode struct{ client.Reader }

func (oneNode) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if nodes, ok := into.(*corev1.NodeList); ok {
		nodes.Items = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{
			Name:   "n",
			Labels: map[string]string{"example.com/phase": "theirs", "example.com/rack": "r1"},
		}}}
	}
	return nil
}

// Types of one's own may have labels whose names metrics use for something else.
func TestALabelOfTheNameOfOneOfOursIsPassedOver(t *testing.T) {
	karpv1.WellKnownLabels.Insert("example.com/phase", "example.com/rack")
	t.Cleanup(func() { karpv1.WellKnownLabels.Delete("example.com/phase", "example.com/rack") })
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.NewCluster(metrics.ClusterOptions{
		Reader: oneNode{}, State: cluster.New(cluster.Options{}),
		Clock: clock.Real{},
	}))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		if f.GetName() == "karpenter_nodes_current_lifetime_seconds" {
			for _, l := range f.Metric[0].Label {
				got[l.GetName()] = l.GetValue()
			}
		}
	}
	if got["rack"] != "r1" || got["phase"] != "" || got["node_name"] != "n" {
		t.Errorf("labels %v", got)
	}
}
