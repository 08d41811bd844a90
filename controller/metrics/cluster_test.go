package metrics_test

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// oneNode is a cluster with one Node and nothing else.
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

// A custom instance type may have a label whose name the metrics already use; it is omitted.
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

// snapshot is a state with nothing but a snapshot.
type snapshot model.Snapshot

func (s *snapshot) Snapshot() *model.Snapshot             { return (*model.Snapshot)(s) }
func (s *snapshot) Budgeted(string) (nodes, removing int) { return 0, 0 }

func (s *snapshot) Manages(class *karpv1.NodeClassReference) bool {
	return class == nil || class.Group == "ours.example"
}

func (s *snapshot) ManagesNode(node *corev1.Node) bool {
	return node.Labels["ours.example/class"] != ""
}

// offered collects a metric of offerings, by type, capacity type and zone.
func offered(t *testing.T, metric string, pools ...model.Pool) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.NewCluster(metrics.ClusterOptions{
		Reader: oneNode{}, State: &snapshot{Pools: pools}, Clock: clock.NewVirtual(noon),
	}))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == metric {
				label := map[string]string{}
				for _, l := range m.Label {
					label[l.GetName()] = l.GetValue()
				}
				got[label["instance_type"]+" "+label["capacity_type"]+" "+label["zone"]] = m.GetGauge().GetValue()
			}
		}
	}
	return got
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// NodePools see different offerings of a type, depending on their classes' subnets, back-offs and capacity
// reservations. An offering is available if it is for any of them.
func TestOfferingsAreThoseOfAllNodePools(t *testing.T) {
	const available, backoff = "karpenter_cloudprovider_instance_type_offering_available",
		"nodeless_offering_backoff_seconds"
	offering := func(zone, capacity string, retry time.Duration) model.Offering {
		o := model.Offering{Zone: zone, CapacityType: capacity, Price: 2e6, Available: retry == 0}
		if retry > 0 {
			o.RetryAt = noon.Add(retry)
		}
		return o
	}
	pool := func(name string, reservations []model.Reservation, offerings ...model.Offering) model.Pool {
		return model.Pool{
			Name: name, Reservations: reservations,
			Types: model.WithReserved([]model.InstanceType{{Name: "m5.large", Offerings: offerings}}, reservations),
		}
	}
	reserved := func(zone string, free int64) model.Reservation {
		return model.Reservation{ID: "cr-" + zone, Type: "m5.large", Zone: zone, Free: free}
	}
	pools := []model.Pool{
		pool("one", []model.Reservation{reserved("a", 0)}, offering("a", model.Spot, time.Minute),
			offering("b", model.Spot, 2*time.Minute)),
		pool("two", []model.Reservation{reserved("a", 0), reserved("b", 3)}, offering("a", model.Spot, 0),
			offering("b", model.Spot, time.Minute), offering("c", model.Spot, 0)),
	}
	if got, want := offered(t, available, pools...), map[string]float64{
		"m5.large spot a": 1, "m5.large spot b": 0, "m5.large spot c": 1, "m5.large reserved a": 0,
		"m5.large reserved b": 1,
	}; !maps.Equal(got, want) {
		t.Errorf("available: %v, want %v", got, want)
	}
	if got, want := offered(t, backoff, pools...), map[string]float64{"m5.large spot b": 60}; !maps.Equal(got, want) {
		t.Errorf("back-off: %v, want %v", got, want)
	}
}

// beside is a cluster with a NodePool, a NodeClaim, a Node and a pod of ours and of another controller each.
type beside struct{ client.Reader }

func (beside) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	for _, of := range []string{"ours", "theirs"} {
		named := metav1.ObjectMeta{Name: of, Labels: map[string]string{
			karpv1.NodePoolLabelKey: of, of + ".example/class": "c",
		}}
		class := &karpv1.NodeClassReference{Group: of + ".example", Kind: "Class", Name: "c"}
		switch list := into.(type) {
		case *karpv1.NodePoolList:
			pool := karpv1.NodePool{ObjectMeta: named}
			pool.Spec.Template.Spec.NodeClassRef = class
			pool.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("8")}
			pool.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
			pool.StatusConditions().SetFalse(karpv1.ConditionTypeValidationSucceeded, of, "it is not valid")
			list.Items = append(list.Items, pool)
		case *karpv1.NodeClaimList:
			claim := karpv1.NodeClaim{ObjectMeta: named, Spec: karpv1.NodeClaimSpec{NodeClassRef: class}}
			claim.Status.ProviderID = of
			claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
			list.Items = append(list.Items, claim)
		case *corev1.NodeList:
			list.Items = append(list.Items, corev1.Node{ObjectMeta: named, Spec: corev1.NodeSpec{ProviderID: of}})
		case *corev1.PodList:
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{NodeName: of}})
		}
	}
	return nil
}

// The other controller exports the metrics of its NodePools and NodeClaims itself. Its Nodes and their pods are part of
// the cluster, but not managed.
func TestObjectsOfAnotherControllerAreNotExported(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.NewCluster(metrics.ClusterOptions{
		Reader: beside{}, State: &snapshot{}, Clock: clock.NewVirtual(noon),
	}))
	informers := &informertest.FakeInformers{}
	if err := metrics.WatchConditions(t.Context(), r, informers, &snapshot{}, clock.NewVirtual(noon)); err != nil {
		t.Fatal(err)
	}
	var pools karpv1.NodePoolList
	_ = beside{}.List(t.Context(), &pools)
	seen, err := informers.FakeInformerFor(t.Context(), &karpv1.NodePool{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pools.Items {
		seen.Add(&pools.Items[i])
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	managed := map[string]string{}
	for _, f := range families {
		of[f.GetName()] = len(f.Metric)
		for _, m := range f.Metric {
			label := map[string]string{}
			for _, l := range m.Label {
				label[l.GetName()] = l.GetValue()
			}
			if label["nodepool"] == "theirs" && label["managed"] == "" || label["karpenter_sh_nodepool"] == "theirs" &&
				!strings.HasPrefix(f.GetName(), "operator_node_") || label["reason"] == "theirs" {
				t.Errorf("%s of another controller: %v", f.GetName(), label)
			}
			if label["managed"] != "" {
				managed[cmp.Or(label["node_name"], label["node"])] += label["managed"] + " "
			}
		}
	}
	for _, name := range []string{
		"karpenter_nodepools_usage", "karpenter_nodepools_limit", "operator_nodeclaim_status_condition_count",
		"operator_nodepool_status_condition_count", "operator_nodepool_status_condition_transitions_total",
	} {
		if of[name] == 0 {
			t.Errorf("%s of ours is not exported", name)
		}
	}
	if strings.Contains(managed["ours"], "false") || managed["ours"] == "" || strings.Contains(managed["theirs"], "true") ||
		managed["theirs"] == "" {
		t.Errorf("managed: %v", managed)
	}
}
