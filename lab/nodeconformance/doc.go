// Command nodeconform runs Kubernetes' own end-to-end suite (k8s.io/kubernetes/test/e2e, unchanged) against pods in
// microVMs: on a cluster of `nodeless up`, in its own network namespace, where a FargateProfile selects every pod.
//
//	make conformance-node
//	make conformance-node ARGS='-focus "Ephemeral Containers"'
//	make conformance-node ARGS='-part 3/20'
//	make conformance-node ARGS=-serial
//
// The suite's images are assembled from programs of the same module and of this machine, under the names that the
// suite uses. This is a separate module, so that the suite's dependencies stay out of the product. A failure is
// expected if expected.tsv lists the spec, or if an event says that Fargate refuses a pod of it. Any other fails the
// run.
package main
