package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

var (
	poolUsage = newGauge("karpenter_nodepools_usage", "Capacity of a NodePool's machines.", "resource_type", "nodepool")
	poolLimit = newGauge("karpenter_nodepools_limit", "What a NodePool's limits allow.", "resource_type", "nodepool")
	poolCost  = newGauge("karpenter_nodepools_cost_total",
		"What a NodePool's machines cost now, in dollars an hour.", "nodepool")
	poolAllowed = newGauge("karpenter_nodepools_allowed_disruptions",
		"How many of a NodePool's nodes its budgets allow to be disrupted at once, those that are included.", "nodepool",
		"reason")
	poolGoing = newGauge("karpenter_nodepools_nodes_consuming_budgets",
		"How many of a NodePool's nodes count against its budgets.", "nodepool", "reason")

	stateNodes    = newGauge("karpenter_cluster_state_node_count", "Machines, those on their way included.")
	stateSynced   = newGauge("karpenter_cluster_state_synced", "1 while the cluster is known.")
	stateUnsynced = newGauge("karpenter_cluster_state_unsynced_time_seconds", "How long the cluster has not been known.")
	clusterCost   = newGauge("nodeless_cluster_cost_dollars_per_hour", "What all machines of known price cost now.")
)

// pools tells of NodePools and, in the same pass over the machines, of the cluster's size and cost.
func (v *view) pools(ch chan<- prometheus.Metric) {
	cost := map[string]model.Price{}
	var all model.Price
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		cost[n.Pool] += n.Price
		all += n.Price
	}
	stateNodes.put(ch, float64(len(v.snapshot.Nodes)))
	stateSynced.put(ch, 1)   // it is asked for only when the cache is synced
	stateUnsynced.put(ch, 0) // for the same reason
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

// budgets tells how many machines may go at once, and how many do.
func (v *view) budgets(ch chan<- prometheus.Metric, pool *karpv1.NodePool) {
	machines, going := v.state.Budgeted(pool.Name)
	for _, reason := range []karpv1.DisruptionReason{
		karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonUnderutilized,
	} {
		poolAllowed.put(ch, float64(translate.AllowedDisruptions(pool, reason, v.now, machines)), pool.Name, string(reason))
		poolGoing.put(ch, float64(going), pool.Name, string(reason))
	}
}

func dollars(p model.Price) float64 { return float64(p) / 1e6 }
