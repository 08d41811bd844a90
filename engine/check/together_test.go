package check_test

import "testing"

const running = `
shape guard cpu=1 labels(app=guard) anti(hostname: app=web)
shape warden cpu=1 labels(app=warden) anti(zone: app=web)
shape db cpu=1 labels(app=db)
`

// Constraints between pods: each case is a hand-made plan whose pods can be bound one after another, or which breaks
// the named promise.
func TestPodsThatDependOnEachOther(t *testing.T) {
	for name, story := range map[string]struct {
		text    string
		make    func(*builder)
		promise string
	}{
		"away from each other, on two nodes": {
			threeNodes + "pods 2 web cpu=1 labels(app=web) anti(hostname: app=web)",
			func(b *builder) { b.place("na", "web-1").place("nb", "web-2") }, "",
		},
		"away from each other, on one node": {
			threeNodes + "pods 2 web cpu=1 labels(app=web) anti(hostname: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2") }, "pod anti-affinity",
		},
		"away from each other, in one launch": {
			zones + "pods 2 web cpu=1 labels(app=web) anti(hostname: app=web)",
			func(b *builder) { b.launch("c4", "", "web-1", "web-2") }, "pod anti-affinity",
		},
		"away from each other, in two launches of open zones": {
			zones + "pods 2 web cpu=1 labels(app=web) anti(hostname: app=web)",
			func(b *builder) { b.launch("c4", "", "web-1").launch("c4", "", "web-2") }, "",
		},
		"a running pod keeps others away": {
			zones + running + "node na pool=general type=c8 zone=a capacity-type=spot runs(g as guard)\npods 1 web cpu=1 labels(app=web)",
			func(b *builder) { b.place("na", "web-1") }, "pod anti-affinity",
		},
		"a running pod keeps others out of its zone": {
			zones + running + "node na pool=general type=c8 zone=a capacity-type=spot runs(g as warden)\npods 1 web cpu=1 labels(app=web)",
			func(b *builder) { b.launch("c4", "a", "web-1") }, "pod anti-affinity",
		},
		"a running pod does not keep others out of another zone": {
			zones + running + "node na pool=general type=c8 zone=a capacity-type=spot runs(g as warden)\npods 1 web cpu=1 labels(app=web)",
			func(b *builder) { b.launch("c4", "b", "web-1") }, "",
		},
		"the zone of a launch that somebody may keep away is open": {
			zones + running + "node na pool=general type=c8 zone=a capacity-type=spot runs(g as warden)\npods 1 web cpu=1 labels(app=web)",
			func(b *builder) { b.launch("c4", "", "web-1") }, "pod anti-affinity",
		},
		"a launched pod keeps a placed one away": {
			threeNodes + "pods 1 warden cpu=1 labels(app=warden) anti(zone: app=web)\npods 1 web cpu=1 labels(app=web)",
			func(b *builder) { b.launch("c4", "a", "warden-1").place("na", "web-1") }, "pod anti-affinity",
		},
		"two that ran together before stay": {
			zones + running + "node na pool=general type=c8 zone=a capacity-type=spot runs(g as guard, w as web)\nshape web cpu=1 labels(app=web)\npods 1 x cpu=1 labels(app=x)",
			func(b *builder) { b.place("na", "x-1") }, "",
		},
		"away from pods of another namespace": {
			threeNodes + "namespace shop labels(team=a)\npods 1 web cpu=1 ns=shop labels(app=web)\npods 1 x cpu=1 anti(hostname: app=web in {team=a})",
			func(b *builder) { b.place("na", "web-1", "x-1") }, "pod anti-affinity",
		},
		"other namespaces are not looked at": {
			threeNodes + "namespace shop labels(team=b)\npods 1 web cpu=1 ns=shop labels(app=web)\npods 1 x cpu=1 anti(hostname: app=web in {team=a})",
			func(b *builder) { b.place("na", "web-1", "x-1") }, "",
		},
		"by a label that the node has not": {
			threeNodes + "pods 2 web cpu=1 labels(app=web) anti(rack: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2") }, "",
		},
		"away by zone in two launches of open zones": {
			zones + "pods 2 web cpu=1 labels(app=web) anti(zone: app=web)",
			func(b *builder) { b.launch("c4", "", "web-1").launch("c4", "", "web-2") }, "domain open",
		},
		"away by zone where nobody else is": {
			zones + "pods 1 web cpu=1 labels(app=web) anti(zone: app=web)",
			func(b *builder) { b.launch("c4", "", "web-1") }, "",
		},
		"away by capacity type, which one offering leaves": {
			zones + "pods 1 web cpu=1 labels(app=web) anti(capacity-type: app=web)",
			func(b *builder) { b.launch("c4", "a", "web-1") }, "",
		},
		"by the launch's own label": {
			zones + "pods 2 web cpu=1 labels(app=web) anti(rack: app=web)",
			func(b *builder) {
				b.launch("c4", "a", "web-1").label("rack", "1").launch("c4", "a", "web-2").label("rack", "2")
			}, "",
		},
		"by the launch's own label, the same": {
			zones + "pods 2 web cpu=1 labels(app=web) anti(rack: app=web)",
			func(b *builder) {
				b.launch("c4", "a", "web-1").label("rack", "1").launch("c4", "a", "web-2").label("rack", "1")
			}, "pod anti-affinity",
		},
		"near a running pod": {
			zones + running + "node na pool=general type=c8 zone=a capacity-type=spot runs(d as db)\npods 1 web cpu=1 affinity(zone: app=db)",
			func(b *builder) { b.launch("c4", "a", "web-1") }, "",
		},
		"far from a running pod": {
			zones + running + "node na pool=general type=c8 zone=a capacity-type=spot runs(d as db)\npods 1 web cpu=1 affinity(zone: app=db)",
			func(b *builder) { b.launch("c4", "b", "web-1") }, "pod affinity",
		},
		"near a pod that is nowhere": {
			threeNodes + "pods 1 web cpu=1 affinity(zone: app=db)",
			func(b *builder) { b.place("na", "web-1") }, "pod affinity",
		},
		"near pods that are launched for with it": {
			zones + "pods 1 web cpu=1 labels(app=web) affinity(zone: app=db)\npods 1 db cpu=1 labels(app=db) affinity(hostname: app=cache)\npods 1 cache cpu=1 labels(app=cache)",
			func(b *builder) { b.launch("c4", "a", "web-1").launch("c4", "a", "db-1", "cache-1") }, "",
		},
		"a circle without a first": {
			zones + "pods 1 web cpu=1 labels(app=web) affinity(zone: app=db)\npods 1 db cpu=1 labels(app=db) affinity(zone: app=web)",
			func(b *builder) { b.launch("c4", "a", "web-1", "db-1") }, "pod affinity",
		},
		"the first of a group": {
			threeNodes + "pods 3 web cpu=1 labels(app=web) affinity(zone: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2", "web-3") }, "",
		},
		"a group in two zones": {
			threeNodes + "pods 3 web cpu=1 labels(app=web) affinity(zone: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2").place("nb", "web-3") }, "pod affinity",
		},
		"a group that follows others it matches, which come later": {
			threeNodes + "pods 1 web cpu=1 labels(app=web) affinity(zone: app=web)\npods 1 other cpu=1 labels(app=web)",
			func(b *builder) { b.place("na", "web-1").place("nb", "other-1") }, "",
		},
		"two firsts, of which one must go before": {
			threeNodes + "pods 1 a-web cpu=1 labels(app=web) affinity(zone: app=web)\npods 1 b-all cpu=1 labels(app=db) affinity(zone: app=web|db)",
			func(b *builder) { b.place("na", "a-web-1").place("nb", "b-all-1") }, "",
		},
		"near by zone in a launch of open zone": {
			zones + "pods 1 web cpu=1 labels(app=web) affinity(zone: app=web)",
			func(b *builder) { b.launch("c4", "", "web-1") }, "domain open",
		},
		"near by a label that the node has not": {
			threeNodes + "pods 1 web cpu=1 labels(app=web) affinity(rack: app=web)",
			func(b *builder) { b.place("na", "web-1") }, "pod affinity",
		},
		"a skew of one": {
			threeNodes + "pods 5 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2").place("nb", "web-3", "web-4").place("nc", "web-5") }, "",
		},
		"a skew of two, where one is allowed": {
			threeNodes + "pods 4 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2").place("nb", "web-3", "web-4") }, "topology spread",
		},
		"who is placed is bound before a launch makes a domain of its own": {
			zones + "node na pool=general type=c8 zone=a capacity-type=spot\npods 3 web cpu=1 labels(app=web) spread(zone skew=1: app=web)\npods 1 x cpu=1",
			func(b *builder) { b.place("na", "web-1", "web-2", "web-3").launch("c4", "b", "x-1") }, "",
		},
		"a launch makes a domain of its own": {
			zones + "pods 3 web cpu=1 labels(app=web) spread(zone skew=1: app=web)\npods 1 x cpu=1",
			func(b *builder) { b.launch("c4", "a", "web-1", "web-2", "web-3").launch("c4", "b", "x-1") }, "topology spread",
		},
		"fewer domains than the least": {
			zones + "node na pool=general type=c8 zone=a capacity-type=spot\npods 2 web cpu=1 labels(app=web) spread(zone skew=1 min=2: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2") }, "topology spread",
		},
		"as many domains as the least": {
			zones + "node na pool=general type=c8 zone=a capacity-type=spot\npods 3 web cpu=1 labels(app=web) spread(zone skew=1 min=2: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2").launch("c4", "b", "web-3") }, "",
		},
		"hosts, one each": {
			threeNodes + "pods 4 web cpu=1 labels(app=web) spread(hostname skew=1: app=web)",
			func(b *builder) {
				b.place("na", "web-1").place("nb", "web-2").place("nc", "web-3").launch("c4", "a", "web-4")
			}, "",
		},
		"hosts, two where one has none": {
			threeNodes + "pods 4 web cpu=1 labels(app=web) spread(hostname skew=1: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2").place("nb", "web-3").launch("c4", "a", "web-4") },
			"topology spread",
		},
		"zones that the pod may not use do not count": {
			threeNodes + "pods 4 web cpu=1 labels(app=web) require(zone=a|b) spread(zone skew=1: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2").place("nb", "web-3", "web-4") }, "",
		},
		"zones that the pod may not use, but which count": {
			threeNodes + "pods 4 web cpu=1 labels(app=web) require(zone=a|b) spread(zone skew=1 any-node: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2").place("nb", "web-3", "web-4") }, "topology spread",
		},
		"tainted nodes count": {
			threeNodes + "node nd pool=general type=c8 zone=d capacity-type=spot taint(gpu=true:NoSchedule)\npods 6 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			func(b *builder) {
				b.place("na", "web-1", "web-2").place("nb", "web-3", "web-4").place("nc", "web-5", "web-6")
			}, "topology spread",
		},
		"tainted nodes do not count": {
			threeNodes + "node nd pool=general type=c8 zone=d capacity-type=spot taint(gpu=true:NoSchedule)\npods 6 web cpu=1 labels(app=web) spread(zone skew=1 untainted: app=web)",
			func(b *builder) {
				b.place("na", "web-1", "web-2").place("nb", "web-3", "web-4").place("nc", "web-5", "web-6")
			}, "",
		},
		"a preference is not judged": {
			threeNodes + "pods 3 web cpu=1 labels(app=web) spread(zone skew=1 soft: app=web)",
			func(b *builder) { b.place("na", "web-1", "web-2", "web-3") }, "",
		},
		"running pods count": {
			zones + "shape old cpu=1 labels(app=web)\nnode na pool=general type=c8 zone=a capacity-type=spot runs(x as old)\nnode nb pool=general type=c8 zone=b capacity-type=spot\n" +
				"pods 1 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			func(b *builder) { b.place("na", "web-1") }, "topology spread",
		},
		"running pods that leave do not": {
			zones + "shape old cpu=1 labels(app=web)\nnode na pool=general type=c8 zone=a capacity-type=spot runs(x as old)\nnode nb pool=general type=c8 zone=b capacity-type=spot\n" +
				"pods 1 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			func(b *builder) { b.s.Nodes[0].Pods[0].Terminating = true; b.place("na", "web-1") }, "",
		},
		"pods that only count help a stuck spread": {
			threeNodes + "pods 4 web cpu=1 labels(app=web) spread(zone skew=1: app=web)\npods 3 other cpu=1 labels(app=web)",
			func(b *builder) {
				b.place("na", "web-1", "web-2").place("nb", "web-3", "web-4").place("nc", "other-1", "other-2", "other-3")
			}, "",
		},
		"hosts and zones together": {
			zones + "pods 6 web cpu=1 labels(app=web) spread(zone skew=1: app=web) spread(hostname skew=1: app=web)",
			func(b *builder) {
				b.launch("c4", "a", "web-1").launch("c4", "a", "web-2").launch("c4", "b", "web-3").launch("c4", "b", "web-4")
				b.launch("c4", "c", "web-5").launch("c4", "c", "web-6")
			}, "",
		},
		"a spread by zone in a launch of open zone": {
			zones + "pods 1 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			func(b *builder) { b.launch("c4", "", "web-1") }, "domain open",
		},
		"a machine in flight whose zone is open": {
			zones + "node f pool=general type=c8 state=in-flight cpu=8 memory=16Gi pods=60 labels(zone=a|b)\npods 1 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			func(b *builder) { b.place("f", "web-1") }, "domain open",
		},
		"a machine in flight whose zone is known": {
			zones + "node f pool=general type=c8 state=in-flight cpu=8 memory=16Gi pods=60 labels(zone=a)\npods 1 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			func(b *builder) { b.place("f", "web-1") }, "",
		},
		"a machine in flight is a host": {
			zones + "node f pool=general type=c8 state=in-flight cpu=8 memory=16Gi pods=60 labels(zone=a|b)\npods 2 web cpu=1 labels(app=web) anti(hostname: app=web)",
			func(b *builder) { b.place("f", "web-1").launch("c4", "a", "web-2") }, "",
		},
	} {
		t.Run(name, func(t *testing.T) { judged(t, story.text, story.make, story.promise) })
	}
}
