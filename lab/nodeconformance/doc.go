// Command nodeconform runs Kubernetes' own end-to-end suite (k8s.io/kubernetes/test/e2e, unchanged) against pods in
// microVMs: on a cluster of `nodeless up`, in a network namespace of its own, where a FargateProfile selects every pod.
//
//	make conformance-node
//	make conformance-node ARGS='-focus "Ephemeral Containers"'
//	make conformance-node ARGS='-part 3/20'
//
// The suite's images are made of programs of the same module and of this machine's, under the names that the suite
// asks for. It is a module of its own, so that the suite's dependencies stay out of the product. expected.tsv lists
// the specs that fail and why; any other failure fails the run.
package main
