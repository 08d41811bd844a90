// Package solve is the search: it gives pending pods places on machines that exist, and chooses the machines to launch for
// the rest.
//
// Pods of one shape are a group. Groups go first where there is room (place). Of the rest, pods that must be spread over
// zones or near others in a zone are given their zones (zones), what keeps pods apart on one machine becomes slots (apart),
// and engine/solve/internal/binpack buys machines for all of them together (buy). The few whose constraints do not fit this form, such as
// affinity to pods on the same machine, are placed one by one by engine/solve/internal/firstfit, also on the machines just planned (rest).
// With Policy.Solver FirstFit engine/solve/internal/firstfit places everything.
package solve
