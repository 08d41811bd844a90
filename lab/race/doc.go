// Command race runs Nodeless and the Karpenter AWS provider v1.14.1 one after the other, each in its own cluster and
// simulated region, under the same scripted workloads in real time. It compares what users see: how long pods wait,
// nodes, dollars, evictions, calls, CPU and memory.
//
//	make race
//	make race ARGS="-workload list"
//	make race ARGS="-workload six-deployments,lone-pods -runs 3"
//
// Both sides use `nodeless up --controller=false` as control plane, region and node simulator; the controllers are
// separate programs with the same environment variables. This is a separate module, so that Karpenter's dependencies
// stay out of the product. docs/how-does-it-do-against-karpenter.md has results.
package main
