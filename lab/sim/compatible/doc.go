// Package compatible decides as Karpenter does (v1.14, from its documentation and the outline of its algorithms in
// the project's reference): the baseline that simulations compare with. It is code of its own, for pods without
// constraints, and far faster than the original, so that the baseline looks at every machine in every pass and never
// runs into a timeout.
//
// Provisioning is first-fit decreasing: each pod goes to the first machine with room, else to the claim with the
// fewest pods that can still grow, else to a new claim; a claim keeps every type that holds it, and the cheapest one
// is launched. Consolidation tries, in this order, and takes the first that does something: all empty machines; the
// longest prefix of the candidates, found by binary search, that goes with at most one replacement; the first single
// machine that goes with at most one cheaper replacement.
package compatible
