package explain

import (
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

func TestVerdictsAreSentences(t *testing.T) {
	for want, v := range map[string]model.PoolVerdict{
		"no instance type of pool general-purpose has resource vpc.amazonaws.com/pod-eni":  {Pool: "general-purpose", Rule: model.RuleResource, Object: "vpc.amazonaws.com/pod-eni", Detail: "1"},
		"pool general: needs memory 900Gi, the largest type m7i.48xlarge offers 740Gi":     {Pool: "general", Rule: model.RuleResource, Object: "memory", Detail: "900Gi", Best: "740Gi", BestOf: "m7i.48xlarge"},
		"limit cpu 10 of pool small is reached (10 used)":                                  {Pool: "small", Rule: model.RuleLimit, Object: "cpu", Detail: "10", Best: "10"},
		"pool gpu: does not tolerate taint gpu=true:NoSchedule":                            {Pool: "gpu", Rule: model.RuleTaint, Object: "gpu=true:NoSchedule"},
		"no instance type or offering of pool arm has kubernetes.io/arch In [s390x]":       {Pool: "arm", Rule: model.RuleRequirement, Object: model.LabelArch, Detail: "kubernetes.io/arch In [s390x]"},
		"pool general is not ready: no subnets found":                                      {Pool: "general", Rule: model.RulePoolNotReady, Detail: "no subnets found"},
		"pool p: all offerings that fit are out of capacity for now (such as p5.48xlarge)": {Pool: "p", Rule: model.RuleCapacity, Object: "p5.48xlarge"},
	} {
		if got := Verdict(v); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestALaunchSaysWhatTheNextBestWouldHaveCost(t *testing.T) {
	s := &model.Snapshot{ResourceNames: model.WellKnownResources, Pools: []model.Pool{{Name: "general"}}}
	l := model.Launch{
		Pool: "general", Types: []string{"c7g.2xlarge", "c7i.2xlarge"}, Pods: make([]model.PodKey, 7),
		Requests: model.Resources{model.CPU: 7150, model.Memory: 3 << 30, model.Pods: 9},
		Chosen:   model.Candidate{OfferingKey: model.OfferingKey{Type: "c7g.2xlarge", Zone: "us-east-1a", CapacityType: model.Spot}, Price: 118_400},
		RunnerUp: model.Candidate{OfferingKey: model.OfferingKey{Type: "c7i.2xlarge"}, Price: 140_000},
	}
	want := "c7g.2xlarge spot in us-east-1a at $0.1184/h for 7 pods (cpu 7150m, memory 3Gi, pods 9), pool general; next best c7i.2xlarge, $0.0216/h more; 1 other type may stand in"
	if got := Launch(s, l); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDollars(t *testing.T) {
	for p, want := range map[model.Price]string{0: "$0.00/h", 40_000: "$0.04/h", 42_500: "$0.0425/h", 1_000_000: "$1.00/h", 12_345_600: "$12.3456/h", 300: "$0.0003/h"} {
		if got := Dollars(p); got != want {
			t.Errorf("%d: %s, want %s", p, got, want)
		}
	}
}
