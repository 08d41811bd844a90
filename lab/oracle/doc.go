// Package oracle holds only tests: kube-scheduler's own plugins, run as a library, judge the engine's rules.
//
// A case is a small random cluster of real API objects with one pending pod. The truth is what the PreFilter and
// Filter plugins of k8s.io/kubernetes return for the pod and each node. The claim is what controller/cluster,
// controller/translate and engine/rules derive from the same objects. They must agree on every node, and the rule
// that the claim names must be one of those for which the truth refuses.
package oracle
