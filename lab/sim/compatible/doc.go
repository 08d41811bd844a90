// Package compatible decides as Karpenter does (v1.14, from its documentation and the outline of its algorithms in
// the project's reference). Simulations use it as their baseline. It is independent code, for pods without
// constraints, and so much faster than the original that it examines every node in every pass and never runs into a
// timeout.
//
// Provisioning is first-fit decreasing: each pod goes to the first node it fits on, else to the NodeClaim with the
// fewest pods that can still grow, else to a new NodeClaim. A NodeClaim keeps every type that fits its pods, and the
// cheapest of these is launched. Consolidation tries the following, in order, and takes the first that does
// something: all empty nodes; the longest prefix of the candidates, found by binary search, that can be removed with
// at most one replacement; the first single node that can be removed with at most one cheaper replacement.
package compatible
