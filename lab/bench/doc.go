// Command bench measures the engine against the reference it aims to beat: the scheduler of sigs.k8s.io/karpenter,
// run as a library in the same process, on the same pods and offerings. It also measures cost above the certified
// lower bound on public traces, and how time grows with pods and nodes.
//
//	make bench-engine
//	make bench-traces
//	make bench-growth
//
// This is a separate module, so that Karpenter's dependencies stay out of the product. docs/benchmarks.md has the
// figures.
package main
