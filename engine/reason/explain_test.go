package reason

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

func TestVerdictsAreSentences(t *testing.T) {
	for want, v := range map[string]model.PoolVerdict{
		"no instance type of pool general-purpose has resource vpc.amazonaws.com/pod-eni":                                      {Pool: "general-purpose", Rule: model.RuleResource, Object: "vpc.amazonaws.com/pod-eni", Detail: "1"},
		"pool general: requests memory 900Gi; the largest type, m7i.48xlarge, offers 740Gi":                                    {Pool: "general", Rule: model.RuleResource, Object: "memory", Detail: "900Gi", Best: "740Gi", BestOf: "m7i.48xlarge"},
		"limit cpu 10 of pool small is reached (10 used)":                                                                      {Pool: "small", Rule: model.RuleLimit, Object: "cpu", Detail: "10", Best: "10"},
		"pool gpu: does not tolerate taint gpu=true:NoSchedule":                                                                {Pool: "gpu", Rule: model.RuleTaint, Object: "gpu=true:NoSchedule"},
		"no instance type or offering of pool arm has kubernetes.io/arch In [s390x]":                                           {Pool: "arm", Rule: model.RuleRequirement, Object: model.LabelArch, Detail: "kubernetes.io/arch In [s390x]"},
		"pool general is not ready: no subnets found":                                                                          {Pool: "general", Rule: model.RulePoolNotReady, Detail: "no subnets found"},
		"pool p: host port TCP 8080 is taken on every node by DaemonSet kube-system/proxy":                                     {Pool: "p", Rule: model.RuleHostPort, Object: "TCP 8080", Detail: "DaemonSet kube-system/proxy"},
		"pool p: its requirements on arch contradict each other":                                                               {Pool: "p", Rule: model.RuleRequirement, Object: "arch", Detail: "arch In []"},
		"pool p: requires a node by its name (metadata.name In [n9]), and a new node has another name":                         {Pool: "p", Rule: model.RuleRequirement, Object: model.NodeNameField, Detail: "field:metadata.name In [n9]"},
		"pool p: no node can reach all of its volumes x, y (zone In [a]; zone In [b])":                                         {Pool: "p", Rule: model.RuleVolume, Object: "x, y", Detail: "zone In [a]; zone In [b]"},
		"pool p: host port TCP 8080 is taken on every node that it fits":                                                       {Pool: "p", Rule: model.RuleHostPort, Object: "TCP 8080"},
		"pool p: its required pod affinity cannot be met: no node can share kubernetes.io/hostname with pods with app In [db]": {Pool: "p", Rule: model.RuleAffinity, Object: model.LabelHostname, Detail: "app In [db]"},
		"pool p: no node satisfies its topology spread over topology.kubernetes.io/zone (maxSkew 1)":                           {Pool: "p", Rule: model.RuleSpread, Object: model.LabelZone, Detail: "maxSkew 1"},
		"pool p: no node can reach its volume default/data (topology.kubernetes.io/zone In [c])":                               {Pool: "p", Rule: model.RuleVolume, Object: "default/data", Detail: "topology.kubernetes.io/zone In [c]"},
		"pool p: only other nodes have the devices of gpu that it requires (type In [p5])":                                     {Pool: "p", Rule: model.RuleVolume, Object: "devices of gpu", Detail: "type In [p5]"},
		"pool p: needs 30 volumes of driver ebs.csi.aws.com on one node; no node takes more than 26":                           {Pool: "p", Rule: model.RuleVolumeLimit, Object: "ebs.csi.aws.com", Detail: "30", Best: "26"},
		"pool p: no node can reach its volume data (zone In [b]); storageClass array has less than the 20Gi requested: 5Gi at zone In [a]; add storage there, or request less": {
			Pool: "p", Rule: model.RuleVolume, Object: "data", Detail: "zone In [b]",
			Best: "storageClass array has less than the 20Gi requested: 5Gi at zone In [a]",
		},
		"the other nodes of this plan take what the limits of pool small leave; the pod is planned for again once they are launched": {
			Pool: "small", Rule: model.RuleLimit,
		},
		"pool p: the other nodes of this plan leave few addresses in a, b (at most 45 in a subnet); the pod is planned for again once they are launched": {
			Pool: "p", Rule: model.RuleAddresses, Object: "a, b", Detail: "8", Best: "45", BestOf: "m5.large",
		},
		"a node of pool p needs at least 33 addresses of its subnet (m5.large), all but its own in free /28 blocks, and no subnet in a, b has more than 0 of these; subnet s-1 in a has 200 free addresses but no free /28 block; reserve a range of it for prefixes (a subnet CIDR reservation), or add subnets to its EC2NodeClass": {
			Pool: "p", Rule: model.RuleAddresses, Object: "a, b", Detail: "33", Best: "0", BestOf: "m5.large",
			Fragmented: &model.Subnet{ID: "s-1", Zone: "a", Scattered: 200},
		},
		"a node of pool p needs at least 49 addresses of its subnet (m5.large), all but its own in free /28 blocks, and no subnet in a has more than 16 of these; subnet s-1 in a has 51 free addresses but only 1 free /28 block; reserve a range of it for prefixes (a subnet CIDR reservation), or add subnets to its EC2NodeClass": {
			Pool: "p", Rule: model.RuleAddresses, Object: "a", Detail: "49", Best: "16", BestOf: "m5.large",
			Fragmented: &model.Subnet{ID: "s-1", Zone: "a", Free: 16, Scattered: 35},
		},
		"pool p: all offerings that fit are out of capacity (such as p5.48xlarge)": {Pool: "p", Rule: model.RuleCapacity, Object: "p5.48xlarge"},
	} {
		if got := Verdict(v); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestLaunchNamesTheRunnerUp(t *testing.T) {
	s := &model.Snapshot{ResourceNames: model.WellKnownResources, Pools: []model.Pool{{Name: "general"}}}
	l := model.Launch{
		Pool: "general", Types: []string{"c7g.2xlarge", "c7i.2xlarge"}, Pods: make([]model.PodKey, 7),
		Requests: model.Resources{model.CPU: 7150, model.Memory: 3 << 30, model.Pods: 9},
		Chosen: model.Candidate{OfferingKey: model.OfferingKey{
			Type: "c7g.2xlarge", Zone: "us-east-1a",
			CapacityType: model.Spot,
		}, Price: 118_400},
		RunnerUp: model.Candidate{OfferingKey: model.OfferingKey{Type: "c7i.2xlarge"}, Price: 140_000},
	}
	want := "c7g.2xlarge spot in us-east-1a at $0.1184/h for 7 pods (cpu 7150m, memory 3Gi, pods 9), pool general; next best c7i.2xlarge, $0.0216/h more; 1 other type allowed"
	if got := Launch(s, l); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A launch that avoids a cheaper zone because its subnet is fragmented says so, unless its pods choose their zone.
func TestALaunchNamesTheFragmentedSubnetThatItAvoids(t *testing.T) {
	offer := func(zone string, price model.Price) model.Offering {
		return model.Offering{Zone: zone, CapacityType: model.Spot, Price: price, Available: true}
	}
	m := model.InstanceType{
		Name: "m", Offerings: []model.Offering{offer("a", 1), offer("b", 2), offer("c", 3)},
		Addresses: []model.AddressStep{{Pods: 29, Addresses: 33}},
	}
	s := &model.Snapshot{
		ResourceNames: model.WellKnownResources, Shapes: make([]model.Shape, 2),
		Pools: []model.Pool{{Name: "p", Types: []model.InstanceType{m}, Subnets: []string{"s-a", "s-c"}}},
		Subnets: []model.Subnet{
			{ID: "s-a", Zone: "a", Free: 16, Scattered: 184}, {ID: "s-c", Zone: "c", Scattered: 99},
		},
	}
	for n, zone := range []string{"", "b"} {
		if zone != "" {
			s.Shapes[n].Required = model.NewRequirements(model.OneOf(model.LabelZone, zone))
		}
		key := model.PodKey{Namespace: "default", Name: "to " + zone}
		s.Pending = append(s.Pending, model.Pod{PodKey: key, Shape: n})
		const says = "; subnet s-a in a has 200 free addresses but only 1 free /28 block; no other type fits"
		got := Launch(s, model.Launch{Pool: "p", Pods: []model.PodKey{key}, Chosen: model.Candidate{
			OfferingKey: model.OfferingKey{Type: "m", Zone: "b", CapacityType: model.Spot}, Price: 2,
		}})
		if strings.Contains(got, says) != (zone == "") {
			t.Errorf("for a pod that requires zone %q: %s", zone, got)
		}
	}
	s.Subnets[0].Scattered = 0
	if got := Launch(s, model.Launch{Pool: "p", Chosen: model.Candidate{
		OfferingKey: model.OfferingKey{Type: "m", Zone: "b", CapacityType: model.Spot}, Price: 2,
	}}); strings.Contains(got, "subnet") {
		t.Errorf("nothing is scattered: %s", got)
	}
}

func TestDollars(t *testing.T) {
	for p, want := range map[model.Price]string{
		0: "$0.0000/h", 40_000: "$0.0400/h", 42_500: "$0.0425/h",
		1_000_000: "$1.0000/h", 12_345_600: "$12.3456/h", 300: "$0.0003/h",
	} {
		if got := Dollars(p); got != want {
			t.Errorf("%d: %s, want %s", p, got, want)
		}
	}
}

func TestMoney(t *testing.T) {
	for want, c := range map[string]struct {
		dollars  float64
		decimals int
	}{
		"$5.00": {5, 2}, "-$5.00": {-5, 2}, "-$123.4500": {-123.45, 4}, "-$1,234,567": {-1_234_567, 0},
		"$999.99": {999.99, 2}, "$1,000.00": {999.999, 2}, "$0.00": {-0.004, 2}, "$0": {-0.4, 0}, "-$0.0400": {-0.04, 4},
	} {
		if got := Money(c.dollars, c.decimals); got != want {
			t.Errorf("%v with %d decimals: %s, want %s", c.dollars, c.decimals, got, want)
		}
	}
}

func TestEveryRuleThatRefusesAPodHasASentence(t *testing.T) {
	for _, rule := range []model.Rule{
		model.RuleUnmodelled, model.RuleBlocked, model.RulePriority, model.RulePoolNotReady, model.RuleTaint,
		model.RuleRequirement,
		model.RuleResource, model.RuleLimit, model.RuleCapacity, model.RuleAddresses, model.RuleMinValues, model.RuleAffinity,
		model.RuleAntiAffinity,
		model.RuleSpread, model.RuleHostPort, model.RuleVolume, model.RuleVolumeLimit, model.RuleVolumeInUse,
		model.RuleNoPool,
		model.RuleCatalog, model.RuleSteps,
	} {
		if got := Pod(model.Reason{Rule: rule, Object: "it", Detail: "some"}); strings.HasPrefix(got, string(rule)) {
			t.Errorf("%s has no sentence: %s", rule, got)
		}
	}
}

func TestReasonEndsWithTheSmallestChange(t *testing.T) {
	r := model.Reason{
		Rule: model.RuleBlocked, Detail: "persistentVolumeClaim data does not exist",
		Change: model.Change{Rule: model.RuleBlocked, Object: "persistentVolumeClaim data", Pool: "general", To: "created"},
	}
	want := "persistentVolumeClaim data does not exist; would fit in pool general if persistentVolumeClaim data were created"
	if got := Pod(r); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for want, c := range map[string]model.Change{
		"would fit in pool p if its pod anti-affinity on kubernetes.io/hostname were preferred, not required":                {Rule: model.RuleAntiAffinity, Object: model.LabelHostname, Pool: "p", From: "required", To: "preferred"},
		"would fit in pool p if its topology spread over topology.kubernetes.io/zone were ScheduleAnyway, not DoNotSchedule": {Rule: model.RuleSpread, Object: model.LabelZone, Pool: "p", From: "DoNotSchedule", To: "ScheduleAnyway"},
		"would need a NodePool": {Rule: model.RuleNoPool, Object: "NodePool", To: "created"},
		"":                      {},
	} {
		if got := Change(c); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
