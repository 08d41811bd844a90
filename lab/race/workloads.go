package main

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// workloads are the workloads that `-workload list` lists.
var workloads = []workload{
	{
		name: "inflate", about: "pods of 1 CPU: 0 → 1 → 100 → 99 → 0",
		steps: []step{
			{about: "apply one replica", do: apply(deployment("inflate", 1, "1", "")), lasts: 30 * time.Second},
			{about: "scale to 100", do: scale("inflate", 100), lasts: 90 * time.Second},
			{about: "scale to 99", do: scale("inflate", 99), lasts: time.Minute, noBoot: true},
			{about: "scale to 0", do: scale("inflate", 0), lasts: time.Minute, noBoot: true},
		},
	},
	{
		name: "six-deployments", about: "six Deployments of 60 replicas, 250m/256Mi to 3 CPU/8Gi, by one kubectl apply",
		steps: []step{{about: "apply six Deployments", do: apply(six()...), lasts: 3 * time.Minute}},
	},
	{
		name: "thousand-pods", about: "one Deployment of 1,000 pods of 1 CPU/2Gi",
		steps: []step{{about: "apply", do: apply(deployment("many", 1000, "1", "2Gi")), lasts: 3 * time.Minute}},
	},
	{
		name: "rolling-update", about: "rolling update of 200 replicas of 500m/512Mi with a surge of 25 %",
		steps: []step{
			{about: "apply", do: apply(deployment("web", 200, "500m", "512Mi")), lasts: time.Minute},
			{about: "update", do: apply(updated(deployment("web", 200, "500m", "512Mi"))), lasts: 2 * time.Minute},
		},
	},
	{
		name: "swing", about: "a Deployment of 500m/1Gi whose HPA swings between 10 and 150 replicas for 20 minutes",
		long: true, steps: swing(),
	},
	{
		name: "jobs", about: "300 Jobs of 1 to 5 minutes, 500m/1Gi, in three waves a minute apart",
		long: true, steps: jobs(300, 3),
	},
	{
		name: "spread", about: "40 pods spread over zones, 12 of which no two share a node, 3 of which no two share a zone",
		steps: []step{{about: "apply", do: apply(spread()...), lasts: 2 * time.Minute}},
	},
	{
		name:   "spot",
		about:  "100 pods of 1 CPU/2Gi on spot instances of at most 8 vCPUs; 20 % of the instances are interrupted",
		before: []step{{about: "let the pool buy small spot instances alone", do: require(spotOnly, smallNodes)}},
		steps: []step{
			{about: "apply", do: apply(deployment("spot", 100, "1", "2Gi")), lasts: time.Minute},
			{about: "interrupt a fifth of the instances", do: interrupt(0.2), lasts: 150 * time.Second},
		},
	},
	{
		name:   "budgets",
		about:  "60 pods with no budget or one of 1, 50 % or 0 pods, on nodes of at most 8 vCPUs; nodes die",
		before: []step{{about: "let the pool buy small nodes alone", do: require(smallNodes)}},
		steps: []step{
			{about: "apply", do: apply(budgets()...), lasts: time.Minute},
			{about: "terminate two instances in EC2", do: terminate(2), lasts: time.Minute},
			{about: "delete two Nodes", do: deleteNodes(2), lasts: 90 * time.Second},
			{about: "scale two Deployments to a third", do: inTurn(scale("free", 5), scale("one", 5)), lasts: time.Minute},
		},
	},
	{
		name: "daemonset", about: "a DaemonSet of 500m/512Mi with priority comes to nodes that 100 pods fill",
		steps: []step{
			{about: "apply the pods", do: apply(deployment("full", 100, "900m", "1Gi")), lasts: time.Minute},
			{about: "apply the DaemonSet", do: apply(daemonSet("agent", "500m", "512Mi")), lasts: 2 * time.Minute},
		},
	},
	{
		name: "lone-pods", about: "12 pods of 7 CPU without an owner, one every 10 s, a node each",
		steps: lonePods(12),
	},
	smallSubnet("small-subnet", 60, 24), smallSubnet("small-subnet-22", 500, 22),
	{
		name:  "handover",
		about: "50 nodes go over to the other controller, and back: nothing may be replaced or evicted",
		long:  true,
		elect: true,
		before: []step{{
			about: "let the pool buy small nodes alone, and keep them", do: inTurn(require(smallNodes), settled),
		}},
		steps: []step{
			{about: "apply", do: apply(fifty()...), lasts: time.Minute},
			{about: "hand over", do: handOver},
			{about: "hand back", do: handOver},
		},
	},
	{
		name: "twenty-pods", about: "one Deployment of 20 pods of 500m",
		steps: []step{{about: "apply", do: apply(deployment("twenty", 20, "500m", "")), lasts: 2 * time.Minute}},
	},
	large(200), large(1000),
}

