package metrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// ClusterOptions configure a Cluster. All are required.
type ClusterOptions struct {
	Reader client.Reader // a synced cache
	State  State
	Clock  clock.Clock
}

// State is what the controller knows about its cluster.
type State interface {
	// Snapshot returns the current cluster.
	Snapshot() *model.Snapshot
	// Budgeted returns how many of a pool's nodes count towards its budgets, and how many of them are being removed.
	Budgeted(pool string) (nodes, removing int)
	// Manages reports whether NodePools and NodeClaims with such a node class are managed here.
	Manages(class *karpv1.NodeClassReference) bool
	// ManagesNode reports whether the label of a Node without NodeClaim names such a node class.
	ManagesNode(node *corev1.Node) bool
}

// Cluster collects the current state at each scrape: pods, nodes, pools, offerings and conditions. It keeps nothing,
// so that the next scrape lacks what is gone from the cluster. NodePools and NodeClaims of another controller are left
// to it: their metrics would be exported twice.
type Cluster struct{ o ClusterOptions }

// NewCluster returns a Cluster, to be registered by the leader.
func NewCluster(o ClusterOptions) *Cluster { return &Cluster{o} }

// Describe sends nothing: the series depend on the cluster.
func (c *Cluster) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current state.
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

// gauge is a metric whose values are computed at each scrape.
type gauge struct{ desc *prometheus.Desc }

func newGauge(name, help string, labels ...string) gauge {
	return gauge{prometheus.NewDesc(name, help, labels, nil)}
}

func (g gauge) put(ch chan<- prometheus.Metric, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
}

// amount returns a quantity in its base unit, such as cores or bytes.
func amount(q resource.Quantity) float64 { return q.AsApproximateFloat64() }

// labelValue returns a resource's name in the form of a label value.
func labelValue(resource corev1.ResourceName) string {
	return strings.ReplaceAll(strings.ToLower(string(resource)), "-", "_")
}

// list reads all objects of a kind without copying them.
func (c *Cluster) list(into client.ObjectList) error {
	return c.o.Reader.List(context.Background(), into, client.UnsafeDisableDeepCopy)
}

// view is the cluster at one scrape. It is shared with the cache: do not change it.
type view struct {
	now      time.Time
	state    State
	snapshot *model.Snapshot

	podList  corev1.PodList
	nodeList corev1.NodeList
	claims   karpv1.NodeClaimList
	poolList karpv1.NodePoolList
	classes  ec2v1.EC2NodeClassList

	nodes   map[string]*corev1.Node
	claimed map[string]bool // provider IDs of claims
}

func (c *Cluster) view() (*view, error) {
	v := &view{now: c.o.Clock.Now(), state: c.o.State, nodes: map[string]*corev1.Node{}, claimed: map[string]bool{}}
	for what, err := range map[string]error{
		"Pods": c.list(&v.podList), "Nodes": c.list(&v.nodeList), "NodeClaims": c.list(&v.claims),
		"NodePools": c.list(&v.poolList), "EC2NodeClasses": c.list(&v.classes),
	} {
		if err != nil {
			return nil, fmt.Errorf("metrics: list %s: %w", what, err)
		}
	}
	v.claims.Items = slices.DeleteFunc(v.claims.Items, func(o karpv1.NodeClaim) bool { return !manages(c.o.State, &o) })
	v.poolList.Items = slices.DeleteFunc(v.poolList.Items, func(o karpv1.NodePool) bool { return !manages(c.o.State, &o) })
	v.snapshot = c.o.State.Snapshot()
	for i := range v.nodeList.Items {
		v.nodes[v.nodeList.Items[i].Name] = &v.nodeList.Items[i]
	}
	for i := range v.claims.Items {
		if id := v.claims.Items[i].Status.ProviderID; id != "" {
			v.claimed[id] = true
		}
	}
	return v, nil
}

// manages reports whether an object is no NodePool or NodeClaim of another controller.
func manages(s State, o client.Object) bool {
	switch o := o.(type) {
	case *karpv1.NodeClaim:
		return s.Manages(o.Spec.NodeClassRef)
	case *karpv1.NodePool:
		return s.Manages(o.Spec.Template.Spec.NodeClassRef)
	}
	return true
}

// managesNode reports whether a Node is managed here: it has a claim, or may soon.
func (v *view) managesNode(node *corev1.Node) bool {
	return v.claimed[node.Spec.ProviderID] || node.Labels[karpv1.NodePoolLabelKey] != "" && v.state.ManagesNode(node)
}
