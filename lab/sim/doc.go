// Package sim replays a trace of pods over days of virtual time: a discrete-event simulation of a cluster. The
// controller's own driver (controller/cycle) decides which nodes are launched and removed, either with the engine
// functions that production uses or with a Karpenter-like baseline (lab/sim/compatible).
//
// The rest is modelled. kube-scheduler (lab/sim/kubescheduler) binds each pod as it arrives. Nodes take time to boot
// and are billed by the second from launch. Replacements are ready before a node is drained; an evicted pod waits
// until it fits on another node and continues there. Capacity errors, nodes that never become ready and spot
// interruptions follow from the seed and are the same for every decider.
//
// Equal configurations give equal results: nothing depends on the wall clock or on unseeded randomness.
package sim
