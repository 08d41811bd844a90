// Package codec writes snapshots and plans down: as JSON, for cases that are saved and read by programs, and as scenarios,
// a text that people write and read.
//
// A scenario is a cluster, a line of dashes, and the plan that is expected of it. Each line of the cluster begins with
// what it declares; then come words, amounts as name=value, and groups in round brackets. # begins a comment.
//
//	resource example.com/fpga                    # another resource than the well-known ones
//	type c2 cpu=2 memory=4Gi pods=29 allocatable(cpu=1900m) labels(arch=amd64) offers(a spot 0.04, b on-demand 0.1 out)
//	pool general weight=10 require(capacity-type=spot|on-demand) taint(gpu=true:NoSchedule) limit(cpu=10, nodes=3)
//	     usage(cpu=4, nodes=2) types(c2, c4) not-ready(why) disrupt(after=30s, never, empty=1, drifted=2)
//	daemon proxy cpu=100m tolerate(*)
//	pods 100 web cpu=1 memory=1Gi require(arch=arm64) any(zone=a) any(zone=b) prefer(10 zone=c) tolerate(gpu) priority=5
//	     unmodelled(podAffinity)
//	node n1 pool=general type=c2 zone=a capacity-type=spot price=0.04 state=initialized used(cpu=1) labels(team=red)
//	     taint(…) ready=10m event=5m runs(web, proxy daemon, job terminal, db do-not-disrupt) drifted=why
//	     deleting cordoned do-not-disrupt unmanaged
//	policy max-types=3 max-steps=100
//
// A line that begins with white space continues the one before. A pool without types(…) has every type that is declared.
// A node has the size and the labels of its type; in flight, only the labels that are given. ready and event are how long
// ago it was. A requirement is key=a|b (In), key!=a|b (NotIn), key (Exists), !key (DoesNotExist), key>4, key>=4, key<4 or
// key<=4, each with @n for minValues n. The keys arch, os, zone, capacity-type, type and pool stand for the well-known
// labels.
package codec
