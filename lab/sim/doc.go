// Package sim replays a trace of pods over days on virtual time: a discrete-event simulation of a cluster. The
// controller's own driver (controller/cycle) decides in it which nodes are launched and removed, with the engine's
// functions that production uses or with a Karpenter-like baseline (lab/sim/compatible).
//
// The rest is modelled. kube-scheduler (lab/sim/kubescheduler) binds each pod as it comes. Nodes take time to boot and
// are billed by the second, from their launch. Replacements are ready before a node is drained; an evicted pod waits
// for another place and continues there. Capacity errors, nodes that never become ready and spot interruptions follow
// from the seed, whoever decides.
//
// Equal configurations give equal results: nothing depends on the wall clock or on chance that is not seeded.
package sim
