package main

import (
	"fmt"
	"time"
)

// workloads are what `-workload list` lists.
var workloads = []workload{
	{
		name: "six-deployments", about: "six Deployments of 60 replicas, 250m/256Mi to 3 CPU/8Gi, by one kubectl apply",
		steps: []step{{about: "apply six Deployments", do: apply(six()...), lasts: 3 * time.Minute}},
	},
	{
		name: "twenty-pods", about: "one Deployment of 20 pods of 500m",
		steps: []step{{about: "apply", do: apply(deployment("twenty", 20, "500m", "")), lasts: 2 * time.Minute}},
	},
	{
		name: "lone-pods", about: "12 pods of 7 CPU without an owner, one every 10 s, a node each",
		steps: lonePods(12),
	},
}

// lonePods creates pods one after the other. Each asks for seven eighths of the node it gets.
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
