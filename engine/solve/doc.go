// Package solve decides where pending pods go: to nodes that exist, or to launches that it chooses by price.
//
// An attempt at a plan takes these steps. Pods of one shape are a group, and groups go largest first.
//
//  1. Pods keep the existing nodes to which an earlier plan nominated them, and the others go to existing nodes with
//     room (place.go).
//  2. Groups for which no pool can launch anything are set aside (infeasible.go).
//  3. Groups that are spread over zones or must be near others in a zone are divided among zones, cheapest first
//     (zones*.go).
//  4. Pods that may not share a node become slots and conflict groups (separate.go).
//  5. Tier by tier of pool weight, package binpack chooses offerings for all groups at once: column generation and
//     neighbourhood search over variable-sized vectors (purchase.go, buy.go). Offerings that another one dominates are
//     left out.
//  6. The few pods whose constraints do not fit this form, such as affinity to pods on the same node, are placed one by
//     one by package firstfit, also on the nodes just planned (leftover.go).
//  7. Each planned node becomes a launch: its requirements, the types that may stand in for the chosen one, and its ID
//     (node.go, offerings.go, launch.go).
//
// An attempt may show that its assumptions were wrong: a zone is used that the spreads did not account for, a zone
// has no capacity, or less important pods used up the limits. This feedback goes into the next attempt (feedback.go).
// Plans that are small and not proven good are compared with the plan of firstfit alone (fallback.go), and a plan
// that honours preferences is chosen if these are worth its cost (preferred.go).
//
// Invariants: every placement was allowed by rules.State when it was made, with all earlier ones in place.
// problem.rooms is what the pools' limits leave after all nodes planned so far, each charged with the largest type it
// may become. Work is counted in steps and all orders have ties broken by keys: equal snapshots have equal plans. With
// Policy.Solver FirstFit, package firstfit places everything.
package solve
