package suggest_test

import (
	"strconv"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/engine/suggest"
	"github.com/nodeless/nodeless/lab/scenario"
)

const types = `
type c2 cpu=2 memory=4Gi pods=29 allocatable(cpu=1930m, memory=3Gi) labels(arch=amd64,
	family=c) offers(a on-demand 0.1, b on-demand 0.1)
type g8 cpu=8 memory=32Gi pods=58 allocatable(cpu=7910m, memory=29Gi) labels(arch=arm64,
	family=g) offers(a on-demand 0.32, a spot 0.15, b on-demand 0.32)
type m48 cpu=192 memory=768Gi pods=737 allocatable(cpu=191450m, memory=740Gi) labels(arch=amd64,
	family=m) offers(b on-demand 9.7)
`

// of returns the change suggested for the first unplaced pod.
func of(t *testing.T, cluster string) model.Change {
	t.Helper()
	s, policy, err := scenario.Parse(types + cluster)
	if err != nil {
		t.Fatal(err)
	}
	plan := engine.Provision(s, policy)
	if len(plan.Unplaced) == 0 {
		t.Fatalf("every pod has its place:\n%s", scenario.FormatPlan(s, plan))
	}
	reason := plan.Unplaced[0].Reason
	for i := range s.Pending {
		if s.Pending[i].PodKey == plan.Unplaced[0].Pod {
			return suggest.Smallest(s, &s.Shapes[s.Pending[i].Shape], nil, nil, &reason)
		}
	}
	t.Fatal("the pod is not in the snapshot")
	return model.Change{}
}

func TestSmallest(t *testing.T) {
	for want, cluster := range map[string]string{
		"would fit if limit cpu of pool small were 2 instead of 1":                                                "pool small limit(cpu=1)\npods 1 web cpu=1",
		"would fit if limit memory of pool small were 14Gi instead of 11Gi":                                       "pool small limit(memory=11Gi) usage(memory=10Gi)\npods 1 web cpu=1",
		"would fit if limit nodes of pool small were 4 instead of 3":                                              "pool small limit(nodes=3) usage(nodes=3)\npods 1 web cpu=1",
		"would fit in pool gpu if it tolerated gpu=true:NoSchedule":                                               "pool gpu taint(gpu=true:NoSchedule)\npods 1 web cpu=1",
		"would fit in pool p if topology.kubernetes.io/zone could be b (now a)":                                   "pool p\npods 1 web cpu=10 require(zone=a)",
		"would fit in pool p if kubernetes.io/arch could be arm64 (now s390x); its image must be built for arm64": "pool p require(family=g)\npods 1 web cpu=1 require(arch=s390x)",
		"would fit in pool p if cores could be 192 (now >= 193)":                                                  "type c192 cpu=4 pods=9 labels(cores=192) offers(a spot 1)\ntype c64 cpu=4 pods=9 labels(cores=64) offers(a spot 0.5)\npool p\npods 1 web cpu=1 require(cores>192)",
		"would fit in pool p without team red":                                                                    "pool p\npods 1 web cpu=1 require(team=red)",
		"would fit in pool p if it requested memory 739Gi instead of 800Gi":                                       "pool p\ndaemon log memory=200Mi\npods 1 db cpu=1 memory=800Gi",
		"would fit in pool p if it requested cpu 191450m instead of 200":                                          "pool p\npods 1 db cpu=200 memory=700Gi",
		"would fit in pool p once x1 has capacity again":                                                          "type x1 cpu=400 memory=1Ti pods=100 offers(a spot 3 out)\npool p\npods 1 db cpu=300 memory=800Gi",
		"would fit in pool p once the pool is ready":                                                              "pool p not-ready(no subnets)\npods 1 web cpu=1",
		"would fit if minValues of family of pool p were 3 instead of 4":                                          "pool p require(family@4)\npods 1 web cpu=1",
		"would fit in pool p without host port TCP 80":                                                            "pool p\ndaemon proxy cpu=100m ports(80)\npods 1 web cpu=1 ports(80, 81)",
		"would fit in pool p if it had 2 volumes of driver ebs instead of 3":                                      "type v cpu=4 pods=9 offers(a spot 1) attach(ebs=2)\npool p types(v)\npods 1 web cpu=1 volume(x driver=ebs) volume(y driver=ebs) volume(z driver=ebs)",
		"would fit in pool p if its priority were -10 or higher":                                                  "policy cutoff=-10\npool p\npods 1 web cpu=1 priority=-20",
		"would fit in pool p once pod default/db-1, the only pod that may use volume x, has ended":                "pool p\nshape db cpu=1 volume(x alone)\nnode n1 pool=p type=c2 zone=a capacity-type=on-demand state=initialized runs(db-1 as db)\npods 1 web cpu=1 volume(x alone)",
		"would fit if requirement topology.kubernetes.io/zone of pool p also allowed b (now a)":                   "pool p require(zone=a)\npods 1 db cpu=10 memory=100Gi",
	} {
		if got := reason.Change(of(t, cluster)); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", cluster, got, want)
		}
	}
}

