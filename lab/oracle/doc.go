// Package oracle holds tests only: kube-scheduler's own plugins, run as a library, judge the engine's rules.
//
// A case is a small random cluster of real API objects with one pod that waits. The truth is what the PreFilter and
// Filter plugins of k8s.io/kubernetes say of the pod and each node. The claim is what controller/cluster,
// controller/translate and engine/rules make of the same objects. They must agree on every node, and the rule that
// the claim names must be one by which the truth refuses.
package oracle
