// Package sim replays a trace of pods over days on virtual time: a discrete-event simulation of a cluster whose
// machines are launched and taken away by the very entry points that production uses (engine.Provision,
// engine.Disrupt, engine.StillTrue, engine/check), or by a Karpenter-like baseline (lab/sim/compatible).
//
// What the rest of the world does is modelled: kube-scheduler binds each pod as it comes, to free room first and by its
// default scores; a machine takes its time to boot; machines are billed by the second, from their launch;
// replacements are ready before a victim is drained; an evicted pod waits for another place and runs on there.
// Capacity errors, machines that never get ready and spot interruptions come by seed, the same for whoever decides.
//
// Equal configurations give equal results: nothing depends on the wall clock or on chance that is not seeded.
package sim
