// Command conform runs Karpenter's own black-box suites (sigs.k8s.io/karpenter/test/suites, unchanged) against
// Nodeless: several clusters side by side, each in a network namespace of its own that has nothing but loopback.
//
//	make conformance
//	make conformance ARGS='-focus Drift'
//	make conformance-performance
//
// In each namespace run `nodeless up --controller=false` (control plane, simulated region, node simulator), `nodeless
// run` (the controller under test) and, one after the other, the suite's test binary for a single spec. It is a
// module of its own, so that the suites' dependencies stay out of the product. docs/conformance.md has the results.
package main
