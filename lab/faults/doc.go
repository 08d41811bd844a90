// Package faults holds the fault test. The whole controller (cluster, cycle, apply, nodeclaim, status, the AWS
// provider) runs against an in-memory API server, a simulated region, kube-scheduler and the controllers of
// ReplicaSets and PodDisruptionBudgets, all on the virtual time of a testing/synctest bubble. Meanwhile calls
// conflict, fail, hang or lose their answers; watches break, repeat and lag; capacity runs out; and the process dies
// at a chosen call.
//
// A run is determined by a seed and the number of the call at which the controller dies; `make faults` does many
// runs.
package faults
