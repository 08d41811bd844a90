// Command conform runs Karpenter's own black-box suites (sigs.k8s.io/karpenter/test/suites, unchanged) against
// Nodeless, on several clusters side by side, each in its own network namespace with only a loopback device.
//
//	make conformance
//	make conformance ARGS='-focus Drift'
//	make conformance-performance
//
// Each namespace runs `nodeless up --controller=false` (control plane, simulated region, node simulator), `nodeless
// run` (the controller under test) and, one after another, the suite's test binary for a single spec. This is a
// separate module, so that the suites' dependencies stay out of the product. docs/conformance.md has the results.
package main