// smallSubnet is a workload whose pods want a node each in a subnet that has too few addresses for so many nodes.
func smallSubnet(name string, pods int32, bits int) workload {
	return workload{
		name: name,
		about: fmt.Sprintf("%d pods want a node each in a subnet of %d addresses, of which the VPC CNI takes 20 for an "+
			"m5.large", pods, 1<<(32-bits)-5), // five of each subnet belong to AWS
		up:     []string{"--subnet-bits", strconv.Itoa(bits)},
		before: []step{{about: "let the pool buy m5.large in one zone alone", do: require(m5Large, oneZone)}},
		steps: []step{{
			about: "apply", do: apply(deployment("many", pods, "1200m", "1Gi")), lasts: 4 * time.Minute, noBoot: true,
		}},
	}
}

// large fills a cluster of m5.2xlarge nodes, about 20 pods each, all at once, and then scales it down by a tenth.
func large(nodes int) workload {
	var all []runtime.Object
	var down []action
	for i := range nodes / 50 {
		name := fmt.Sprintf("app-%d", i)
		all = append(all, deployment(name, 1000, "375m", "1Gi"))
		down = append(down, scale(name, 900))
	}
	return workload{
		name:   fmt.Sprintf("%d-nodes", nodes),
		about:  fmt.Sprintf("%d pods of 375m/1Gi on about %d m5.2xlarge; then a tenth fewer", 20*nodes, nodes),
		long:   true,
		limit:  time.Hour,
		before: []step{{about: "let the pool buy m5.2xlarge alone", do: require(m52xLarge)}},
		steps: []step{
			{about: fmt.Sprintf("apply %d Deployments", len(all)), do: apply(all...), lasts: time.Minute},
			{about: "scale down by a tenth", do: inTurn(down...), lasts: 5 * time.Minute, noBoot: true},
		},
	}
}

// lonePods creates pods one after another. Each requests seven eighths of the node it gets.
func lonePods(n int) []step {
	var out []step
	for i := range n {
		s := step{
			about: fmt.Sprintf("create pod %d", i+1), do: create(pod(fmt.Sprintf("lone-%d", i), "7", "")),
			lasts: 10 * time.Second, noBoot: true,
		}
		if i == n-1 {
			s.lasts, s.noBoot = time.Minute, false
		}
		out = append(out, s)
	}
	return out
}

// swing is a HorizontalPodAutoscaler's reaction to two waves of load: at most double the replicas per minute.
func swing() []step {
	out := []step{{about: "apply 10", do: apply(deployment("hpa", 10, "500m", "1Gi")), lasts: time.Minute, noBoot: true}}
	for _, n := range []int{20, 40, 80, 120, 150, 150, 135, 120, 100, 60, 40, 30, 60, 110, 140, 120, 80, 40, 10} {
		out = append(out, step{
			about: fmt.Sprintf("scale to %d", n), do: scale("hpa", n), lasts: time.Minute, noBoot: true,
		})
	}
	return out
}

// jobs applies Jobs in waves and waits until the last wave has had its five minutes.
func jobs(n, waves int) []step {
	var out []step
	for i := range waves {
		out = append(out, step{
			about: fmt.Sprintf("apply wave %d of %d", i+1, waves), do: apply(wave(i*n/waves, (i+1)*n/waves)...),
			lasts: time.Minute, noBoot: true,
		})
	}
	last := &out[len(out)-1]
	last.lasts, last.noBoot = 6*time.Minute, false
	return out
}
