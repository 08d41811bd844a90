// Command race runs Nodeless and the Karpenter AWS provider v1.14.1 one after the other, each in a cluster and a
// simulated region of its own, under the same scripted workloads in real time, and compares what users see: how long
// pods wait, nodes, dollars, evictions, calls, CPU and memory.
//
//	make race
//	make race ARGS="-workload list"
//	make race ARGS="-workload six-deployments,lone-pods -runs 3"
//
// The control plane, region and node simulator are `nodeless up --controller=false` for both sides; the controllers
// are programs of their own with the same environment variables. It is a module of its own, so that Karpenter's
// dependencies stay out of the product. docs/how-does-it-do-against-karpenter.md has results.
package main
