package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

var (
	poolUsage = newGauge("karpenter_nodepools_usage", "Capacity of a NodePool's nodes.", "resource_type", "nodepool")
	poolLimit = newGauge("karpenter_nodepools_limit", "What a NodePool's limits allow.", "resource_type", "nodepool")
	poolCost  = newGauge("karpenter_nodepools_cost_total",
		"What a NodePool's nodes cost now, in dollars an hour.", "nodepool")
	poolAllowed = newGauge("karpenter_nodepools_allowed_disruptions",
		"How many of a NodePool's nodes its budgets allow to be disrupted at once, including those being disrupted.",
		"nodepool", "reason")
	poolGoing = newGauge("karpenter_nodepools_nodes_consuming_budgets",
		"How many of a NodePool's nodes count against its budgets.", "nodepool", "reason")

	stateNodes = newGauge("karpenter_cluster_state_node_count",
		"Nodes in the cluster state, including those being launched.")
	stateSynced = newGauge("karpenter_cluster_state_synced",
		"1 while the cluster state is synced with the API server.")
	stateUnsynced = newGauge("karpenter_cluster_state_unsynced_time_seconds",
		"How long the cluster state has not been synced.")
	clusterCost = newGauge("nodeless_cluster_cost_dollars_per_hour", "What all nodes of known price cost now.")
)

// pools collects NodePools and, in the same pass over the nodes, the size and cost of the cluster.
func (v *view) pools(ch chan<- prometheus.Metric) {
	cost := map[string]model.Price{}
	var all model.Price
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		cost[n.Pool] += n.Price
		all += n.Price
	}
	stateNodes.put(ch, float64(len(v.snapshot.Nodes)))
	stateSynced.put(ch, 1)   // scrapes begin once the cache is synced
	stateUnsynced.put(ch, 0) // likewise
	clusterCost.put(ch, dollars(all))
	for i := range v.poolList.Items {
		pool := &v.poolList.Items[i]
		poolCost.put(ch, dollars(cost[pool.Name]), pool.Name)
		for name, q := range pool.Status.Resources {
			poolUsage.put(ch, amount(q), labelValue(name), pool.Name)
		}
		for name, q := range corev1.ResourceList(pool.Spec.Limits) {
			poolLimit.put(ch, amount(q), labelValue(name), pool.Name)
		}
		v.budgets(ch, pool)
	}
}

// budgets collects how many nodes of a pool may be disrupted at once, and how many are being disrupted.
func (v *view) budgets(ch chan<- prometheus.Metric, pool *karpv1.NodePool) {
	nodes, removing := v.state.Budgeted(pool.Name)
	for _, reason := range []karpv1.DisruptionReason{
		karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonUnderutilized,
	} {
		poolAllowed.put(ch, float64(translate.AllowedDisruptions(pool, reason, v.now, nodes)), pool.Name, string(reason))
		poolGoing.put(ch, float64(removing), pool.Name, string(reason))
	}
}

func dollars(p model.Price) float64 { return float64(p) / 1e6 }

const offered = "karpenter_cloudprovider_instance_type_"

var (
	offeringPrice = newGauge(offered+"offering_price_estimate", "Price of an offering's instance, in dollars an hour.",
		"instance_type", "capacity_type", "zone")
	offeringAvailable = newGauge(offered+"offering_available",
		"1 if an offering can be had, 0 while the cloud lately had none.", "instance_type", "capacity_type", "zone")
	offeringBackoff = newGauge("nodeless_offering_backoff_seconds",
		"Seconds until an offering that the cloud had no capacity for is tried again.", "instance_type", "capacity_type",
		"zone")
	typeCores  = newGauge(offered+"cpu_cores", "CPUs of an instance type.", "instance_type")
	typeMemory = newGauge(offered+"memory_bytes",
		"Memory of an instance type, as pods of a new node see it.", "instance_type")
)

// offerings collects the types and offerings of all NodePools, each once.
func (v *view) offerings(ch chan<- prometheus.Metric) {
	known := map[string]bool{}
	all := map[model.OfferingKey]model.Offering{}
	for i := range v.snapshot.Pools {
		p := &v.snapshot.Pools[i]
		for j := range p.Types {
			t := &p.Types[j]
			if !known[t.Name] {
				known[t.Name] = true
				typeCores.put(ch, float64(t.Capacity[model.CPU])/1000, t.Name)
				typeMemory.put(ch, float64(t.Capacity[model.Memory]), t.Name)
			}
			for _, o := range t.Offerings {
				o.Available = o.Available || o.CapacityType == model.Reserved && hasFree(p, t.Name, o.Zone)
				key := model.OfferingKey{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}
				if other, seen := all[key]; seen {
					o = joined(other, o)
				}
				all[key] = o
			}
		}
	}
	for key, o := range all {
		available := 0.0
		if o.Available {
			available = 1
		} else if o.RetryAt.After(v.now) {
			offeringBackoff.put(ch, o.RetryAt.Sub(v.now).Seconds(), key.Type, key.CapacityType, key.Zone)
		}
		offeringPrice.put(ch, dollars(o.Price-o.SidePrice), key.Type, key.CapacityType, key.Zone)
		offeringAvailable.put(ch, available, key.Type, key.CapacityType, key.Zone)
	}
}

// joined returns an offering as two NodePools see it: it is available if it is for one of them, as in Karpenter
// (karpenter-provider-aws v1.14.1, pkg/controllers/metrics), and otherwise tried again when the first of them does.
func joined(a, b model.Offering) model.Offering {
	a.Available = a.Available || b.Available
	if a.RetryAt.IsZero() || !b.RetryAt.IsZero() && b.RetryAt.Before(a.RetryAt) {
		a.RetryAt = b.RetryAt
	}
	return a
}

// hasFree reports whether a NodePool's reservations of a type in a zone have a free instance.
func hasFree(p *model.Pool, name, zone string) bool {
	return slices.ContainsFunc(p.Reservations, func(r model.Reservation) bool {
		return r.Type == name && r.Zone == zone && r.Free > 0
	})
}
