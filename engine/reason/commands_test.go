package reason

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

func TestCommandNamesTheReplacement(t *testing.T) {
	s := &model.Snapshot{Nodes: []model.Node{{Name: "n1", Type: "c7g.4xlarge", CapacityType: model.OnDemand}}}
	launch := model.Launch{Chosen: model.Candidate{OfferingKey: model.OfferingKey{
		Type: "c7g.large", Zone: "a",
		CapacityType: model.Spot,
	}, Price: 40_000}}
	removals := func(names ...string) (out []model.Removal) {
		for _, n := range names {
			out = append(out, model.Removal{Node: n})
		}
		return out
	}
	for want, c := range map[string]model.Command{
		"replace n1 (c7g.4xlarge on-demand) with c7g.large spot in a at $0.0400/h: its pods cost less elsewhere; saves $0.3600/h": {
			Method: model.Underutilized, Removals: removals("n1"), Launches: []model.Launch{launch}, Saves: 360_000,
		},
		"remove n1 (c7g.4xlarge on-demand), n2: their pods cost less elsewhere; other nodes have room for 2 pods; saves $0.8000/h": {
			Method: model.Underutilized, Removals: removals("n1", "n2"), Placements: make([]model.Placement, 2), Saves: 800_000,
		},
		"replace n2 with c7g.large spot in a at $0.0400/h: it no longer matches its NodePool and node class; costs $0.0100/h more": {
			Method: model.Drifted, Removals: removals("n2"), Launches: []model.Launch{launch}, Saves: -10_000,
		},
		"replace n2, n3, n4, n5, n6 and 2 more with 2 nodes, such as c7g.large spot in a at $0.0400/h: they no longer match their NodePools and node classes": {
			Method: model.Drifted, Removals: removals("n2", "n3", "n4", "n5", "n6", "n7", "n8"),
			Launches: []model.Launch{launch, launch},
		},
	} {
		if got := Command(s, c); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestEveryRuleThatKeepsANodeHasASentence(t *testing.T) {
	for _, rule := range []model.Rule{
		model.RuleNeeded, model.RuleNotInitialized, model.RuleBudget, model.RuleDoNotDisrupt, model.RuleTooYoung,
		model.RuleNever, model.RuleEvictionBlocked,
		model.RuleGone, model.RuleNotDrifted, model.RuleNoPlace, model.RuleNotCheaper, model.RuleMoreNodes,
		model.RuleSpotToSpot,
		model.RuleWhenEmpty, model.RuleBalanced, model.RuleNoPrice, model.RuleStatic, model.RuleNoPool, model.RuleSteps,
		model.RulePoolNotReady,
		model.RuleLimit, model.RuleCapacity, model.RulePayback, model.RuleFragile,
	} {
		r := model.Reason{Rule: rule, Object: "it", Detail: "some", Best: "1"}
		if got := Kept(model.Kept{Node: "n", Reason: r}); strings.Contains(got, string(rule)+" it") {
			t.Errorf("%s has no sentence: %s", rule, got)
		}
		if got := Undone(r); got == "" || strings.Contains(got, "is kept") {
			t.Errorf("%s does not say why a command is undone: %q", rule, got)
		}
	}
}
