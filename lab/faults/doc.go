// Package faults holds the fault test: the whole controller (cluster, cycle, apply, nodeclaim, status, the AWS
// provider) runs against an API server in memory, a simulated region, kube-scheduler and the controllers of
// ReplicaSets and PodDisruptionBudgets, all on the virtual time of a testing/synctest bubble, while calls conflict,
// fail, hang or lose their answers, watches break, repeat and lag, capacity runs out, and the process dies at a call
// of one's choice.
//
// A run is described by a seed and the number of the call at which the controller dies; `make faults` runs many.
package faults