func TestNoChangeHelps(t *testing.T) {
	for _, cluster := range []string{
		"pool p taint(a:NoSchedule) taint(b:NoSchedule)\npods 1 web cpu=1",
		"pool p limit(cpu=1, memory=1Gi)\npods 1 web cpu=1",
		"pool p\npods 1 db cpu=1000 memory=1000Gi",
		"pool p\npods 1 db cpu=1 nvidia.com/gpu=1",
		"pool p\npods 1 db cpu=1 unmodelled(resourceClaims)",
		"pool p taint(a:NoSchedule)\ndaemon proxy cpu=100m ports(80) tolerate(*)\npods 1 web cpu=1 ports(80)",
		"pool p require(family=none)\npods 1 db cpu=1 require(family=c, arch=arm64)",
	} {
		if got := of(t, cluster); got != (model.Change{}) {
			t.Errorf("%s\nchange %+v, want none", cluster, got)
		}
	}
}

// With running pods: a node is suggested only if the pod could be bound there.
func TestChangesKeepConstraintsOnOtherPods(t *testing.T) {
	const nodes = `
node n1 pool=p type=c2 zone=a capacity-type=on-demand state=initialized runs(web-1 as web, db-1 as db)
node n2 pool=p type=c2 zone=b capacity-type=on-demand state=initialized runs(web-2 as web)
shape db labels(app=db) cpu=1
`
	limit, memory := model.Reason{Rule: model.RuleLimit}, model.Reason{Rule: model.RuleResource}
	for _, c := range []struct {
		cluster string
		reason  model.Reason
		want    string
	}{
		{
			"pool p limit(cpu=4) usage(cpu=4)\npods 3 web cpu=1 labels(app=web) spread(zone skew=1: app=web)" + nodes, limit,
			"would fit if limit cpu of pool p were 6 instead of 4",
		},
		{
			"pool p require(family=g, zone=a) limit(cpu=4) usage(cpu=4)\npods 3 web cpu=1 labels(app=web) affinity(zone: app=db)" + nodes, limit,
			"would fit if limit cpu of pool p were 12 instead of 4; its image must be built for arm64",
		},
		{
			"pool p require(zone=b) limit(cpu=4) usage(cpu=4)\npods 3 web cpu=1 labels(app=web) affinity(zone: app=db)" +
				nodes, limit,
			"",
		},
		{
			"pool p\npods 3 web cpu=1 memory=800Gi labels(app=web) anti(zone: app=db)" + nodes, memory,
			"would fit in pool p if it requested memory 740Gi instead of 800Gi",
		},
		{
			"pool p\npods 3 web cpu=1 memory=800Gi labels(app=web) affinity(zone: app=db)" + nodes, memory,
			"would fit in pool p if it requested memory 29Gi instead of 800Gi; its image must be built for arm64",
		},
		{
			"pool p\npods 3 web cpu=1 memory=800Gi labels(app=web) affinity(hostname: app=db)" + nodes, memory,
			"",
		},
		{
			"pool p\npods 3 web cpu=1 labels(app=web) anti(zone: app=web)" + nodes,
			model.Reason{
				Rule:   model.RuleAntiAffinity,
				Object: model.LabelZone,
			},
			"would fit in pool p if its pod anti-affinity on topology.kubernetes.io/zone were preferred, not required",
		},
		{
			"pool p\npods 3 web cpu=1 labels(app=web) affinity(hostname: app=cache)" + nodes,
			model.Reason{Rule: model.RuleAffinity, Object: model.LabelHostname},
			"would fit in pool p if its pod affinity on kubernetes.io/hostname were preferred, not required",
		},
		{
			"pool p require(zone=a)\npods 3 web cpu=1 labels(app=web) spread(zone skew=1: app=web)" + nodes,
			model.Reason{Rule: model.RuleSpread, Object: model.LabelZone},
			"would fit in pool p if its topology spread over topology.kubernetes.io/zone were ScheduleAnyway, not DoNotSchedule",
		},
		{
			"pool p\npods 3 web cpu=1 labels(app=web) anti(zone: app=web) affinity(hostname: app=cache)" + nodes,
			model.Reason{Rule: model.RuleAntiAffinity, Object: model.LabelZone},
			"",
		},
		{
			"pool p\npods 3 web cpu=1 labels(app=web)\nshape loner labels(app=loner) cpu=1 anti(zone: app=web)\nnode n3 pool=p type=c2 zone=a capacity-type=on-demand state=initialized runs(loner-1 as loner)\nnode n4 pool=p type=c2 zone=b capacity-type=on-demand state=initialized runs(loner-2 as loner)" + nodes,
			model.Reason{Rule: model.RuleAntiAffinity, Object: model.LabelZone},
			"",
		},
		{
			"pool p require(zone=a)\npods 1 web cpu=1 volume(data: zone=b)" + nodes,
			model.Reason{Rule: model.RuleVolume},
			"would fit if requirement topology.kubernetes.io/zone of pool p also allowed b (now a)",
		},
		{
			"pool p\npods 1 web cpu=1 blocked(\"persistentVolumeClaim data does not exist\")" + nodes,
			model.Reason{Rule: model.RuleBlocked},
			"would fit in pool p if persistentVolumeClaim data were created",
		},
		{
			"pool p\npods 1 web cpu=1 memory=1Ti blocked(\"persistentVolumeClaim data does not exist\")" + nodes,
			model.Reason{Rule: model.RuleBlocked},
			"",
		},
	} {
		s, _, err := scenario.Parse(types + c.cluster)
		if err != nil {
			t.Fatalf("%s: %v", c.cluster, err)
		}
		got := reason.Change(suggest.Smallest(s, &s.Shapes[s.Pending[0].Shape], nil, nil, &c.reason))
		if got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.cluster, got, c.want)
		}
	}
}

// The missing object may be one that a claim needs, not the claim itself.
func TestMissingObjectsAreToBeCreated(t *testing.T) {
	for blocked, want := range map[string]string{
		"persistentVolumeClaim data does not exist":                                              "would fit in pool p if persistentVolumeClaim data were created",
		"persistentVolumeClaim data does not exist: create it":                                   "would fit in pool p if persistentVolumeClaim data were created",
		"persistentVolumeClaim data asks for storageClass fast, which does not exist: create it": "would fit in pool p if storageClass fast were created",
		"persistentVolumeClaim data is not bound yet":                                            "",
	} {
		if got := reason.Change(of(t, "pool p\npods 1 web cpu=1 blocked("+strconv.Quote(blocked)+")")); got != want {
			t.Errorf("%s: got %q, want %q", blocked, got, want)
		}
	}
}
