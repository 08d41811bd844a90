package check_test

import (
	"slices"
	"testing"

	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
)

const zones = `
type c4 cpu=4 memory=8Gi pods=30 labels(arch=amd64) offers(a spot 0.10, b spot 0.11, c spot 0.12, a on-demand 0.2) attach(ebs=2)
type c8 cpu=8 memory=16Gi pods=60 labels(arch=amd64) offers(a spot 0.20, b spot 0.21, c spot 0.22) attach(ebs=3)
pool general
`

const threeNodes = zones + `
node na pool=general type=c8 zone=a capacity-type=spot
node nb pool=general type=c8 zone=b capacity-type=spot
node nc pool=general type=c8 zone=c capacity-type=spot
`

// Each case is a hand-made plan that keeps every promise, or breaks the named one.
func TestConstraintsOfPodsAndNodes(t *testing.T) {
	for name, story := range map[string]struct {
		text    string
		make    func(*builder)
		promise string
	}{
		"two pods of a port on two nodes": {
			threeNodes + "pods 2 web cpu=1 ports(80)",
			func(b *builder) { b.place("na", "web-1").place("nb", "web-2") }, "",
		},
		"two pods of a port on one node": {
			threeNodes + "pods 2 web cpu=1 ports(80)",
			func(b *builder) { b.place("na", "web-1", "web-2") }, "host port",
		},
		"a port on another protocol and another address": {
			threeNodes + "pods 1 web cpu=1 ports(10.0.0.1:80)\npods 1 dns cpu=1 ports(80/UDP)\npods 1 other cpu=1 ports(10.0.0.2:80)",
			func(b *builder) { b.place("na", "web-1", "dns-1", "other-1") }, "",
		},
		"a port on every address": {
			threeNodes + "pods 1 web cpu=1 ports(10.0.0.1:80)\npods 1 all cpu=1 ports(80)",
			func(b *builder) { b.launch("c4", "a", "web-1", "all-1") }, "host port",
		},
		"a port that a running pod has": {
			zones + "shape old cpu=1 ports(80)\nnode na pool=general type=c8 zone=a capacity-type=spot runs(x as old)\npods 1 web cpu=1 ports(80)",
			func(b *builder) { b.place("na", "web-1") }, "host port",
		},
		"a port that a finished pod had": {
			zones + "shape old cpu=1 ports(80)\nnode na pool=general type=c8 zone=a capacity-type=spot runs(x as old terminal)\npods 1 web cpu=1 ports(80)",
			func(b *builder) { b.place("na", "web-1") }, "",
		},
		"a port that a daemon will take": {
			zones + "daemon proxy cpu=100m ports(80)\npods 1 web cpu=1 ports(80)",
			func(b *builder) { b.launch("c4", "a", "web-1") }, "host port",
		},
		"a port that a daemon will take on a node that runs": {
			zones + "node na pool=general type=c8 zone=a capacity-type=spot daemon-ports(80)\npods 1 web cpu=1 ports(80)",
			func(b *builder) { b.place("na", "web-1") }, "host port",
		},
		"as many volumes as the node takes": {
			zones + "node na pool=general type=c8 zone=a capacity-type=spot\npods 1 x cpu=1 volume(one driver=ebs) volume(two driver=ebs)\npods 2 y cpu=1 volume(three driver=ebs)",
			func(b *builder) { b.place("na", "x-1", "y-1", "y-2") }, "",
		},
		"one volume more than the node takes": {
			zones + "node na pool=general type=c8 zone=a capacity-type=spot\npods 1 x cpu=1 volume(one driver=ebs) volume(two driver=ebs)\npods 1 y cpu=1 volume(three driver=ebs) volume(four driver=ebs)",
			func(b *builder) { b.place("na", "x-1", "y-1") }, "volume limit",
		},
		"a volume that is attached there already": {
			zones + "shape old cpu=1 volume(one driver=ebs) volume(two driver=ebs) volume(three driver=ebs) volume(four driver=ebs)\n" +
				"node na pool=general type=c8 zone=a capacity-type=spot runs(z as old)\npods 1 x cpu=1 volume(one driver=ebs)",
			func(b *builder) { b.place("na", "x-1") }, "",
		},
		"one volume more than the node takes beside those of running pods": {
			zones + "shape old cpu=1 volume(one driver=ebs) volume(two driver=ebs) volume(three driver=ebs)\n" +
				"node na pool=general type=c8 zone=a capacity-type=spot runs(z as old)\npods 1 x cpu=1 volume(four driver=ebs)",
			func(b *builder) { b.place("na", "x-1") }, "volume limit",
		},
		"one volume more than one of the launch's types takes": {
			zones + "pods 1 x cpu=1 volume(one driver=ebs) volume(two driver=ebs) volume(three driver=ebs)",
			func(b *builder) {
				b.launch("c4", "a", "x-1")
				l := &b.plan.Launches[0]
				l.Types = []string{"c4", "c8"}
				l.Requirements = model.NewRequirements(model.OneOf(model.LabelPool, "general"),
					model.OneOf(model.LabelInstanceType, "c4", "c8"))
			}, "volume limit",
		},
		"volumes on a type that takes them": {
			zones + "pods 1 x cpu=1 volume(one driver=ebs) volume(two driver=ebs) volume(three driver=ebs)",
			func(b *builder) { b.launch("c8", "a", "x-1") }, "",
		},
		"two pods of a volume that one pod may use": {
			threeNodes + "pods 2 x cpu=1 volume(one alone)",
			func(b *builder) { b.place("na", "x-1").place("nb", "x-2") }, "volume in use",
		},
		"a volume that a running pod has for itself": {
			zones + "shape old cpu=1 volume(one alone)\nnode na pool=general type=c8 zone=a capacity-type=spot runs(z as old)\npods 1 x cpu=1 volume(one alone)",
			func(b *builder) { b.launch("c4", "a", "x-1") }, "volume in use",
		},
		"the zone of a volume": {
			threeNodes + "pods 1 x cpu=1 volume(one: zone=a; zone=b)",
			func(b *builder) { b.place("nb", "x-1") }, "",
		},
		"another zone than the volume's": {
			threeNodes + "pods 1 x cpu=1 volume(one: zone=a; zone=b)",
			func(b *builder) { b.place("nc", "x-1") }, "volume",
		},
		"a launch outside the volume's zone": {
			zones + "pods 1 x cpu=1 volume(one: zone=a)",
			func(b *builder) { b.launch("c4", "b", "x-1") }, "volume",
		},
		"a launch that may be outside the volume's zone": {
			zones + "pods 1 x cpu=1 volume(one: zone=a)",
			func(b *builder) { b.launch("c4", "", "x-1") }, "volume",
		},
		"a pod for a node by name": {
			threeNodes + "pods 1 x cpu=1 require(node=nb)",
			func(b *builder) { b.place("nb", "x-1") }, "",
		},
		"a pod for another node by name": {
			threeNodes + "pods 1 x cpu=1 require(node=nb)",
			func(b *builder) { b.place("na", "x-1") }, "constraints",
		},
		"no new machine has a name": {
			zones + "pods 1 x cpu=1 require(node=nb)",
			func(b *builder) { b.launch("c4", "a", "x-1") }, "constraints",
		},
		"any machine but one by name": {
			threeNodes + "pods 1 x cpu=1 require(node!=nb)",
			func(b *builder) { b.launch("c4", "a", "x-1") }, "",
		},
		"a contradiction is not the label's absence": {
			threeNodes + "pods 1 x cpu=1 require(rack=1, rack=2)",
			func(b *builder) { b.place("na", "x-1") }, "constraints",
		},
		"the fee of a node counts for the bound": {
			zones + "pods 1 x cpu=1\npolicy node-fee=0.05",
			func(b *builder) { b.launch("c4", "a", "x-1").plan.LowerBound = 150_000 }, "",
		},
		"a bound above price and fee": {
			zones + "pods 1 x cpu=1\npolicy node-fee=0.05",
			func(b *builder) { b.launch("c4", "a", "x-1").plan.LowerBound = 150_001 }, "lower bound",
		},
		"a pod below the cut-off uses room that is there": {
			threeNodes + "pods 1 x cpu=1 priority=-1\npolicy cutoff=0",
			func(b *builder) { b.place("na", "x-1") }, "",
		},
		"a pod below the cut-off gets no machine": {
			threeNodes + "pods 1 x cpu=1 priority=-1\npolicy cutoff=0",
			func(b *builder) { b.launch("c4", "a", "x-1") }, "priority",
		},
		"a blocked pod": {
			threeNodes + `pods 1 x cpu=1 blocked("persistentVolumeClaim data does not exist")`,
			func(b *builder) { b.place("na", "x-1") }, "blocked",
		},
	} {
		t.Run(name, func(t *testing.T) { judged(t, story.text, story.make, story.promise) })
	}
}

// judged builds a plan and checks the verdict of check.Plan: the named promise is the only broken one.
func judged(t *testing.T, text string, make func(*builder), promise string) {
	t.Helper()
	b := build(t, text)
	make(b)
	found := check.Plan(b.s, b.policy, b.plan)
	switch {
	case promise == "" && len(found) > 0:
		t.Errorf("the plan is good, but: %v", found)
	case promise != "" && (len(found) == 0 ||
		slices.ContainsFunc(found, func(v check.Violation) bool { return v.Promise != promise })):
		t.Errorf("want a broken %q alone, got %v", promise, found)
	}
}
